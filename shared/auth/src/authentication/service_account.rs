//! Service account tokens: verified by signature here, by the objects they are bound to where those live.
//!
//! Contract: a token counts while its account (and the pod, secret or node it is bound to) exists under the same uid.
//! core-api looks at its own objects; the other tiers check signature, audience and times themselves and ask core-api
//! for the rest by TokenReview, so that a deleted account is refused everywhere. Tokens of the issuer
//! `kubernetes/serviceaccount` are the old ones kept in secrets.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use triptych_object::{UserInfo, Value, field, meta, names, time};

use super::jwt::{Claims, LEEWAY, Unverified};
use super::keys::PublicKey;
use super::token::{TokenAuthenticator, TokenVerdict, intersect};
use super::x509::CREDENTIAL_ID;

/// Issuer of tokens kept in secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// Prefix of every service account's user name.
pub const USER_PREFIX: &str = "system:serviceaccount:";

/// Objects of the core group, by plural resource name.
pub trait CoreObjects: Send + Sync + 'static {
    /// The object as it is now, `None` if there is none; an error is a store that cannot be asked.
    fn get<'a>(
        &'a self,
        resource: &'static str,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Value>, String>>;
}

/// Who knows whether what a token is bound to still exists.
pub enum Bound {
    /// The objects are here.
    Local(Arc<dyn CoreObjects>),
    /// Another tier is asked, by TokenReview.
    Remote(Arc<dyn TokenAuthenticator>),
}

/// Knows service account tokens.
pub struct ServiceAccountTokens {
    issuers: Vec<String>,
    keys: Vec<PublicKey>,
    audiences: Vec<String>,
    bound: Bound,
}

impl ServiceAccountTokens {
    /// Accepts tokens of `issuers` (the first also issues) signed by one of `keys`; those that name no audience are good
    /// towards `audiences`.
    pub fn new(issuers: Vec<String>, keys: Vec<PublicKey>, audiences: Vec<String>, bound: Bound) -> Self {
        ServiceAccountTokens {
            issuers,
            keys,
            audiences,
            bound,
        }
    }

    async fn judge(&self, token: &str, audiences: &[String], now: i64) -> TokenVerdict {
        let Some(unverified) = Unverified::parse(token) else {
            return TokenVerdict::Unknown;
        };
        let legacy = unverified.issuer() == LEGACY_ISSUER;
        if !legacy && !self.issuers.iter().any(|i| i == unverified.issuer()) {
            return TokenVerdict::Unknown;
        }
        let claims = match unverified.verify(&self.keys) {
            Ok(claims) => claims,
            Err(why) => return TokenVerdict::Bad(why),
        };
        let mut own = claims.audiences();
        if own.is_empty() {
            own.clone_from(&self.audiences);
        }
        let common = intersect(&own, audiences);
        if common.is_empty() && !self.audiences.is_empty() {
            return TokenVerdict::Bad(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(&own),
                quoted(audiences)
            ));
        }
        if !legacy && let Err(why) = claims.check_times(now) {
            return TokenVerdict::Bad(why.to_owned());
        }
        let objects = match &self.bound {
            Bound::Remote(reviewer) => return reviewer.authenticate_token(token, audiences).await,
            Bound::Local(objects) => objects.as_ref(),
        };
        let outcome = if legacy {
            legacy_user(&claims, token, objects).await
        } else {
            bound_user(&claims, objects, now).await
        };
        match outcome {
            Ok(user) => TokenVerdict::Known {
                user: Arc::new(user),
                audiences: common,
            },
            Err(why) => TokenVerdict::Bad(why),
        }
    }
}

impl TokenAuthenticator for ServiceAccountTokens {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        Box::pin(self.judge(token, audiences, now))
    }
}

/// Go's `%q` of a list.
fn quoted(list: &[String]) -> String {
    let quoted: Vec<String> = list.iter().map(|s| field::quote(s)).collect();
    format!("[{}]", quoted.join(" "))
}

/// An account's user, as it is before a token says more.
pub fn user(namespace: &str, name: &str, uid: &str) -> UserInfo {
    UserInfo {
        name: format!("{USER_PREFIX}{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: groups(namespace),
        extra: BTreeMap::new(),
    }
}

/// The groups of every account of a namespace.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// The user of a token whose objects all exist.
async fn bound_user(claims: &Claims, objects: &dyn CoreObjects, now: i64) -> Result<UserInfo, String> {
    let private = claims.0.get("kubernetes.io").cloned().unwrap_or_default();
    let namespace = private.str_at(&["namespace"]);
    let name = private.str_at(&["serviceaccount", "name"]);
    let uid = private.str_at(&["serviceaccount", "uid"]);
    let account = account(objects, namespace, name).await?;
    if meta::uid(&account) != uid {
        let actual = meta::uid(&account);
        return Err(format!("service account UID ({actual}) does not match claim ({uid})"));
    }
    if is_gone(&account, now) {
        return Err(format!("service account {namespace}/{name} has been deleted"));
    }
    let mut user = user(namespace, name, uid);
    let mut tell = |key: &str, value: &str| {
        if !value.is_empty() {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        }
    };
    if private.get("secret").is_some() {
        check_bound(objects, "secrets", "secret", namespace, &private, now).await?;
    }
    let pod_bound = private.get("pod").is_some();
    if pod_bound {
        check_bound(objects, "pods", "pod", namespace, &private, now).await?;
        let (name, uid) = (private.str_at(&["pod", "name"]), private.str_at(&["pod", "uid"]));
        if !name.is_empty() && !uid.is_empty() {
            tell("authentication.kubernetes.io/pod-name", name);
            tell("authentication.kubernetes.io/pod-uid", uid);
        }
    }
    if private.get("node").is_some() {
        if !pod_bound {
            check_bound(objects, "nodes", "node", "", &private, now).await?;
        }
        tell(
            "authentication.kubernetes.io/node-name",
            private.str_at(&["node", "name"]),
        );
        tell(
            "authentication.kubernetes.io/node-uid",
            private.str_at(&["node", "uid"]),
        );
    }
    if !claims.id().is_empty() {
        tell(CREDENTIAL_ID, &format!("JTI={}", claims.id()));
    }
    Ok(user)
}

async fn account(objects: &dyn CoreObjects, namespace: &str, name: &str) -> Result<Value, String> {
    let found = objects.get("serviceaccounts", namespace, name).await?;
    found.ok_or_else(|| format!("serviceaccounts {} not found", field::quote(name)))
}

/// The object that claim `kind` names must exist under the uid it says.
async fn check_bound(
    objects: &dyn CoreObjects,
    resource: &'static str,
    kind: &str,
    namespace: &str,
    private: &Value,
    now: i64,
) -> Result<(), String> {
    const INVALIDATED: &str = "service account token has been invalidated";
    let (name, uid) = (private.str_at(&[kind, "name"]), private.str_at(&[kind, "uid"]));
    let Some(object) = objects.get(resource, namespace, name).await? else {
        return Err(INVALIDATED.to_owned());
    };
    let actual = meta::uid(&object);
    if actual != uid {
        return Err(format!(
            "{kind} UID ({actual}) does not match service account {kind} ref claim ({uid})"
        ));
    }
    if is_gone(&object, now) {
        return Err(INVALIDATED.to_owned());
    }
    Ok(())
}

/// True if the object's deletion began longer ago than clocks may differ.
fn is_gone(object: &Value, now: i64) -> bool {
    let deleted = meta::deletion_timestamp(object).and_then(time::parse_rfc3339);
    deleted.is_some_and(|t| t.as_second() < now - LEEWAY)
}

/// The user of a token kept in a secret.
async fn legacy_user(claims: &Claims, token: &str, objects: &dyn CoreObjects) -> Result<UserInfo, String> {
    let claim = |name: &str| {
        claims
            .0
            .str_at(&[&format!("kubernetes.io/serviceaccount/{name}")])
            .to_owned()
    };
    let (namespace, secret_name) = (claim("namespace"), claim("secret.name"));
    let (name, uid) = (claim("service-account.name"), claim("service-account.uid"));
    for (value, what) in [
        (claims.subject(), "sub"),
        (&namespace, "namespace"),
        (&secret_name, "secretName"),
        (&name, "serviceAccountName"),
        (&uid, "serviceAccountUID"),
    ] {
        if value.is_empty() {
            return Err(format!("{what} claim is missing"));
        }
    }
    let well_formed = names::dns1123_subdomain(&name).is_empty() && names::dns1123_subdomain(&namespace).is_empty();
    if !well_formed || claims.subject() != format!("{USER_PREFIX}{namespace}:{name}") {
        return Err("sub claim is invalid".to_owned());
    }
    let secret = objects.get("secrets", &namespace, &secret_name).await?;
    let Some(secret) = secret.filter(|s| meta::deletion_timestamp(s).is_none()) else {
        return Err("Token has been invalidated".to_owned());
    };
    use base64::Engine;
    let stored = base64::engine::general_purpose::STANDARD.decode(secret.str_at(&["data", "token"]));
    let same = stored.is_ok_and(|s| aws_lc_rs::constant_time::verify_slices_are_equal(&s, token.as_bytes()).is_ok());
    if !same {
        return Err("Token does not match server's copy".to_owned());
    }
    let account = account(objects, &namespace, &name).await?;
    if meta::deletion_timestamp(&account).is_some() {
        return Err(format!("ServiceAccount {namespace}/{name} has been deleted"));
    }
    let actual = meta::uid(&account);
    if actual != uid {
        return Err(format!("ServiceAccount UID ({actual}) does not match claim ({uid})"));
    }
    const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
    if meta::label(&secret, INVALID_SINCE).is_some_and(|l| !l.is_empty()) {
        return Err(format!(
            "the token in secret {namespace}/{secret_name} for service account {namespace}/{name} has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to temporarily allow use of this token"
        ));
    }
    Ok(user(&namespace, &name, &uid))
}

#[cfg(test)]
#[path = "service_account_tests.rs"]
mod tests;
