//! The bootstrap policy: its text, read into the objects it stands for.
//!
//! The grammar is at the top of `bootstrap.policy`. The text is part of the program; a mistake in it is found by a test.

use triptych_auth::authorization::index::RbacKind;
use triptych_auth::authorization::rules::PolicyRule;
use triptych_object::Value;

/// Group of everything here.
pub const GROUP: &str = "rbac.authorization.k8s.io";
/// Set to `false` by administrators who do not want a role reconciled.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

const TEXT: &str = include_str!("bootstrap.policy");

/// An object of the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyObject {
    /// Which of the four.
    pub kind: RbacKind,
    /// Empty for cluster-scoped ones.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// As it is created.
    pub object: Value,
}

/// The whole policy, each role before its binding.
pub fn policy() -> Result<Vec<PolicyObject>, String> {
    parse(TEXT)
}

/// The rules of one cluster role of the policy.
pub fn cluster_role_rules(name: &str) -> Vec<PolicyRule> {
    let found = policy().ok().and_then(|p| {
        p.into_iter()
            .find(|o| o.kind == RbacKind::ClusterRole && o.name == name)
    });
    found.map(|o| PolicyRule::of_role(&o.object)).unwrap_or_default()
}

/// A role under construction.
struct Role {
    namespace: String,
    name: String,
    rules: Vec<PolicyRule>,
    labels: Vec<String>,
    aggregates: Option<String>,
    /// Name and subjects of its binding.
    binding: Option<(String, Vec<Value>)>,
}

fn parse(text: &str) -> Result<Vec<PolicyObject>, String> {
    let mut objects = Vec::new();
    let mut role: Option<Role> = None;
    for (number, line) in text.lines().enumerate() {
        let at = |why: &str| format!("line {}: {why}", number + 1);
        let content = line.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        if indent == 0 {
            finish(role.take(), &mut objects);
            role = Some(begin(content).ok_or_else(|| at("this begins no role"))?);
            continue;
        }
        let role = role.as_mut().ok_or_else(|| at("no role has begun"))?;
        if indent > 2 {
            let rule = role.rules.last_mut().ok_or_else(|| at("no rule has begun"))?;
            more(rule, content);
        } else {
            clause(role, content).ok_or_else(|| at("this is no rule"))?;
        }
    }
    finish(role, &mut objects);
    Ok(objects)
}

fn begin(line: &str) -> Option<Role> {
    let (what, name) = line.split_once(' ')?;
    let mut role = Role {
        namespace: String::new(),
        name: name.to_owned(),
        rules: Vec::new(),
        labels: Vec::new(),
        aggregates: None,
        binding: None,
    };
    match what {
        "clusterrole" => {}
        "role" => {
            let (namespace, name) = name.split_once('/')?;
            role.namespace = namespace.to_owned();
            role.name = name.to_owned();
        }
        "controller" => {
            role.name = format!("system:controller:{name}");
            let account = subject(&format!("ServiceAccount:kube-system/{name}"))?;
            role.binding = Some((role.name.clone(), vec![account]));
        }
        _ => return None,
    }
    Some(role)
}

fn clause(role: &mut Role, line: &str) -> Option<()> {
    let mut columns = line.split("  ").map(str::trim).filter(|c| !c.is_empty());
    match columns.next()? {
        "labelled" => role.labels.push(columns.next()?.to_owned()),
        "aggregates" => role.aggregates = Some(columns.next()?.to_owned()),
        bound if bound == "bound" || bound.starts_with("bound as ") => {
            let name = bound.strip_prefix("bound as ").unwrap_or(&role.name).to_owned();
            role.binding = Some((name, columns.map(subject).collect::<Option<_>>()?));
        }
        verbs => {
            let mut rule = PolicyRule {
                verbs: expand(verbs),
                ..PolicyRule::default()
            };
            match columns.next()? {
                "urls" => rule.non_resource_urls = list(columns.next()?),
                groups => {
                    rule.api_groups = list(groups);
                    for group in &mut rule.api_groups {
                        if group == "core" {
                            group.clear();
                        }
                    }
                    rule.api_groups.sort();
                    more(&mut rule, columns.next()?);
                    rule.resource_names = columns.next().map(list).unwrap_or_default();
                }
            }
            role.rules.push(rule);
        }
    }
    Some(())
}

/// Adds resources, and after them names.
fn more(rule: &mut PolicyRule, content: &str) {
    let mut columns = content.split("  ").map(str::trim);
    rule.resources.extend(columns.next().map(list).unwrap_or_default());
    rule.resource_names.extend(columns.next().map(list).unwrap_or_default());
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect()
}

fn expand(verbs: &str) -> Vec<String> {
    const READ: &[&str] = &["get", "list", "watch"];
    const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
    let mut all: Vec<&str> = Vec::new();
    for verb in verbs.split(',') {
        match verb {
            "read" => all.extend(READ),
            "write" => all.extend(WRITE),
            "readwrite" => all.extend(READ.iter().chain(WRITE)),
            verb => all.push(verb),
        }
    }
    all.sort_unstable();
    all.into_iter().map(str::to_owned).collect()
}

fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(':')?;
    let mut out = Value::from([("kind", kind.into())]);
    if kind == "ServiceAccount" {
        let (namespace, name) = name.split_once('/')?;
        out.set_at(&["name"], name.into());
        out.set_at(&["namespace"], namespace.into());
    } else {
        out.set_at(&["apiGroup"], GROUP.into());
        out.set_at(&["name"], name.into());
    }
    Some(out)
}

/// Turns a finished role into its objects.
fn finish(role: Option<Role>, objects: &mut Vec<PolicyObject>) {
    let Some(role) = role else { return };
    let cluster = role.namespace.is_empty();
    let (kind, kind_name) = match cluster {
        true => (RbacKind::ClusterRole, "ClusterRole"),
        false => (RbacKind::Role, "Role"),
    };
    let mut object = new_object(kind_name, &role.namespace, &role.name);
    for label in &role.labels {
        object.set_at(&["metadata", "labels", &format!("{GROUP}/{label}")], "true".into());
    }
    if let Some(label) = &role.aggregates {
        let labels = Value::from([(format!("{GROUP}/{label}").as_str(), "true".into())]);
        let selector = Value::from([("matchLabels", labels)]);
        object.set_at(&["rules"], Value::Null);
        object.set_at(
            &["aggregationRule", "clusterRoleSelectors"],
            Value::Array(vec![selector]),
        );
    } else {
        let rules = role.rules.iter().map(PolicyRule::to_value).collect();
        object.set_at(&["rules"], Value::Array(rules));
    }
    objects.push(PolicyObject {
        kind,
        namespace: role.namespace.clone(),
        name: role.name.clone(),
        object,
    });
    let Some((name, subjects)) = role.binding else { return };
    let (kind, binding_kind) = match cluster {
        true => (RbacKind::ClusterRoleBinding, "ClusterRoleBinding"),
        false => (RbacKind::RoleBinding, "RoleBinding"),
    };
    let mut object = new_object(binding_kind, &role.namespace, &name);
    if !subjects.is_empty() {
        object.set_at(&["subjects"], Value::Array(subjects));
    }
    object.set_at(
        &["roleRef"],
        Value::from([
            ("apiGroup", GROUP.into()),
            ("kind", kind_name.into()),
            ("name", role.name.as_str().into()),
        ]),
    );
    objects.push(PolicyObject {
        kind,
        namespace: role.namespace,
        name,
        object,
    });
}

fn new_object(kind: &str, namespace: &str, name: &str) -> Value {
    let mut metadata = Value::from([("name", name.into())]);
    if !namespace.is_empty() {
        metadata.set_at(&["namespace"], namespace.into());
    }
    metadata.set_at(
        &["labels"],
        Value::from([("kubernetes.io/bootstrapping", "rbac-defaults".into())]),
    );
    metadata.set_at(&["annotations"], Value::from([(AUTO_UPDATE, "true".into())]));
    Value::from([
        ("apiVersion", format!("{GROUP}/v1").into()),
        ("kind", kind.into()),
        ("metadata", metadata),
    ])
}

#[cfg(test)]
mod tests {
    use triptych_object::{json, meta};

    use super::*;

    #[test]
    fn the_policy_can_be_read() {
        let policy = policy().unwrap();
        assert!(policy.len() > 100);
        assert!(!cluster_role_rules("system:node").is_empty());
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, line) in [
            ("nonsense", 1),
            ("clusterrole a\n  get", 2),
            ("  get  core  pods", 1),
            ("clusterrole a\n\n  bound  User", 3),
        ] {
            assert!(parse(text).unwrap_err().starts_with(&format!("line {line}:")), "{text}");
        }
    }

    /// The facts are beside the repository where it is developed; elsewhere there is nothing to compare with.
    #[test]
    fn the_policy_is_that_of_kubernetes() {
        let facts = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/facts");
        let facts = [facts, concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/facts")];
        let read = |file: &str| facts.iter().find_map(|dir| std::fs::read(format!("{dir}/{file}")).ok());
        let (Some(objects), Some(deltas)) = (read("rbac-boot.json"), read("peer-deltas.json")) else {
            return;
        };
        let deltas = String::from_utf8_lossy(&deltas).into_owned();
        let mut ours: std::collections::BTreeMap<String, Value> = policy()
            .unwrap()
            .into_iter()
            .map(|o| (format!("{:?} {}/{}", o.kind, o.namespace, o.name), o.object))
            .collect();
        for line in json::from_slice(&objects).unwrap().as_array().unwrap() {
            let mut theirs = line.get("object").unwrap().clone();
            if deltas.contains(&format!("ClusterRoleBinding {}\"", meta::name(&theirs))) {
                continue;
            }
            theirs.remove_at(&["metadata", "managedFields"]);
            let kind = theirs.str_at(&["kind"]).to_owned();
            let key = format!("{kind} {}/{}", meta::namespace(&theirs), meta::name(&theirs));
            assert_eq!(ours.remove(&key), Some(theirs), "{key}");
        }
        assert_eq!(ours.into_keys().collect::<Vec<_>>(), Vec::<String>::new());
    }
}
