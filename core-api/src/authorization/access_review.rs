//! SubjectAccessReview, LocalSubjectAccessReview and SelfSubjectAccessReview: may somebody do something?
//!
//! Contract: the question is put to the same authorizer that requests are. What of a selector cannot be understood is
//! left out, which asks for more, and said in `evaluationError`.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::{Attributes, Authorizer, Decision};
use triptych_object::field::ErrorList;
use triptych_object::selector::{FieldSelector, LabelSelector};
use triptych_object::value::Object;
use triptych_object::{GroupKind, RequestInfo, Status, StatusResult, UserInfo, Value, meta, names};
use triptych_registry::{Action, ActionContext, Answer};

use super::GROUP;
use crate::validation::{Cursor, check};

/// Whose rights are in question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Those of the subject that the review names.
    Subject,
    /// Likewise, in the review's namespace.
    Local,
    /// Those of the asker.
    OneSelf,
}

/// Answers the three reviews.
pub struct AccessReview {
    /// Which of them.
    pub asked: Asked,
    /// Knows.
    pub authorizer: Arc<dyn Authorizer>,
}

impl Action for AccessReview {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        async move {
            let answer = review(self.asked, &*self.authorizer, &cx.request.user, document).await?;
            Ok(Answer::Document(answer))
        }
        .boxed()
    }
}

async fn review(
    asked: Asked,
    authorizer: &dyn Authorizer,
    asker: &UserInfo,
    mut document: Value,
) -> StatusResult<Value> {
    let mut errors = ErrorList::new();
    check(&document, &mut errors, |review| validate(asked, review));
    if !errors.is_empty() {
        // kube-apiserver names neither kind nor name here.
        return Err(Status::invalid(&GroupKind::new(GROUP, ""), "", &errors));
    }
    let spec = document.get("spec").cloned().unwrap_or_default();
    let subject = match asked {
        Asked::OneSelf => asker.clone(),
        Asked::Subject | Asked::Local => subject(&spec),
    };
    let (request, ignored) = request(&spec);
    let attributes = Attributes {
        user: &subject,
        request: &request,
    };
    let mut status = Object::new();
    let mut set = |member: &str, text: &str| {
        if !text.is_empty() {
            status.insert(member, text.into());
        }
    };
    let (allowed, denied, error) = match authorizer.authorize(attributes).await {
        Decision::Allow(reason) => {
            set("reason", &reason.to_string());
            (true, false, String::new())
        }
        Decision::Deny(reason) => {
            set("reason", &reason);
            (false, true, String::new())
        }
        Decision::NoOpinion { reason, error } => {
            set("reason", &reason);
            (false, false, error)
        }
        Decision::Unavailable(why) => return Err(Status::service_unavailable(why, 1)),
    };
    let problems: Vec<String> = Some(error)
        .into_iter()
        .filter(|e| !e.is_empty())
        .chain(ignored)
        .collect();
    set("evaluationError", &problems.join("; "));
    status.insert("allowed", allowed.into());
    if denied {
        status.insert("denied", true.into());
    }
    document.set_at(&["status"], status.into());
    Ok(document)
}

fn subject(spec: &Value) -> UserInfo {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().unwrap_or(&[]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.get("extra").and_then(Value::as_object);
    UserInfo {
        name: spec.str_at(&["user"]).to_owned(),
        uid: spec.str_at(&["uid"]).to_owned(),
        groups: spec.get("groups").map(texts).unwrap_or_default(),
        extra: extra
            .into_iter()
            .flat_map(|e| e.iter())
            .map(|(key, values)| (key.to_owned(), texts(values)))
            .collect(),
    }
}

/// The request that is asked about, and what of its selectors was ignored.
fn request(spec: &Value) -> (RequestInfo, Vec<String>) {
    let Some(resource) = spec.get("resourceAttributes").filter(|r| !r.is_null()) else {
        let text = |member: &str| spec.str_at(&["nonResourceAttributes", member]).to_owned();
        let request = RequestInfo {
            path: text("path"),
            verb: text("verb"),
            ..RequestInfo::default()
        };
        return (request, Vec::new());
    };
    let text = |member: &str| resource.str_at(&[member]).to_owned();
    let mut ignored = Vec::new();
    let mut read = |member: &str, read: fn(&Value) -> (Option<String>, bool)| {
        let (selector, whole) = read(resource.get(member).filter(|s| !s.is_null())?);
        if !whole {
            let how = if selector.is_some() {
                "partially ignored"
            } else {
                "ignored"
            };
            ignored.push(format!("spec.resourceAttributes.{member} {how} due to parse error"));
        }
        selector
    };
    let field_selector = read("fieldSelector", field_selector);
    let label_selector = read("labelSelector", label_selector);
    let request = RequestInfo {
        is_resource: true,
        verb: text("verb"),
        group: text("group"),
        version: match text("version") {
            version if version.is_empty() => "*".to_owned(),
            version => version,
        },
        namespace: text("namespace"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        field_selector,
        label_selector,
        ..RequestInfo::default()
    };
    (request, ignored)
}

/// A selector in its text form, and whether that is all of it.
fn field_selector(selector: &Value) -> (Option<String>, bool) {
    let raw = selector.str_at(&["rawSelector"]);
    if !raw.is_empty() {
        let good = FieldSelector::parse(raw).is_ok();
        return (good.then(|| raw.to_owned()), good);
    }
    let escape = |value: &str| value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
    let term = |requirement: &Value| {
        let key = requirement.str_at(&["key"]);
        let operator = match requirement.str_at(&["operator"]) {
            "In" => "=",
            "NotIn" => "!=",
            _ => return None,
        };
        match requirement.array_at(&["values"]) {
            [value] => Some(format!("{key}{operator}{}", escape(value.as_str()?))),
            _ => None,
        }
    };
    joined(selector, term)
}

fn label_selector(selector: &Value) -> (Option<String>, bool) {
    let raw = selector.str_at(&["rawSelector"]);
    if !raw.is_empty() {
        let good = LabelSelector::parse(raw).is_ok();
        return (good.then(|| raw.to_owned()), good);
    }
    let term = |requirement: &Value| {
        let key = requirement.str_at(&["key"]);
        let values = requirement.array_at(&["values"]).iter();
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let values = values.join(",");
        let term = match requirement.str_at(&["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return None,
        };
        LabelSelector::parse(&term).is_ok().then_some(term)
    };
    joined(selector, term)
}

fn joined(selector: &Value, term: impl Fn(&Value) -> Option<String>) -> (Option<String>, bool) {
    let requirements = selector.array_at(&["requirements"]);
    let terms: Vec<String> = requirements.iter().filter_map(term).collect();
    let whole = terms.len() == requirements.len();
    ((!terms.is_empty()).then(|| terms.join(",")), whole)
}

fn validate(asked: Asked, review: Cursor<'_>) {
    let spec = review.field("spec");
    let resource = spec.field("resourceAttributes");
    let path = spec.field("nonResourceAttributes");
    match (resource.exists(), path.exists()) {
        (true, true) => path.invalid(
            path.go_struct(),
            "cannot be specified in combination with resourceAttributes",
        ),
        (false, false) => resource.invalid(
            Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        _ => {}
    }
    if asked != Asked::OneSelf && spec.str_of("user").is_empty() && spec.field("groups").is_empty() {
        spec.field("user")
            .invalid("", "at least one of user or group must be specified");
    }
    if resource.exists() {
        selector(resource.field("fieldSelector"), field_requirement);
        selector(resource.field("labelSelector"), label_requirement);
    }
    let metadata = review.field("metadata");
    let allowed: &[&str] = match asked {
        Asked::Local => &["managedFields", "namespace"],
        Asked::Subject | Asked::OneSelf => &["managedFields"],
    };
    let members = metadata.value().and_then(Value::as_object);
    if members.is_some_and(|m| m.keys().any(|k| !allowed.contains(&k))) {
        let detail = match asked {
            Asked::Local => "must be empty except for namespace",
            Asked::Subject | Asked::OneSelf => "must be empty",
        };
        metadata.invalid(metadata.shown(), detail);
    }
    if asked == Asked::Local {
        let namespace = resource.field("namespace");
        if resource.exists() && namespace.str() != meta::namespace(review.root()) {
            namespace.invalid(namespace.str(), "must match metadata.namespace");
        }
        if path.exists() {
            path.invalid(path.go_struct(), "disallowed on this kind of request");
        }
    }
}

fn selector(selector: Cursor<'_>, requirement: fn(Cursor<'_>)) {
    if !selector.exists() {
        return;
    }
    let raw = selector.field("rawSelector");
    let requirements = selector.field("requirements");
    match (raw.is_empty(), requirements.is_empty()) {
        (false, false) => raw.invalid(raw.str(), "may not specified at the same time as requirements"),
        (true, true) => requirements.required(format!(
            "when {} is specified, requirements or rawSelector is required",
            selector.path()
        )),
        _ => {}
    }
    requirements.items().for_each(requirement);
}

/// Values must fit the operator; an operator that is not known is none of this server's business.
fn values_fit(requirement: Cursor<'_>) {
    let values = requirement.field("values");
    match requirement.str_of("operator") {
        "In" | "NotIn" if values.is_empty() => {
            values.required("must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        _ => {}
    }
}

fn field_requirement(requirement: Cursor<'_>) {
    if requirement.str_of("key").is_empty() {
        requirement.field("key").required("must be specified");
    }
    values_fit(requirement);
}

fn label_requirement(requirement: Cursor<'_>) {
    values_fit(requirement);
    let key = requirement.field("key");
    key.invalid_text(names::qualified_name(key.str()));
    for value in requirement.field("values").items() {
        value.invalid_text(names::label_value(value.str()));
    }
}

#[cfg(test)]
#[path = "access_review_tests.rs"]
mod tests;
