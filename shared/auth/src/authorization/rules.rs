//! RBAC's policy rules: what they allow, what they cover, how they read in messages.
//!
//! Contract: rules only add permissions. `covers` breaks rules down to single permissions, so that each is held or
//! missing as a whole; the number of those is bounded, since a small document can name astronomically many.

use std::fmt;
use std::ops::ControlFlow;

use triptych_object::{RequestInfo, Value, field};

/// `rbac.authorization.k8s.io/v1` PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// Verbs; `*` is every verb.
    pub verbs: Vec<String>,
    /// Groups of the resources; `*` is every group.
    pub api_groups: Vec<String>,
    /// Resources, `resource/subresource`, `*/subresource` or `*`.
    pub resources: Vec<String>,
    /// Names; none is every name.
    pub resource_names: Vec<String>,
    /// Paths, or beginnings of paths ending in `*`.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads a rule.
    pub fn from_value(rule: &Value) -> PolicyRule {
        PolicyRule {
            verbs: texts(rule, "verbs"),
            api_groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            resource_names: texts(rule, "resourceNames"),
            non_resource_urls: texts(rule, "nonResourceURLs"),
        }
    }

    /// Reads the rules of a role or cluster role.
    pub fn of_role(role: &Value) -> Vec<PolicyRule> {
        role.array_at(&["rules"]).iter().map(PolicyRule::from_value).collect()
    }

    /// Writes a rule, members in Go's order.
    pub fn to_value(&self) -> Value {
        let mut out = Value::from([("verbs", self.verbs.clone().into())]);
        for (member, list) in [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ] {
            if !list.is_empty() {
                out.set_at(&[member], list.clone().into());
            }
        }
        out
    }

    /// True if this rule alone allows the request.
    pub fn allows(&self, request: &RequestInfo) -> bool {
        if !has_or_all(&self.verbs, &request.verb) {
            return false;
        }
        if !request.is_resource {
            return self.non_resource_urls.iter().any(|url| url_covers(url, &request.path));
        }
        has_or_all(&self.api_groups, &request.group)
            && self.resources.iter().any(|r| resource_matches(r, request))
            && (self.resource_names.is_empty() || has(&self.resource_names, &request.name))
    }

    /// Visits the single permissions this rule is made of.
    fn each_permission(&self, visit: &mut dyn FnMut(Permission<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let permission = |name| Permission::Resource {
                        group,
                        resource,
                        verb,
                        name,
                    };
                    if self.resource_names.is_empty() {
                        visit(permission(None))?;
                    }
                    for name in &self.resource_names {
                        visit(permission(Some(name)))?;
                    }
                }
            }
        }
        for url in &self.non_resource_urls {
            for verb in &self.verbs {
                visit(Permission::Url { url, verb })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// True if this rule gives the permission.
    fn gives(&self, permission: Permission<'_>) -> bool {
        match permission {
            Permission::Url { url, verb } => {
                has_or_all(&self.verbs, verb) && self.non_resource_urls.iter().any(|own| url_covers(own, url))
            }
            Permission::Resource {
                group,
                resource,
                verb,
                name,
            } => {
                has_or_all(&self.verbs, verb)
                    && has_or_all(&self.api_groups, group)
                    && self.resources.iter().any(|own| resource_covers(own, resource))
                    && (self.resource_names.is_empty() || name.is_some_and(|n| has(&self.resource_names, n)))
            }
        }
    }
}

/// The least that a rule can give.
#[derive(Clone, Copy)]
enum Permission<'a> {
    Resource {
        group: &'a str,
        resource: &'a str,
        verb: &'a str,
        name: Option<&'a String>,
    },
    Url {
        url: &'a str,
        verb: &'a str,
    },
}

impl Permission<'_> {
    /// The rule that gives just this.
    fn rule(self) -> PolicyRule {
        match self {
            Permission::Url { url, verb } => PolicyRule {
                verbs: vec![verb.to_owned()],
                non_resource_urls: vec![url.to_owned()],
                ..PolicyRule::default()
            },
            Permission::Resource {
                group,
                resource,
                verb,
                name,
            } => PolicyRule {
                verbs: vec![verb.to_owned()],
                api_groups: vec![group.to_owned()],
                resources: vec![resource.to_owned()],
                resource_names: name.cloned().into_iter().collect(),
                ..PolicyRule::default()
            },
        }
    }
}

/// Rules that name more permissions than can be checked one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// So many comparisons of a permission with a held rule are made for one question.
const MAX_COMPARISONS: usize = 20_000_000;
/// So many permissions are looked at for one question.
const MAX_PERMISSIONS: usize = 200_000;

/// What of `wanted` is not held by anybody who has `held`: compacted, one rule for each resource. Empty if all is.
pub fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Result<Vec<PolicyRule>, TooMany> {
    let mut compact: Vec<PolicyRule> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for rule in single_missing(held, wanted)? {
        if rule.resources.is_empty() {
            compact.push(rule);
            continue;
        }
        let key = (
            rule.api_groups.clone(),
            rule.resources.clone(),
            rule.resource_names.clone(),
        );
        match places.get(&key) {
            Some(&place) => {
                let there: &mut PolicyRule = &mut compact[place];
                there.verbs.extend(rule.verbs);
            }
            None => {
                places.insert(key, compact.len());
                compact.push(rule);
            }
        }
    }
    Ok(compact)
}

/// What of `wanted` is not held by anybody who has `held`: a rule for each permission. Empty if all is.
pub fn single_missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Result<Vec<PolicyRule>, TooMany> {
    let mut left = MAX_PERMISSIONS.min(MAX_COMPARISONS / held.len().max(1));
    let mut missing = Vec::new();
    for rule in wanted {
        let flow = rule.each_permission(&mut |permission| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            if !held.iter().any(|h| h.gives(permission)) {
                missing.push(permission.rule());
            }
            ControlFlow::Continue(())
        });
        if flow.is_break() {
            return Err(TooMany);
        }
    }
    Ok(missing)
}

impl fmt::Display for PolicyRule {
    /// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        f.write_str("{")?;
        let mut separator = "";
        for (name, list) in parts.into_iter().filter(|(_, list)| !list.is_empty()) {
            write!(f, "{separator}{name}:{}", quoted(list))?;
            separator = ", ";
        }
        f.write_str("}")
    }
}

/// Go's `%q` of a list: `["a" "b"]`.
pub(crate) fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|s| field::quote(s)).collect();
    format!("[{}]", quoted.join(" "))
}

fn texts(rule: &Value, member: &str) -> Vec<String> {
    let list = rule.array_at(&[member]).iter();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|t| t == text)
}

fn has_or_all(list: &[String], text: &str) -> bool {
    list.iter().any(|t| t == "*" || t == text)
}

/// True if a rule's resource matches the one asked for.
fn resource_matches(rule: &str, request: &RequestInfo) -> bool {
    if rule == "*" {
        return true;
    }
    if request.subresource.is_empty() {
        return rule == request.resource;
    }
    match rule.split_once('/') {
        Some(("*", subresource)) => subresource == request.subresource,
        // A resource's own name may not hold a slash, but an attribute of a review may.
        Some(_) => {
            rule.strip_prefix(request.resource.as_str())
                .and_then(|r| r.strip_prefix('/'))
                == Some(request.subresource.as_str())
        }
        None => false,
    }
}

/// True if a rule's resource includes another rule's.
fn resource_covers(own: &str, other: &str) -> bool {
    if own == "*" || own == other {
        return true;
    }
    let subresource = other.split_once('/').map(|(_, s)| s);
    own.strip_prefix("*/").is_some_and(|s| Some(s) == subresource)
}

/// True if a rule's path, which may end in `*`, includes another path.
fn url_covers(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        if text == "-" {
            return Vec::new();
        }
        text.split(',').map(|t| t.trim_matches('\'').to_owned()).collect()
    }

    /// `verbs groups resources [names]`; `''` is the core group.
    fn rule(text: &str) -> PolicyRule {
        let parts: Vec<&str> = text.split(' ').collect();
        if parts.len() == 2 {
            return PolicyRule {
                verbs: list(parts[0]),
                non_resource_urls: list(parts[1]),
                ..PolicyRule::default()
            };
        }
        PolicyRule {
            verbs: list(parts[0]),
            api_groups: list(parts[1]),
            resources: list(parts[2]),
            resource_names: parts.get(3).map(|n| list(n)).unwrap_or_default(),
            ..PolicyRule::default()
        }
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        for (rules, verb, group, resource, name, want) in [
            ("get '' pods", "get", "", "pods", "x", true),
            ("get '' pods", "list", "", "pods", "", false),
            ("get '' pods", "get", "apps", "pods", "", false),
            ("get '' pods", "get", "", "pods/log", "x", false),
            ("* * *", "escalate", "a.b", "c/d", "", true),
            ("get '' *", "get", "", "pods/log", "", true),
            ("get '' pods/log", "get", "", "pods/log", "", true),
            ("get '' pods/log", "get", "", "pods", "", false),
            ("get '' pods/*", "get", "", "pods/log", "", false),
            ("update * */scale", "update", "apps", "deployments/scale", "d", true),
            ("update * */scale", "update", "apps", "deployments", "d", false),
            ("update * */scale", "update", "apps", "deployments/upscale", "d", false),
            ("get '' pods a,b", "get", "", "pods", "b", true),
            ("get '' pods a,b", "get", "", "pods", "c", false),
            ("list '' pods a", "list", "", "pods", "", false),
            (
                "get,list '',apps pods,deployments",
                "list",
                "apps",
                "deployments",
                "",
                true,
            ),
            ("get /healthz", "get", "", "pods", "", false),
        ] {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let request = RequestInfo {
                is_resource: true,
                verb: verb.to_owned(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                name: name.to_owned(),
                ..RequestInfo::default()
            };
            assert_eq!(
                rule(rules).allows(&request),
                want,
                "{rules}: {verb} {resource}/{subresource}"
            );
        }
    }

    #[test]
    fn a_rule_allows_the_paths_it_begins() {
        for (rules, verb, path, want) in [
            ("get /healthz", "get", "/healthz", true),
            ("get /healthz", "get", "/healthz/etcd", false),
            ("get /healthz/*", "get", "/healthz/etcd", true),
            ("get /healthz/*", "get", "/healthz", false),
            ("get /api*", "get", "/apis/apps", true),
            ("get *", "get", "/anything", true),
            ("* /metrics", "post", "/metrics", true),
            ("get /metrics", "post", "/metrics", false),
            ("get '' pods", "get", "/pods", false),
        ] {
            let request = RequestInfo {
                verb: verb.to_owned(),
                path: path.to_owned(),
                ..RequestInfo::default()
            };
            assert_eq!(rule(rules).allows(&request), want, "{rules}: {verb} {path}");
        }
    }

    #[test]
    fn what_is_not_held_is_missing() {
        for (held, wanted, want) in [
            (vec!["get '' pods"], vec!["get '' pods"], vec![]),
            (vec!["* * *"], vec!["get,list a,b c,d/e n"], vec![]),
            (
                vec!["* * *"],
                vec!["get /x"],
                vec![r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#],
            ),
            (vec!["get '' pods", "list '' pods"], vec!["get,list '' pods"], vec![]),
            (
                vec!["get '' pods"],
                vec!["get,list,watch '' pods,secrets"],
                vec![
                    r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#,
                    r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}"#,
                ],
            ),
            (vec!["update * */scale"], vec!["update apps deployments/scale"], vec![]),
            (
                vec!["update * */scale"],
                vec!["update apps *"],
                vec![r#"{APIGroups:["apps"], Resources:["*"], Verbs:["update"]}"#],
            ),
            (vec!["get '' pods"], vec!["get '' pods a"], vec![]),
            (vec!["get '' pods a"], vec!["get '' pods a"], vec![]),
            (
                vec!["get '' pods a"],
                vec!["get '' pods"],
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#],
            ),
            (
                vec!["get '' pods a"],
                vec!["get '' pods a,b"],
                vec![r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}"#],
            ),
            (vec!["get /api/*"], vec!["get /api/v1,/api/*"], vec![]),
            (
                vec!["get /api/*"],
                vec!["get /api*"],
                vec![r#"{NonResourceURLs:["/api*"], Verbs:["get"]}"#],
            ),
            (vec![], vec!["- '' pods"], vec![]),
        ] {
            let rules = |texts: &[&str]| texts.iter().map(|t| rule(t)).collect::<Vec<_>>();
            let got = missing(&rules(&held), &rules(&wanted));
            let got: Vec<String> = got.unwrap_or_default().iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{held:?} against {wanted:?}");
        }
    }

    #[test]
    fn astronomically_many_permissions_are_not_counted_out() {
        let many: Vec<String> = (0..2000).map(|i| i.to_string()).collect();
        let wanted = PolicyRule {
            verbs: many.clone(),
            api_groups: many.clone(),
            resources: many.clone(),
            resource_names: many,
            ..PolicyRule::default()
        };
        let all = rule("* * *");
        assert_eq!(missing(&[all], &[wanted]), Err(TooMany));
    }

    #[test]
    fn a_rule_survives_being_written() {
        for text in ["get,list '',apps pods a", "get /x,/y"] {
            assert_eq!(PolicyRule::from_value(&rule(text).to_value()), rule(text));
        }
    }
}
