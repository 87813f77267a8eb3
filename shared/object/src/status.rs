//! `Status`, the one shape of every API error, and the only constructors that make one.
//!
//! Contract: code, reason, message and details equal those of k8s.io/apimachinery/pkg/api/errors. A code outside the
//! constructors' set cannot be made. The error type from `registry` upward is [`Box<Status>`].

use std::borrow::Cow;

use crate::field::ErrorList;
use crate::gvk::{GroupKind, GroupResource};
use crate::value::{Object, Value};

/// A result whose error is an API error.
pub type StatusResult<T> = Result<T, Box<Status>>;

/// One cause in a status' details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable cause (`FieldValueInvalid`, `FieldManagerConflict` …); may be empty.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field, if one is to blame.
    pub field: String,
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// Its group.
    pub group: String,
    /// Its kind or, for most errors, its resource.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// What led to the failure.
    pub causes: Vec<Cause>,
    /// Seconds after which to try again; 0 is none. Also sent as `Retry-After`.
    pub retry_after_seconds: u32,
}

/// `metav1.Status`, failures and the success that DELETE answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Machine-readable reason; empty for success. Whoever refuses on the server's behalf (a webhook) may have its own.
    pub reason: Cow<'static, str>,
    /// For people.
    pub message: String,
    /// More about it; `Some` of an empty one is written as `{}`.
    pub details: Option<Details>,
    /// `metadata.continue`: where an inconsistent list may go on after its token expired; mostly empty.
    pub continue_token: String,
}

fn on_resource(gr: &GroupResource, name: &str) -> Details {
    Details {
        name: name.into(),
        group: gr.group.clone(),
        kind: gr.resource.clone(),
        ..Details::default()
    }
}

impl Status {
    fn failure(code: u16, reason: &'static str, message: impl Into<String>, details: Option<Details>) -> Box<Status> {
        Box::new(Status {
            code,
            reason: reason.into(),
            message: message.into(),
            details,
            continue_token: String::new(),
        })
    }

    /// What a DELETE answers when the object is gone at once.
    pub fn success(gr: &GroupResource, name: &str, uid: &str) -> Status {
        let details = Details {
            uid: uid.into(),
            ..on_resource(gr, name)
        };
        Status {
            code: 200,
            reason: Cow::Borrowed(""),
            message: String::new(),
            details: Some(details),
            continue_token: String::new(),
        }
    }

    /// Success about nothing in particular (`code` 200 or 201).
    pub fn plain_success(code: u16) -> Status {
        Status {
            code,
            reason: Cow::Borrowed(""),
            message: String::new(),
            details: None,
            continue_token: String::new(),
        }
    }

    /// True unless this is a success.
    pub fn is_failure(&self) -> bool {
        self.code >= 400
    }

    /// 404 of an object.
    pub fn not_found(gr: &GroupResource, name: &str) -> Box<Status> {
        let message = format!("{gr} {} not found", crate::field::quote(name));
        Self::failure(404, "NotFound", message, Some(on_resource(gr, name)))
    }

    /// 404 of a path or resource nobody serves.
    pub fn no_such_resource() -> Box<Status> {
        Self::failure(
            404,
            "NotFound",
            "the server could not find the requested resource",
            Some(Details::default()),
        )
    }

    /// 409 of a create.
    pub fn already_exists(gr: &GroupResource, name: &str) -> Box<Status> {
        let message = format!("{gr} {} already exists", crate::field::quote(name));
        Self::failure(409, "AlreadyExists", message, Some(on_resource(gr, name)))
    }

    /// 409 of a create whose generated names were all taken.
    pub fn generate_name_conflict(gr: &GroupResource, name: &str, retry_after_seconds: u32) -> Box<Status> {
        let message = format!(
            "{gr} {} already exists, the server was not able to generate a unique name for the object",
            crate::field::quote(name)
        );
        let details = Details {
            retry_after_seconds,
            ..on_resource(gr, name)
        };
        Self::failure(409, "AlreadyExists", message, Some(details))
    }

    /// 401.
    pub fn unauthorized() -> Box<Status> {
        Self::failure(401, "Unauthorized", "Unauthorized", None)
    }

    /// 403 of an object, a collection (`name` empty) or neither (both empty).
    pub fn forbidden(gr: &GroupResource, name: &str, why: impl std::fmt::Display) -> Box<Status> {
        let message = if gr.group.is_empty() && gr.resource.is_empty() {
            format!("forbidden: {why}")
        } else if name.is_empty() {
            format!("{gr} is forbidden: {why}")
        } else {
            format!("{gr} {} is forbidden: {why}", crate::field::quote(name))
        };
        Self::failure(403, "Forbidden", message, Some(on_resource(gr, name)))
    }

    /// 409 of an update that lost a race or names a precondition that does not hold.
    pub fn conflict(gr: &GroupResource, name: &str, why: impl std::fmt::Display) -> Box<Status> {
        let message = format!(
            "Operation cannot be fulfilled on {gr} {}: {why}",
            crate::field::quote(name)
        );
        Self::failure(409, "Conflict", message, Some(on_resource(gr, name)))
    }

    /// 409 of server-side apply.
    pub fn apply_conflict(causes: Vec<Cause>, message: impl Into<String>) -> Box<Status> {
        Self::failure(
            409,
            "Conflict",
            message,
            Some(Details {
                causes,
                ..Details::default()
            }),
        )
    }

    /// 410 `Expired`: a resource version older than history.
    pub fn expired(message: impl Into<String>) -> Box<Status> {
        Self::failure(410, "Expired", message, None)
    }

    /// 410 `Gone`.
    pub fn gone(message: impl Into<String>) -> Box<Status> {
        Self::failure(410, "Gone", message, None)
    }

    /// 422 with one cause for each field error.
    pub fn invalid(gk: &GroupKind, name: &str, errors: &ErrorList) -> Box<Status> {
        let causes = errors
            .iter()
            .map(|e| Cause {
                reason: e.kind.reason().into(),
                message: e.body(),
                field: e.field.clone(),
            })
            .collect();
        let details = Details {
            name: name.into(),
            group: gk.group.clone(),
            kind: gk.kind.clone(),
            causes,
            ..Details::default()
        };
        let mut message = format!("{gk} {} is invalid", crate::field::quote(name));
        if !errors.is_empty() {
            message = format!("{message}: {}", errors.aggregate());
        }
        Self::failure(422, "Invalid", message, Some(details))
    }

    /// 422 whose message is given and whose details are empty, as Kubernetes answers a patch that cannot be applied.
    pub fn unprocessable(message: impl Into<String>) -> Box<Status> {
        Self::failure(422, "Invalid", message, Some(Details::default()))
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Box<Status> {
        Self::failure(400, "BadRequest", message, None)
    }

    /// 405.
    pub fn method_not_supported(gr: &GroupResource, action: &str) -> Box<Status> {
        let message = format!(
            "{action} is not supported on resources of kind {}",
            crate::field::quote(&gr.to_string())
        );
        Self::failure(405, "MethodNotAllowed", message, Some(on_resource(gr, "")))
    }

    /// 405 of a path whose resource has no handler for the method.
    pub fn method_not_allowed() -> Box<Status> {
        Self::failure(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            Some(Details::default()),
        )
    }

    /// 406 naming what can be had.
    pub fn not_acceptable(message: impl Into<String>) -> Box<Status> {
        Self::failure(406, "NotAcceptable", message, None)
    }

    /// 415 naming what is understood.
    pub fn unsupported_media_type(message: impl Into<String>) -> Box<Status> {
        Self::failure(415, "UnsupportedMediaType", message, None)
    }

    /// 413.
    pub fn too_large(message: impl std::fmt::Display) -> Box<Status> {
        Self::failure(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: {message}"),
            None,
        )
    }

    /// 429 with the seconds to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Box<Status> {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::failure(429, "TooManyRequests", message, Some(details))
    }

    /// 500.
    pub fn internal(why: impl std::fmt::Display) -> Box<Status> {
        let cause = Cause {
            message: why.to_string(),
            ..Cause::default()
        };
        let details = Details {
            causes: vec![cause],
            ..Details::default()
        };
        Self::failure(
            500,
            "InternalError",
            format!("Internal error occurred: {why}"),
            Some(details),
        )
    }

    /// 500 `ServerTimeout`: try again.
    pub fn server_timeout(gr: &GroupResource, operation: &str, retry_after_seconds: u32) -> Box<Status> {
        let message =
            format!("The {operation} operation against {gr} could not be completed at this time, please try again.");
        let details = Details {
            retry_after_seconds,
            ..on_resource(gr, operation)
        };
        Self::failure(500, "ServerTimeout", message, Some(details))
    }

    /// 503, optionally with the seconds to wait.
    pub fn service_unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Box<Status> {
        let details = (retry_after_seconds > 0).then(|| Details {
            retry_after_seconds,
            ..Details::default()
        });
        Self::failure(503, "ServiceUnavailable", message, details)
    }

    /// 504.
    pub fn timeout(message: impl std::fmt::Display, retry_after_seconds: u32) -> Box<Status> {
        let details = Details {
            retry_after_seconds,
            ..Details::default()
        };
        Self::failure(504, "Timeout", format!("Timeout: {message}"), Some(details))
    }

    /// An error of a REST handler that is not an API error: Kubernetes answers it 500 with the bare text.
    pub fn unknown(message: impl Into<String>) -> Box<Status> {
        Self::failure(500, "", message, None)
    }

    /// The same with another message.
    pub fn with_message(mut self: Box<Self>, message: impl Into<String>) -> Box<Status> {
        self.message = message.into();
        self
    }

    /// The same with a token that goes on at the newest version.
    pub fn with_continue(mut self: Box<Self>, token: String) -> Box<Status> {
        self.continue_token = token;
        self
    }

    /// The same with other details.
    pub fn with_details(mut self: Box<Self>, details: Option<Details>) -> Box<Status> {
        self.details = details;
        self
    }

    /// Seconds for `Retry-After`; 0 for none.
    pub fn retry_after_seconds(&self) -> u32 {
        self.details.as_ref().map_or(0, |d| d.retry_after_seconds)
    }

    /// `code` as the document shows it: a success about an object says none.
    pub fn shown_code(&self) -> u16 {
        if self.is_failure() || self.details.is_none() {
            self.code
        } else {
            0
        }
    }

    /// The document, members in Go's order.
    pub fn to_value(&self) -> Value {
        let mut out = Object::with_capacity(8);
        out.insert("kind", "Status".into());
        out.insert("apiVersion", "v1".into());
        let mut metadata = Object::new();
        set(&mut metadata, "continue", &self.continue_token);
        out.insert("metadata", Value::Object(metadata));
        out.insert("status", if self.is_failure() { "Failure" } else { "Success" }.into());
        set(&mut out, "message", &self.message);
        set(&mut out, "reason", &self.reason);
        if let Some(d) = &self.details {
            out.insert("details", d.to_value());
        }
        if self.shown_code() != 0 {
            out.insert("code", Value::Int(self.shown_code().into()));
        }
        Value::Object(out)
    }

    /// The document as JSON, without a line end.
    pub fn to_json(&self) -> Vec<u8> {
        crate::json::to_vec(&self.to_value())
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut out = Object::new();
        set(&mut out, "name", &self.name);
        set(&mut out, "group", &self.group);
        set(&mut out, "kind", &self.kind);
        set(&mut out, "uid", &self.uid);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|c| {
                let mut cause = Object::new();
                set(&mut cause, "reason", &c.reason);
                set(&mut cause, "message", &c.message);
                set(&mut cause, "field", &c.field);
                Value::Object(cause)
            });
            out.insert("causes", Value::Array(causes.collect()));
        }
        if self.retry_after_seconds > 0 {
            out.insert("retryAfterSeconds", Value::Int(self.retry_after_seconds.into()));
        }
        Value::Object(out)
    }
}

fn set(out: &mut Object, key: &str, text: &str) {
    if !text.is_empty() {
        out.insert(key, text.into());
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_object_is_named_with_its_resource() {
        let s = Status::not_found(&GroupResource::new("apps", "deployments"), "a");
        assert_eq!(
            String::from_utf8_lossy(&s.to_json()),
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \"a\" not found","reason":"NotFound","details":{"name":"a","group":"apps","kind":"deployments"},"code":404}"#
        );
    }

    #[test]
    fn field_errors_become_causes() {
        let errors = [crate::field::Error::required("spec.x", "say it")]
            .into_iter()
            .collect();
        let s = Status::invalid(&GroupKind::new("", "Pod"), "p", &errors);
        assert_eq!(s.message, r#"Pod "p" is invalid: spec.x: Required value: say it"#);
        assert_eq!(
            s.details.map(|d| d.causes[0].reason.clone()).as_deref(),
            Some("FieldValueRequired")
        );
    }
}
