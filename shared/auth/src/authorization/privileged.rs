//! Identities whose rights are fixed, and the modes AlwaysAllow and AlwaysDeny.
//!
//! Contract: `system:masters` may do everything. A tier's own identity (`system:tier:<name>`) may do what tiers need of
//! each other and nothing else: read what is mirrored, review, reconcile what belongs to the front door. Both come
//! before every configured mode.

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::user::MASTERS;
use triptych_object::{RequestInfo, UserInfo};

use super::resolver::{RuleResolver, UserRules};
use super::rules::PolicyRule;
use crate::authentication::x509::CREDENTIAL_ID;
use crate::authorizer::{Attributes, Authorizer, Decision, Reason};

/// Prefix of the tiers' own user names.
pub const TIER_PREFIX: &str = "system:tier:";

/// True for the identity of one of this control plane's own processes: proved by certificate, so that who may impersonate
/// any user name is no tier by that.
pub fn is_tier(user: &UserInfo) -> bool {
    let by_certificate = |ids: &Vec<String>| ids.iter().any(|id| id.starts_with("X509SHA256="));
    user.name.starts_with(TIER_PREFIX) && user.extra.get(CREDENTIAL_ID).is_some_and(by_certificate)
}

/// `system:masters` and the tiers.
pub struct Privileged {
    tier_rules: Vec<PolicyRule>,
}

impl Privileged {
    /// The fixed rules.
    pub fn new() -> Privileged {
        let rule = |(verbs, group, resources): &(&str, &str, &str)| PolicyRule {
            verbs: split(verbs),
            api_groups: vec![(*group).to_owned()],
            resources: split(resources),
            ..PolicyRule::default()
        };
        let mut tier_rules: Vec<PolicyRule> = TIER_RULES.iter().map(rule).collect();
        tier_rules.push(PolicyRule {
            verbs: vec!["get".to_owned()],
            non_resource_urls: vec!["*".to_owned()],
            ..PolicyRule::default()
        });
        Privileged { tier_rules }
    }

    fn decide(&self, user: &UserInfo, request: &RequestInfo) -> Decision {
        let as_tier =
            || is_tier(user) && !is_out_of_bounds(request) && self.tier_rules.iter().any(|r| r.allows(request));
        if user.in_group(MASTERS) || as_tier() {
            return Decision::Allow(Reason::NONE);
        }
        Decision::PASS
    }
}

/// Whatever the rules say, one tier reads no secrets of another, and of objects only what is stored: not what stands behind
/// them (a container's shell, a node's logs).
fn is_out_of_bounds(request: &RequestInfo) -> bool {
    let stored = matches!(request.subresource.as_str(), "" | "status" | "scale");
    let reads = matches!(request.verb.as_str(), "get" | "list" | "watch");
    request.is_resource && (request.group.is_empty() && request.resource == "secrets" || reads && !stored)
}

/// Verbs, group and resources that a tier may use.
const TIER_RULES: &[(&str, &str, &str)] = &[
    // What is mirrored. Parameters of admission policies may be of any kind (but secrets): who writes such a policy had to be
    // allowed to read them.
    ("get list watch", "*", "*"),
    ("update patch", "", "resourcequotas/status"),
    // The front door: the Service `kubernetes`, its endpoints, and the CAs that extension API servers read.
    (
        "create update patch delete",
        "",
        "namespaces services endpoints configmaps",
    ),
    ("create patch update", "", "events"),
    ("*", "discovery.k8s.io", "endpointslices"),
    ("*", "coordination.k8s.io", "leases"),
    ("*", "apiregistration.k8s.io", "*"),
    ("create", "authentication.k8s.io", "tokenreviews"),
    ("create", "authorization.k8s.io", "subjectaccessreviews"),
];

fn split(words: &str) -> Vec<String> {
    words.split(' ').map(str::to_owned).collect()
}

impl Default for Privileged {
    fn default() -> Privileged {
        Privileged::new()
    }
}

impl Authorizer for Privileged {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(self.decide(attributes.user, attributes.request)).boxed()
    }
}

impl RuleResolver for Privileged {
    /// Like kube-apiserver, which tells nothing of `system:masters` here: RBAC's `cluster-admin` says it.
    fn rules_for(&self, user: &UserInfo, _namespace: &str) -> UserRules {
        let rules = if is_tier(user) {
            self.tier_rules.clone()
        } else {
            Vec::new()
        };
        UserRules {
            rules,
            ..UserRules::default()
        }
    }
}

/// The mode AlwaysAllow.
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(Decision::Allow(Reason::NONE)).boxed()
    }
}

impl RuleResolver for AlwaysAllow {
    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> UserRules {
        let all = || vec!["*".to_owned()];
        let resources = PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        };
        let urls = PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        };
        UserRules {
            rules: vec![resources, urls],
            ..UserRules::default()
        }
    }
}

/// The mode AlwaysDeny.
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        std::future::ready(Decision::pass("Everything is forbidden.")).boxed()
    }
}

impl RuleResolver for AlwaysDeny {
    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> UserRules {
        UserRules::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_reads_what_it_mirrors_and_is_no_master() {
        let privileged = Privileged::new();
        let impersonated = UserInfo::new("system:tier:extensions-api", ["system:authenticated"]);
        let mut tier = impersonated.clone();
        tier.extra
            .insert(CREDENTIAL_ID.to_owned(), vec!["X509SHA256=00".to_owned()]);
        let other = UserInfo::new("system:tie", ["system:authenticated"]);
        let master = UserInfo::new("x", [MASTERS]);
        for (user, method, path, want) in [
            (&tier, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", true),
            (&tier, "GET", "/api/v1/namespaces?watch=1", true),
            (&tier, "GET", "/openapi/v3", true),
            (&tier, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", true),
            (&tier, "GET", "/api/v1/secrets", false),
            (&tier, "GET", "/api/v1/namespaces/a/pods/b/status", true),
            (&tier, "GET", "/api/v1/namespaces/a/pods/b/exec", false),
            (&tier, "GET", "/api/v1/namespaces/a/pods/b/log", false),
            (&tier, "GET", "/api/v1/nodes/n/proxy/logs", false),
            (
                &tier,
                "POST",
                "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                false,
            ),
            (&tier, "POST", "/api/v1/namespaces/default/pods", false),
            (&impersonated, "GET", "/api/v1/namespaces", false),
            (&other, "GET", "/api/v1/namespaces", false),
            (&master, "DELETE", "/api/v1/namespaces/default", true),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let request = RequestInfo::parse(method, path, query).unwrap();
            let allowed = privileged.decide(user, &request).is_allowed();
            assert_eq!(allowed, want, "{} {method} {path}", user.name);
        }
    }
}
