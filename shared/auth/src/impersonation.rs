//! Impersonation: whether the user of a request may act as the one its `Impersonate-*` headers name, and who that is.
//!
//! Contract: KEP-5284 with the older rule beside it. Modes are tried in a fixed order (a service account's own node, any
//! node, service account, user with uid, groups and extra; then plain `impersonate`); the first that allows decides what
//! the effective user is, and if none does the first refusal is the answer. A constrained mode asks two things: may the
//! requestor do this verb while impersonating (`impersonate-on:<mode>:<verb>`), and may they impersonate each thing
//! wanted (`impersonate:<mode>`). Upstream's order depends on which mode succeeded last for this requestor (a cache that
//! decides whose refusal is shown); that memory is kept here too, bounded.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use http::{HeaderMap, HeaderName};
use parking_lot::Mutex;
use triptych_object::field::quote;
use triptych_object::names;
use triptych_object::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use triptych_object::{RequestInfo, Status, StatusResult, UserInfo};

use crate::authorizer::{Attributes, Authorizer, Decision};
use crate::forbidden::forbidden;

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const UID: HeaderName = HeaderName::from_static("impersonate-uid");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const EXTRA: &str = "impersonate-extra-";
const NODE: &str = "system:node:";
/// Extra key in which a pod-bound token names its node.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
/// From so many groups or extras on, one wildcard is asked for first.
const MANY: usize = 4;

/// Which mode was last successful for a requestor, in as many slots as are worth their memory; a collision costs order only.
pub struct Modes {
    last: Mutex<Box<[u8; 4096]>>,
    hasher: RandomState,
}

impl Default for Modes {
    fn default() -> Self {
        Modes {
            last: Mutex::new(Box::new([u8::MAX; 4096])),
            hasher: RandomState::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

const MODES: [Mode; 5] = [
    Mode::AssociatedNode,
    Mode::ArbitraryNode,
    Mode::ServiceAccount,
    Mode::UserInfo,
    Mode::Legacy,
];

/// The user that the headers ask for, exactly as they say; `None` if they ask for nobody.
pub fn wanted(headers: &HeaderMap) -> StatusResult<Option<UserInfo>> {
    let first = |name: &HeaderName| headers.get(name).map(text).unwrap_or_default();
    let mut user = UserInfo {
        name: first(&USER),
        uid: first(&UID),
        groups: headers.get_all(&GROUP).iter().map(text).collect(),
        extra: BTreeMap::new(),
    };
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            user.extra.entry(unescape(key)).or_default().push(text(value));
        }
    }
    if !user.name.is_empty() {
        return Ok(Some(user));
    }
    if user.uid.is_empty() && user.groups.is_empty() && user.extra.is_empty() {
        return Ok(None);
    }
    Err(Status::bad_request(format!(
        "requested {} without impersonating a user name",
        go_syntax(&user)
    )))
}

/// Removes what [`wanted`] reads, so that nobody downstream takes it for anything.
pub fn remove_headers(headers: &mut HeaderMap) {
    headers.remove(USER);
    headers.remove(UID);
    headers.remove(GROUP);
    let extras: Vec<HeaderName> = headers
        .keys()
        .filter(|n| n.as_str().starts_with(EXTRA))
        .cloned()
        .collect();
    for name in extras {
        headers.remove(name);
    }
}

impl Modes {
    /// The effective user of `requestor`'s request as `wanted`, or the refusal.
    pub async fn impersonate(
        &self,
        authorizer: &dyn Authorizer,
        requestor: &UserInfo,
        wanted: &UserInfo,
        request: &RequestInfo,
    ) -> StatusResult<UserInfo> {
        let slot = self.hasher.hash_one(&requestor.name) as usize % 4096;
        let last = self.last.lock()[slot];
        let mut refusal = None;
        let order = MODES.get(usize::from(last)).into_iter().chain(
            MODES
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != usize::from(last))
                .map(|(_, m)| m),
        );
        for &mode in order {
            if !applies(mode, requestor, wanted) {
                continue;
            }
            match (Check {
                authorizer,
                mode,
                requestor,
            })
            .run(wanted, request)
            .await
            {
                Ok(user) => {
                    let index = MODES.iter().position(|m| *m == mode).unwrap_or_default();
                    self.last.lock()[slot] = index as u8;
                    return Ok(user);
                }
                Err(status) => {
                    refusal.get_or_insert(status);
                }
            }
        }
        Err(refusal.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }
}

fn applies(mode: Mode, requestor: &UserInfo, wanted: &UserInfo) -> bool {
    let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
    match mode {
        Mode::AssociatedNode => {
            only_name
                && requestor.service_account().is_some()
                && node(&wanted.name).is_some_and(|node| {
                    requestor
                        .extra
                        .get(NODE_NAME)
                        .is_some_and(|v| v.len() == 1 && v[0] == node)
                })
        }
        Mode::ArbitraryNode => only_name && node(&wanted.name).is_some(),
        Mode::ServiceAccount => only_name && wanted.service_account().is_some(),
        Mode::UserInfo => node(&wanted.name).is_none() && wanted.service_account().is_none(),
        Mode::Legacy => true,
    }
}

struct Check<'a> {
    authorizer: &'a dyn Authorizer,
    mode: Mode,
    requestor: &'a UserInfo,
}

impl Check<'_> {
    async fn run(&self, wanted: &UserInfo, request: &RequestInfo) -> StatusResult<UserInfo> {
        let constrained = self.mode != Mode::Legacy;
        let stripped;
        let requestor = if self.mode == Mode::AssociatedNode {
            // the node is already proven to be the requestor's own: what differs from pod to pod does not matter
            let keys = self.requestor.extra.keys().cloned().collect();
            stripped = UserInfo {
                extra: [("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)].into(),
                ..self.requestor.clone()
            };
            &stripped
        } else {
            self.requestor
        };
        if constrained {
            let on = RequestInfo {
                verb: format!("impersonate-on:{}:{}", self.name(), request.verb),
                ..request.clone()
            };
            self.ask(requestor, &on).await?;
        }
        let mut user = wanted.clone();
        self.username(requestor, wanted, &mut user).await?;
        if !wanted.uid.is_empty() {
            let uids = self.attributes("authentication.k8s.io", "uids", "", &wanted.uid);
            self.ask(requestor, &uids).await?;
        }
        self.groups(requestor, &wanted.groups).await?;
        self.extra(requestor, &wanted.extra).await?;
        if user.name == ANONYMOUS {
            ensure_group(&mut user, UNAUTHENTICATED);
        } else if !user.in_group(UNAUTHENTICATED) {
            ensure_group(&mut user, AUTHENTICATED);
        }
        Ok(user)
    }

    async fn username(&self, requestor: &UserInfo, wanted: &UserInfo, user: &mut UserInfo) -> StatusResult<()> {
        let mut attributes = self.attributes(self.subject_group(), "users", "", &wanted.name);
        if self.mode != Mode::Legacy
            && let Some(name) = node(&wanted.name)
        {
            attributes.resource = "nodes".to_owned();
            attributes.name = if self.mode == Mode::AssociatedNode { "*" } else { name }.to_owned();
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let Some((namespace, name)) = wanted.service_account() {
            attributes.resource = "serviceaccounts".to_owned();
            attributes.namespace = namespace.to_owned();
            attributes.name = name.to_owned();
            if wanted.groups.is_empty() {
                user.groups = vec![
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ];
            }
        }
        self.ask(requestor, &attributes).await
    }

    async fn groups(&self, requestor: &UserInfo, groups: &[String]) -> StatusResult<()> {
        let group = |name: &str| self.attributes(self.subject_group(), "groups", "", name);
        if self.mode != Mode::Legacy {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(requestor, &group(""), why));
            }
            if groups.iter().any(|g| g == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(requestor, &group(MASTERS), why));
            }
            if groups.len() >= MANY && self.ask(requestor, &group("*")).await.is_ok() {
                return Ok(());
            }
        }
        for name in groups {
            self.ask(requestor, &group(name)).await?;
        }
        Ok(())
    }

    async fn extra(&self, requestor: &UserInfo, extra: &BTreeMap<String, Vec<String>>) -> StatusResult<()> {
        let userextra = |key: &str, value: &str| self.attributes("authentication.k8s.io", "userextras", key, value);
        if self.mode != Mode::Legacy && !extra.is_empty() {
            if let Some(why) = extra.iter().find_map(|(k, v)| extra_fault(k, v)) {
                return Err(forbidden(requestor, &userextra("", ""), &why));
            }
            let many = extra.len() >= MANY || extra.values().map(Vec::len).sum::<usize>() >= MANY;
            if many && self.ask(requestor, &userextra("*", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for (key, values) in extra {
            for value in values {
                self.ask(requestor, &userextra(key, value)).await?;
            }
        }
        Ok(())
    }

    async fn ask(&self, requestor: &UserInfo, request: &RequestInfo) -> StatusResult<()> {
        let attributes = Attributes {
            user: requestor,
            request,
        };
        let why = match self.authorizer.authorize(attributes).await {
            Decision::Allow(_) => return Ok(()),
            Decision::Unavailable(why) => return Err(Status::service_unavailable(why, 1)),
            Decision::Deny(reason) => reason,
            Decision::NoOpinion { reason, error } if error.is_empty() => reason,
            Decision::NoOpinion { reason, error } if reason.is_empty() => error,
            Decision::NoOpinion { reason, error } => format!("{error}: {reason}"),
        };
        Err(forbidden(requestor, request, &why))
    }

    fn attributes(&self, group: &str, resource: &str, subresource: &str, name: &str) -> RequestInfo {
        RequestInfo {
            is_resource: true,
            verb: match self.mode {
                Mode::Legacy => "impersonate".to_owned(),
                _ => format!("impersonate:{}", self.name()),
            },
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: name.to_owned(),
            ..RequestInfo::default()
        }
    }

    fn subject_group(&self) -> &'static str {
        if self.mode == Mode::Legacy {
            ""
        } else {
            "authentication.k8s.io"
        }
    }

    fn name(&self) -> &'static str {
        match self.mode {
            Mode::AssociatedNode => "associated-node",
            Mode::ArbitraryNode => "arbitrary-node",
            Mode::ServiceAccount => "serviceaccount",
            Mode::UserInfo => "user-info",
            Mode::Legacy => "",
        }
    }
}

fn extra_fault(key: &str, values: &[String]) -> Option<String> {
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    if let Some(fault) = domain_prefixed_path_fault(key) {
        return Some(format!("impersonating an invalid key in extra is not allowed: {fault}"));
    }
    if key != key.to_lowercase() {
        return Some(format!(
            "impersonating a non-lowercase key in extra is not allowed: {}",
            quote(key)
        ));
    }
    if values.is_empty() {
        return Some("impersonating empty values in extra is not allowed".to_owned());
    }
    values
        .iter()
        .any(String::is_empty)
        .then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// `validation.IsDomainPrefixedPath`, the first error as one text.
fn domain_prefixed_path_fault(key: &str) -> Option<String> {
    let invalid = |why: &str| Some(format!("extra.key: Invalid value: {}: {why}", quote(key)));
    let Some((host, path)) = key.split_once('/').filter(|(h, p)| !h.is_empty() && !p.is_empty()) else {
        return invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    if let Some(fault) = names::dns1123_subdomain(host).first() {
        return Some(format!("extra.key: Invalid value: {}: {fault}", quote(host)));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    (!path.chars().all(allowed)).then(|| {
        const SHAPE: &str = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        format!("extra.key: Invalid value: {}: {SHAPE}", quote(path))
    })
}

fn node(user: &str) -> Option<&str> {
    user.strip_prefix(NODE)
        .filter(|name| names::dns1123_subdomain(name).is_empty())
}

fn ensure_group(user: &mut UserInfo, group: &str) {
    if !user.in_group(group) {
        user.groups.push(group.to_owned());
    }
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Percent-decodes an extra key; a malformed one stays as it is.
fn unescape(key: &str) -> String {
    let malformed = key.match_indices('%').any(|(i, _)| {
        !key.as_bytes()
            .get(i + 1..i + 3)
            .is_some_and(|h| h.iter().all(u8::is_ascii_hexdigit))
    });
    if malformed {
        return key.to_owned();
    }
    triptych_object::request::decode_path(key)
}

/// Go's `%#v` of a `*user.DefaultInfo`.
fn go_syntax(user: &UserInfo) -> String {
    let list = |values: &[String]| {
        if values.is_empty() {
            return "[]string(nil)".to_owned();
        }
        let quoted: Vec<String> = values.iter().map(|v| quote(v)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> = user
            .extra
            .iter()
            .map(|(k, v)| format!("{}:{}", quote(k), list(v)))
            .collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{}, Extra:{extra}}}",
        quote(&user.name),
        quote(&user.uid),
        list(&user.groups)
    )
}

#[cfg(test)]
mod tests;
