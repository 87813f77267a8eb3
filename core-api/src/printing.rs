//! Texts that the table cells of several kinds share (pkg/printers/internalversion).

use std::collections::BTreeSet;

use triptych_object::Value;

const NONE: &str = "<none>";

/// A map of labels: `a=b,c=d`.
pub fn labels(map: Option<&Value>) -> String {
    or_none(pairs(map))
}

fn pairs(map: Option<&Value>) -> Vec<String> {
    let members = map.and_then(Value::as_object);
    let mut pairs: Vec<String> = members
        .into_iter()
        .flat_map(|m| m.iter())
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    pairs.sort_unstable();
    pairs
}

fn or_none(parts: Vec<String>) -> String {
    if parts.is_empty() {
        NONE.to_owned()
    } else {
        parts.join(",")
    }
}

/// A label selector: `a=b,c in (x,y),!d`. An absent one selects nothing and shows no conditions either.
pub fn label_selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return "<none>".to_owned();
    };
    let mut parts: Vec<(String, String)> = Vec::new();
    for pair in pairs(selector.get("matchLabels")) {
        let key = pair.split('=').next().unwrap_or("").to_owned();
        parts.push((key, pair));
    }
    for requirement in selector.array_at(&["matchExpressions"]) {
        let key = requirement.str_at(&["key"]);
        let values: BTreeSet<&str> = requirement
            .array_at(&["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let list = values.into_iter().collect::<Vec<_>>().join(",");
        let text = match requirement.str_at(&["operator"]) {
            "In" => format!("{key} in ({list})"),
            "NotIn" => format!("{key} notin ({list})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        parts.push((key.to_owned(), text));
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    or_none(parts.into_iter().map(|(_, text)| text).collect())
}

/// The selector of a Deployment, which shows nothing where others show `<none>`.
pub fn deployment_selector(selector: Option<&Value>) -> String {
    match label_selector(selector) {
        text if text == NONE => String::new(),
        text if text == "<error>" => "<invalid>".to_owned(),
        text => text,
    }
}

/// The addresses, or else host names, that a load balancer got.
pub fn load_balancer(object: &Value) -> String {
    let ingress = object.array_at(&["status", "loadBalancer", "ingress"]).iter();
    let shown: BTreeSet<&str> = ingress
        .map(|i| match i.str_at(&["ip"]) {
            "" => i.str_at(&["hostname"]),
            ip => ip,
        })
        .filter(|text| !text.is_empty())
        .collect();
    shown.into_iter().collect::<Vec<_>>().join(",")
}

/// The first three of a list: `a,b,c + 2 more...`.
pub fn first_three(list: &[String]) -> String {
    const SHOWN: usize = 3;
    let shown = list[..list.len().min(SHOWN)].join(",");
    match list.len() {
        0 => "<unset>".to_owned(),
        n if n > SHOWN => format!("{shown} + {} more...", n - SHOWN),
        _ => shown,
    }
}

/// Access modes in their short forms, always in the same order.
pub fn access_modes(modes: &[Value]) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    let shown: Vec<&str> = SHORT
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn selectors_show_their_conditions_by_key() {
        let selector = json::from_slice(
            br#"{"matchLabels":{"b":"1","a":"2"},"matchExpressions":[{"key":"aa","operator":"In","values":["y","x"]},
                {"key":"c","operator":"DoesNotExist"}]}"#,
        )
        .unwrap();
        assert_eq!(label_selector(Some(&selector)), "a=2,aa in (x,y),b=1,!c");
        assert_eq!(label_selector(Some(&Value::object())), "<none>");
    }
}
