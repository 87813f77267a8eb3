//! Lists of resources (`cpu: 100m`) and what pods ask for in sum.

use std::collections::BTreeMap;

use triptych_object::{Quantity, Value};

/// Amounts by resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// Reads a ResourceList; what is no quantity is left out.
pub fn amounts(list: Option<&Value>) -> Amounts {
    let entries = list.and_then(Value::as_object).into_iter().flat_map(|map| map.iter());
    entries
        .filter_map(|(name, amount)| Some((name.to_owned(), amount.as_str()?.parse().ok()?)))
        .collect()
}

/// `requests` or `limits` of a container (or of a pod as a whole).
pub fn of_container(container: &Value, member: &str) -> Amounts {
    amounts(container.at(&["resources", member]))
}

/// Adds amounts.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => drop(to.insert(name.clone(), amount.clone())),
        }
    }
}

/// Keeps the larger of each.
pub fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        match to.get_mut(name) {
            Some(known) if *known >= *amount => {}
            _ => drop(to.insert(name.clone(), amount.clone())),
        }
    }
}

/// What all containers of a pod's spec ask for in sum (`member` is `requests` or `limits`).
pub fn of_containers(spec: &Value, member: &str) -> Amounts {
    sum(spec, |container| of_container(container, member))
}

/// What all containers of a pod's spec ask for in sum, each asking for what `of_one` says: init containers run one after
/// another beside the sidecars before them, and ask for more than the rest only if one of them does (KEP-753).
pub fn sum(spec: &Value, of_one: impl Fn(&Value) -> Amounts) -> Amounts {
    let mut sum = Amounts::new();
    for container in spec.array_at(&["containers"]) {
        add(&mut sum, &of_one(container));
    }
    let (mut sidecars, mut while_starting) = (Amounts::new(), Amounts::new());
    for container in spec.array_at(&["initContainers"]) {
        let mut own = of_one(container);
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise(&mut while_starting, &own);
    }
    raise(&mut sum, &while_starting);
    sum
}

/// What a pod asks for in sum, where the pod as a whole may ask for the resources that `whole` names.
pub fn of_pod(spec: &Value, member: &str, whole: impl Fn(&str) -> bool) -> Amounts {
    let mut sum = of_containers(spec, member);
    let own = of_container(spec, member);
    sum.extend(own.into_iter().filter(|(name, _)| whole(name)));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    fn text(amounts: &Amounts) -> String {
        let parts: Vec<String> = amounts
            .iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect();
        parts.join(" ")
    }

    #[test]
    fn a_pod_asks_for_its_containers_together_or_for_its_largest_start() {
        let container = |cpu: &str, more: &str| format!(r#"{{"resources":{{"requests":{{"cpu":"{cpu}"}}}}{more}}}"#);
        let sidecar = container("1", r#","restartPolicy":"Always""#);
        for (init, main, sum) in [
            (vec![], vec![container("1", ""), container("500m", "")], "cpu=1500m"),
            (vec![container("4", "")], vec![container("1", "")], "cpu=4"),
            (
                vec![sidecar.clone(), container("4", "")],
                vec![container("1", "")],
                "cpu=5",
            ),
            (vec![container("1", ""), sidecar], vec![container("1", "")], "cpu=2"),
        ] {
            let (init, main) = (init.join(","), main.join(","));
            let spec = tree(&format!(r#"{{"initContainers":[{init}],"containers":[{main}]}}"#));
            assert_eq!(text(&of_containers(&spec, "requests")), sum);
        }
    }

    #[test]
    fn the_pod_as_a_whole_may_say_what_it_asks_for() {
        let spec = tree(
            r#"{"resources":{"requests":{"cpu":"3","other":"1"}},"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]}"#,
        );
        let sum = of_pod(&spec, "requests", |name| name == "cpu");
        assert_eq!(text(&sum), "cpu=3 memory=1Gi");
    }
}
