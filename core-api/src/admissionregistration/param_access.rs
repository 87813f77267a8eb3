//! Who writes a policy with parameters, or binds it to some, must be able to read them: policies could tell what is in
//! them.

use std::sync::Arc;

use triptych_auth::{Attributes, Authorizer, Decision};
use triptych_object::field::{Error, ErrorList};
use triptych_object::user::MASTERS;
use triptych_object::{GroupKind, RequestInfo, Status, StatusResult, UserInfo, Value, json, meta};

use super::GROUP;
use super::policy::Does;
use crate::context::Context;

/// Asks whether users may read parameters.
#[derive(Clone)]
pub struct ParamAccess {
    authorizer: Arc<dyn Authorizer>,
    context: Context,
}

/// The resource that a kind of parameters is; `*` where it is not known.
struct Params {
    group: String,
    version: String,
    resource: String,
}

impl Params {
    fn any() -> Params {
        let any = || "*".to_owned();
        Params {
            group: any(),
            version: any(),
            resource: any(),
        }
    }

    fn info(self, verb: &str, namespace: &str, name: &str) -> RequestInfo {
        RequestInfo {
            is_resource: true,
            verb: verb.to_owned(),
            group: self.group,
            version: self.version,
            resource: self.resource,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..RequestInfo::default()
        }
    }
}

impl ParamAccess {
    /// By the authorizer of this tier.
    pub fn new(authorizer: Arc<dyn Authorizer>, context: Context) -> ParamAccess {
        ParamAccess { authorizer, context }
    }

    async fn may(&self, user: &UserInfo, request: RequestInfo) -> bool {
        let request = &request;
        matches!(
            self.authorizer.authorize(Attributes { user, request }).await,
            Decision::Allow(_)
        )
    }

    /// The resource of a kind: of this tier, or any of its group.
    fn resolve(&self, kind: &Value) -> Result<Params, Params> {
        let gvk = meta::gvk(kind);
        let lower = gvk.kind.to_lowercase();
        let plural = match lower.chars().last() {
            Some('s') if lower == "endpoints" => lower,
            Some('s') => format!("{lower}es"),
            Some('y') => format!("{}ies", &lower[..lower.len() - 1]),
            _ => format!("{lower}s"),
        };
        let known = self.context.collection(&gvk.group, &plural).is_some();
        let params = Params {
            group: gvk.group,
            version: gvk.version,
            resource: if known { plural } else { "*".to_owned() },
        };
        if known { Ok(params) } else { Err(params) }
    }

    /// Checks a write of a policy.
    pub async fn check_policy(&self, user: &UserInfo, new: &Value, old: Option<&Value>) -> StatusResult<()> {
        const KIND: [&str; 2] = ["spec", "paramKind"];
        let Some(kind) = new.at(&KIND) else { return Ok(()) };
        if user.in_group(MASTERS) || old.is_some_and(|old| old.at(&KIND) == Some(kind)) {
            return Ok(());
        }
        let params = self.resolve(kind).unwrap_or_else(|params| params);
        if self.may(user, params.info("get", "*", "*")).await {
            return Ok(());
        }
        let detail = format!(
            "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
            shown(user),
            kind.str_at(&["kind"]),
            kind.str_at(&["apiVersion"])
        );
        Err(refusal(new, "spec.paramKind", detail))
    }

    /// Checks a write of a binding.
    pub async fn check_binding(
        &self,
        does: Does,
        user: &UserInfo,
        new: &Value,
        old: Option<&Value>,
    ) -> StatusResult<()> {
        const REFERENCE: [&str; 2] = ["spec", "paramRef"];
        const POLICY: [&str; 2] = ["spec", "policyName"];
        let Some(reference) = new.at(&REFERENCE) else {
            return Ok(());
        };
        let same = |old: &Value| old.at(&REFERENCE) == Some(reference) && old.str_at(&POLICY) == new.str_at(&POLICY);
        if user.in_group(MASTERS) || old.is_some_and(same) {
            return Ok(());
        }
        let (namespace, name) = (reference.str_at(&["namespace"]), reference.str_at(&["name"]));
        let verb = if name.is_empty() { "list" } else { "get" };
        let policy = self.policy(does, new.str_at(&POLICY));
        let kind = policy.as_ref().and_then(|p| p.at(&["spec", "paramKind"]));
        let (params, known) = match kind.map(|kind| self.resolve(kind)) {
            Some(Ok(params)) => (params, true),
            Some(Err(params)) => (params, false),
            None => (Params::any(), true),
        };
        if self.may(user, params.info(verb, namespace, name)).await {
            return Ok(());
        }
        let user = shown(user);
        let everywhere = format!(
            "to determine minimum required permissions and user {user} does not have \"{verb}\" permission for all groups, versions and resources"
        );
        let detail = match (&policy, kind) {
            (None, _) => format!("unable to get policy {} {everywhere}", new.str_at(&POLICY)),
            (_, Some(kind)) if !known => format!(
                "unable to resolve paramKind &ParamKind{{APIVersion:{},Kind:{},}} {everywhere}",
                kind.str_at(&["apiVersion"]),
                kind.str_at(&["kind"])
            ),
            _ => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
        };
        Err(refusal(new, "spec.paramRef", detail))
    }

    fn policy(&self, does: Does, name: &str) -> Option<Value> {
        let resource = match does {
            Does::Mutates => "mutatingadmissionpolicies",
            Does::Validates => "validatingadmissionpolicies",
        };
        let collection = self.context.collection(GROUP, resource)?;
        let key = collection.key("", name).ok()?;
        let object = collection.cache.get(&key).ok().flatten()?;
        json::from_slice(object.bytes()).ok()
    }
}

/// A user as Go prints one.
fn shown(user: &UserInfo) -> String {
    let extra: Vec<String> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key}:[{}]", values.join(" ")))
        .collect();
    format!(
        "&{{{} {} [{}] map[{}]}}",
        user.name,
        user.uid,
        user.groups.join(" "),
        extra.join(" ")
    )
}

fn refusal(object: &Value, field: &str, detail: String) -> Box<Status> {
    let mut errors = ErrorList::new();
    errors.push(Error::forbidden(field, detail));
    let kind = GroupKind::new(GROUP, meta::gvk(object).kind);
    Status::invalid(&kind, meta::name(object), &errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_auth::authorization::Authorization;

    fn nobody_may_anything() -> ParamAccess {
        ParamAccess::new(Arc::new(Authorization::new(Vec::new())), Context::default())
    }

    #[tokio::test]
    async fn parameters_are_for_those_who_may_read_them() {
        let policy = json::from_slice(
            br#"{"kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{"paramKind":{"apiVersion":"v1","kind":"Secret"}}}"#,
        )
        .unwrap();
        let access = nobody_may_anything();
        let alice = UserInfo::new("alice", ["devs"]);
        let refused = access.check_policy(&alice, &policy, None).await.unwrap_err();
        assert!(
            refused.message.contains(
                "user &{alice  [devs] map[]} must have \"get\" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)"
            ),
            "{}",
            refused.message
        );
        assert!(access.check_policy(&alice, &policy, Some(&policy)).await.is_ok());
        let root = UserInfo::new("root", [MASTERS]);
        assert!(access.check_policy(&root, &policy, None).await.is_ok());
    }
}
