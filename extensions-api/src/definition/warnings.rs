//! What clients are warned of: deprecated versions, formats that nobody checks.

use std::cell::RefCell;
use std::cmp::Ordering;

use triptych_object::Value;
use triptych_object::version::compare_kube_aware;
use triptych_schema::structural::is_known_format;

use super::internal::hoisted;
use super::validation::schema_walk::any_of_spec;

/// The warning of a deprecated version of a CRD.
pub fn deprecation_warning(crd: &Value, version: &Value) -> Option<String> {
    let flag = |v: &Value, name: &str| v.get(name).and_then(Value::as_bool) == Some(true);
    if !flag(version, "deprecated") {
        return None;
    }
    if let Some(text) = version.get("deprecationWarning").and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let (group, kind) = (crd.str_at(&["spec", "group"]), crd.str_at(&["spec", "names", "kind"]));
    let name = version.str_at(&["name"]);
    let mut text = format!("{group}/{name} {kind} is deprecated");
    let others = crd.array_at(&["spec", "versions"]).iter();
    let newer = others
        .filter(|v| flag(v, "served") && !flag(v, "deprecated"))
        .map(|v| v.str_at(&["name"]))
        .filter(|other| compare_kube_aware(other, name) == Ordering::Less)
        .min_by(|a, b| compare_kube_aware(a, b));
    if let Some(newer) = newer {
        text.push_str(&format!("; use {group}/{newer} {kind}"));
    }
    Some(text)
}

/// Formats in a CRD's schemas that are not checked, in the order found.
pub fn unrecognized_formats(crd: &Value) -> Vec<String> {
    let spec = hoisted(crd.get("spec").unwrap_or(&Value::Null));
    let found = RefCell::new(Vec::new());
    any_of_spec(&spec, &|schema| {
        let format = schema.str_at(&["format"]);
        if !format.is_empty() && !is_known_format(format, schema.str_at(&["type"])) {
            found.borrow_mut().push(format.to_owned());
        }
        false
    });
    found.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn a_deprecated_version_names_the_newest_that_is_not() {
        let crd = json::from_slice(
            br#"{"spec":{"group":"a.b","names":{"kind":"K"},"versions":[{"name":"v1beta1","served":true,"deprecated":true},
                {"name":"v1","served":true},{"name":"v2alpha1","served":true},{"name":"v2","served":false}]}}"#,
        )
        .unwrap();
        let versions = crd.array_at(&["spec", "versions"]);
        assert_eq!(
            deprecation_warning(&crd, &versions[0]).unwrap(),
            "a.b/v1beta1 K is deprecated; use a.b/v1 K"
        );
        assert_eq!(deprecation_warning(&crd, &versions[1]), None);
    }
}
