//! ServiceAccount: a pod runs as a service account that exists, and finds its token where clients look for it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Status, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_registry::object_meta::generate_name;

use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Find};
use crate::pods;

/// Taken where none is named; made by a controller in every namespace.
const DEFAULT: &str = "default";
/// How often the default account is looked for, since a namespace's first pods may come before it.
const DEFAULT_ATTEMPTS: u32 = 10;
/// What names of token volumes begin with.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Where clients look for their token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An hour and a bit, by which the kind of token is known.
const TOKEN_SECONDS: i64 = 3607;
/// Makes an account's pods mount no other secrets than the account names.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// What matters of a service account.
#[derive(Debug)]
pub struct Account {
    name: String,
    automount: Option<bool>,
    pull_secrets: Vec<String>,
    secrets: Vec<String>,
    enforces_mountable_secrets: bool,
}

impl Facts for Account {
    fn of(object: &Value) -> Account {
        let names = |list| {
            let items = object.array_at(&[list]).iter();
            items.map(|item| item.str_at(&["name"]).to_owned()).collect()
        };
        let enforce = meta::annotation(object, ENFORCE_MOUNTABLE_SECRETS);
        Account {
            name: meta::name(object).to_owned(),
            automount: object.get("automountServiceAccountToken").and_then(Value::as_bool),
            pull_secrets: names("imagePullSecrets"),
            secrets: names("secrets"),
            enforces_mountable_secrets: matches!(enforce, Some("1" | "t" | "T" | "true" | "TRUE" | "True")),
        }
    }
}

/// The plugin.
pub struct ServiceAccount {
    /// All service accounts.
    pub accounts: Arc<dyn Find<Account>>,
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && pods::is(resource, "", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(pod), Operation::Create) = (object, attributes.operation) else {
                return Ok(());
            };
            // a pod's other creates (binding, eviction) carry no pod
            if !attributes.subresource.is_empty() {
                return Ok(());
            }
            if pods::is_mirror(pod) {
                return mirror(attributes, pod);
            }
            if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
                for member in ["serviceAccountName", "serviceAccount"] {
                    pod.set_at(&["spec", member], DEFAULT.into());
                }
            }
            let account = self.account(attributes, pod).await?;
            complete(pod, &account);
            limit_secrets(attributes, pod, &account)
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(pod) = object else { return Ok(()) };
            let create = match (attributes.operation, attributes.subresource) {
                (Operation::Create, "") => true,
                (Operation::Update, "ephemeralcontainers") => false,
                _ => return Ok(()),
            };
            if create && pods::is_mirror(pod) {
                return mirror(attributes, pod);
            }
            if pod.str_at(&["spec", "serviceAccountName"]).is_empty() {
                let (namespace, name) = (attributes.namespace, meta::name(pod));
                let why = format!("no service account specified for pod {namespace}/{name}");
                return Err(forbidden(attributes, Some(pod), why));
            }
            let account = self.account(attributes, pod).await?;
            if create {
                limit_secrets(attributes, pod, &account)
            } else {
                limit_ephemeral(pod, &account)
            }
        })
    }
}

impl ServiceAccount {
    async fn account(&self, attributes: &Attributes<'_>, pod: &Value) -> StatusResult<Arc<Account>> {
        let (namespace, name) = (attributes.namespace, pod.str_at(&["spec", "serviceAccountName"]));
        let refuse = |why: &str| {
            let why = format!("error looking up service account {namespace}/{name}: {why}");
            forbidden(attributes, Some(pod), why)
        };
        let attempts = if name == DEFAULT { DEFAULT_ATTEMPTS } else { 1 };
        let pause = Duration::from_millis(rand::random_range(100..200));
        for attempt in 0..attempts {
            if attempt > 0 {
                tokio::time::sleep(pause).await;
            }
            match self.accounts.get(namespace, name).await {
                Ok(Some(account)) => return Ok(account),
                Ok(None) => {}
                Err(status) => return Err(refuse(&status.message)),
            }
        }
        Err(refuse(&format!("serviceaccount \"{name}\" not found")))
    }
}

/// A mirror pod's node has no right to hand out secrets.
fn mirror(attributes: &Attributes<'_>, pod: &Value) -> StatusResult<()> {
    let refuse = |why| Err(forbidden(attributes, Some(pod), why));
    let Some(spec) = pod.get("spec") else { return Ok(()) };
    if !spec.str_at(&["serviceAccountName"]).is_empty() {
        return refuse("a mirror pod may not reference service accounts");
    }
    if !pods::secret_names(spec).is_empty() {
        return refuse("a mirror pod may not reference secrets");
    }
    let mut sources = spec
        .array_at(&["volumes"])
        .iter()
        .flat_map(|v| v.array_at(&["projected", "sources"]));
    if sources.any(|source| source.get("serviceAccountToken").is_some()) {
        return refuse("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

/// The token's volume and mounts, and the account's pull secrets.
fn complete(pod: &mut Value, account: &Account) {
    let Some(spec) = pod.get_mut("spec") else { return };
    let wanted = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    if wanted.or(account.automount).unwrap_or(true) {
        mount_token(spec);
    }
    if spec.array_at(&["imagePullSecrets"]).is_empty() && !account.pull_secrets.is_empty() {
        let reference = |name: &String| Value::from([("name", name.as_str().into())]);
        let secrets: Vec<Value> = account.pull_secrets.iter().map(reference).collect();
        spec.set_at(&["imagePullSecrets"], secrets.into());
    }
}

fn mount_token(spec: &mut Value) {
    let names = spec.array_at(&["volumes"]).iter().map(|v| v.str_at(&["name"]));
    let existing = names
        .into_iter()
        .find(|name| name.starts_with(TOKEN_VOLUME))
        .map(str::to_owned);
    let name = existing.clone().unwrap_or_else(|| generate_name(TOKEN_VOLUME));
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let mut mounts = container.array_at(&["volumeMounts"]).iter();
            if mounts.any(|mount| mount.str_at(&["mountPath"]) == TOKEN_PATH) {
                continue;
            }
            let mount = Value::from([
                ("name", name.as_str().into()),
                ("readOnly", true.into()),
                ("mountPath", TOKEN_PATH.into()),
            ]);
            push(container, "volumeMounts", mount);
            mounted = true;
        }
    }
    if mounted && existing.is_none() {
        let projected = Value::from([("sources", token_sources().into()), ("defaultMode", 0o644.into())]);
        push(
            spec,
            "volumes",
            Value::from([("name", name.into()), ("projected", projected)]),
        );
    }
}

fn token_sources() -> Vec<Value> {
    let token = Value::from([("expirationSeconds", TOKEN_SECONDS.into()), ("path", "token".into())]);
    let authority = Value::from([("key", "ca.crt".into()), ("path", "ca.crt".into())]);
    let authorities = Value::from([("name", "kube-root-ca.crt".into()), ("items", vec![authority].into())]);
    let field = Value::from([("apiVersion", "v1".into()), ("fieldPath", "metadata.namespace".into())]);
    let namespace = Value::from([("path", "namespace".into()), ("fieldRef", field)]);
    vec![
        Value::from([("serviceAccountToken", token)]),
        Value::from([("configMap", authorities)]),
        Value::from([("downwardAPI", Value::from([("items", vec![namespace].into())]))]),
    ]
}

/// Appends to a list, which is made if absent.
pub(crate) fn push(object: &mut Value, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => object.set_at(&[list], vec![item].into()),
    }
}

/// What an account that enforces its secrets lets a new pod use.
fn limit_secrets(attributes: &Attributes<'_>, pod: &Value, account: &Account) -> StatusResult<()> {
    let Some(spec) = pod.get("spec").filter(|_| account.enforces_mountable_secrets) else {
        return Ok(());
    };
    let not_allowed = |what: String, kind: &str| {
        let by = &account.name;
        let why = format!("{what} is not allowed because service account {by} does not reference that {kind}");
        Err(forbidden(attributes, Some(pod), why))
    };
    for volume in spec.array_at(&["volumes"]) {
        let Some(source) = volume.get("secret") else { continue };
        let name = source.str_at(&["secretName"]);
        if !account.secrets.iter().any(|s| s == name) {
            return not_allowed(format!("volume with secret.secretName=\"{name}\""), "secret");
        }
    }
    for (list, kind) in [("initContainers", "init container"), ("containers", "container")] {
        for container in pods::containers(spec, list) {
            limit_environment(container, kind, account).or_else(|what| not_allowed(what, "secret"))?;
        }
    }
    for (i, secret) in spec.array_at(&["imagePullSecrets"]).iter().enumerate() {
        let name = secret.str_at(&["name"]);
        if !account.pull_secrets.iter().any(|s| s == name) {
            return not_allowed(format!("imagePullSecrets[{i}].name=\"{name}\""), "imagePullSecret");
        }
    }
    Ok(())
}

fn limit_ephemeral(pod: &Value, account: &Account) -> StatusResult<()> {
    if !account.enforces_mountable_secrets {
        return Ok(());
    }
    for container in pod.array_at(&["spec", "ephemeralContainers"]) {
        limit_environment(container, "ephemeral container", account).map_err(|what| {
            let by = &account.name;
            Status::unknown(format!(
                "{what} is not allowed because service account {by} does not reference that secret"
            ))
        })?;
    }
    Ok(())
}

/// `Err` says which use of a secret the account does not provide for.
fn limit_environment(container: &Value, kind: &str, account: &Account) -> Result<(), String> {
    let allowed = |name: &str| account.secrets.iter().any(|s| s == name);
    let container_name = container.str_at(&["name"]);
    for variable in container.array_at(&["env"]) {
        let Some(reference) = variable.at(&["valueFrom", "secretKeyRef"]) else {
            continue;
        };
        let name = reference.str_at(&["name"]);
        if !allowed(name) {
            let variable = variable.str_at(&["name"]);
            return Err(format!(
                "{kind} {container_name} with envVar {variable} referencing secret.secretName=\"{name}\""
            ));
        }
    }
    for source in container.array_at(&["envFrom"]) {
        let Some(reference) = source.get("secretRef") else {
            continue;
        };
        let name = reference.str_at(&["name"]);
        if !allowed(name) {
            return Err(format!(
                "{kind} {container_name} with envFrom referencing secret.secretName=\"{name}\""
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::{Write, tree};
    use triptych_object::json;

    fn plugin() -> ServiceAccount {
        ServiceAccount {
            accounts: Fixed::of(&[
                r#"{"metadata":{"name":"default","namespace":"n"},"imagePullSecrets":[{"name":"p"}]}"#,
                r#"{"metadata":{"name":"quiet","namespace":"n"},"automountServiceAccountToken":false}"#,
                r#"{"metadata":{"name":"strict","namespace":"n","annotations":{"kubernetes.io/enforce-mountable-secrets":"true"}},
                "secrets":[{"name":"s"}]}"#,
            ]),
        }
    }

    fn pod(spec: &str) -> Write {
        Write::create(
            "pods",
            &format!(r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{spec}}}"#),
        )
    }

    #[tokio::test]
    async fn a_pod_that_names_no_account_gets_the_default_one_its_token_and_its_pull_secrets() {
        let (pod, _) = pod(r#"{"containers":[{"name":"c"}]}"#).admit(&plugin()).await.unwrap();
        let volume = pod.array_at(&["spec", "volumes"])[0].str_at(&["name"]).to_owned();
        assert_eq!(volume.len(), TOKEN_VOLUME.len() + 5);
        let text = json::to_string(pod.get("spec").unwrap()).replace(&volume, "V");
        assert_eq!(
            text,
            concat!(
                r#"{"containers":[{"name":"c","volumeMounts":[{"name":"V","readOnly":true,"#,
                r#""mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}],"#,
                r#""serviceAccountName":"default","serviceAccount":"default","#,
                r#""volumes":[{"name":"V","projected":{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},"#,
                r#"{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},"#,
                r#"{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"#,
                r#""defaultMode":420}}],"imagePullSecrets":[{"name":"p"}]}"#
            )
        );
    }

    #[tokio::test]
    async fn the_pods_wish_to_have_no_token_wins_over_the_accounts() {
        for spec in [
            r#"{"containers":[{"name":"c"}],"serviceAccountName":"quiet"}"#,
            r#"{"containers":[{"name":"c"}],"serviceAccountName":"default","automountServiceAccountToken":false}"#,
        ] {
            let (pod, _) = pod(spec).admit(&plugin()).await.unwrap();
            assert!(pod.at(&["spec", "volumes"]).is_none(), "{spec}");
        }
        let spec = r#"{"containers":[{"name":"c"}],"serviceAccountName":"quiet","automountServiceAccountToken":true}"#;
        assert!(
            pod(spec)
                .admit(&plugin())
                .await
                .unwrap()
                .0
                .at(&["spec", "volumes"])
                .is_some()
        );
    }

    #[tokio::test]
    async fn a_mount_or_volume_that_is_there_already_is_kept() {
        let mount = r#"{"containers":[{"name":"c","volumeMounts":[{"name":"x","mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]}]}"#;
        let (own, _) = pod(mount).admit(&plugin()).await.unwrap();
        assert!(own.at(&["spec", "volumes"]).is_none());
        let volume = r#"{"containers":[{"name":"c"}],"volumes":[{"name":"kube-api-access-mine","emptyDir":{}}]}"#;
        let (own, _) = pod(volume).admit(&plugin()).await.unwrap();
        assert_eq!(own.array_at(&["spec", "volumes"]).len(), 1);
        let mounts = own.array_at(&["spec", "containers"])[0].array_at(&["volumeMounts"]);
        assert_eq!(mounts[0].str_at(&["name"]), "kube-api-access-mine");
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_does_not_exist_refuses_the_pod() {
        assert_eq!(
            pod(r#"{"containers":[],"serviceAccountName":"x"}"#)
                .refusal(&plugin())
                .await,
            "pods \"p\" is forbidden: error looking up service account n/x: serviceaccount \"x\" not found"
        );
        let elsewhere = Write::create(
            "pods",
            r#"{"metadata":{"name":"p","namespace":"m"},"spec":{"containers":[]}}"#,
        );
        assert_eq!(
            elsewhere.refusal(&plugin()).await,
            "pods \"p\" is forbidden: error looking up service account m/default: serviceaccount \"default\" not found"
        );
    }

    #[tokio::test]
    async fn mirror_pods_are_left_as_they_are_and_name_nothing() {
        let mirror = |spec: &str| {
            let text = format!(
                r#"{{"metadata":{{"name":"p","namespace":"n","annotations":{{"kubernetes.io/config.mirror":"x"}}}},"spec":{spec}}}"#
            );
            (tree(&text), Write::create("pods", &text))
        };
        let (before, write) = mirror(r#"{"containers":[{"name":"c"}]}"#);
        assert_eq!(write.admit(&plugin()).await.unwrap().0, before);
        for (spec, why) in [
            (
                r#"{"serviceAccountName":"default"}"#,
                "a mirror pod may not reference service accounts",
            ),
            (
                r#"{"volumes":[{"secret":{"secretName":"s"}}]}"#,
                "a mirror pod may not reference secrets",
            ),
            (
                r#"{"volumes":[{"projected":{"sources":[{"serviceAccountToken":{}}]}}]}"#,
                "a mirror pod may not use ServiceAccountToken volume projections",
            ),
        ] {
            assert_eq!(
                mirror(spec).1.refusal(&plugin()).await,
                format!("pods \"p\" is forbidden: {why}")
            );
        }
    }

    #[tokio::test]
    async fn an_account_may_limit_its_pods_to_the_secrets_it_names() {
        let rest = "is not allowed because service account strict does not reference that";
        for (spec, what) in [
            (
                r#""volumes":[{"name":"v","secret":{"secretName":"t"}}]"#,
                format!("volume with secret.secretName=\"t\" {rest} secret"),
            ),
            (
                r#""initContainers":[{"name":"i","env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"t"}}}]}]"#,
                format!("init container i with envVar E referencing secret.secretName=\"t\" {rest} secret"),
            ),
            (
                r#""containers":[{"name":"c","envFrom":[{"secretRef":{"name":"t"}}]}]"#,
                format!("container c with envFrom referencing secret.secretName=\"t\" {rest} secret"),
            ),
            (
                r#""imagePullSecrets":[{"name":"t"}]"#,
                format!("imagePullSecrets[0].name=\"t\" {rest} imagePullSecret"),
            ),
        ] {
            let spec = format!(r#"{{"serviceAccountName":"strict",{spec}}}"#);
            assert_eq!(
                pod(&spec).refusal(&plugin()).await,
                format!("pods \"p\" is forbidden: {what}")
            );
        }
        let allowed = r#"{"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"s"}}]}"#;
        assert_eq!(pod(allowed).refusal(&plugin()).await, "");
    }
}
