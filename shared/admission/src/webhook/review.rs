//! AdmissionReview: what a webhook is asked, and what its answer may be (admission.k8s.io/v1 and v1beta1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use triptych_client::api::read_status;
use triptych_object::value::Object;
use triptych_object::{Gvk, Gvr, Status, UserInfo, Value, field, json};
use triptych_registry::admission::Attributes;

use crate::matching::Invocation;

/// A question, by which its answer is known.
pub struct Question {
    /// Must come back.
    pub uid: String,
    version: &'static str,
    /// What is sent.
    pub document: Value,
}

/// What a webhook answered.
#[derive(Debug)]
pub struct Verdict {
    /// The request may go on.
    pub allowed: bool,
    /// Why not, in the webhook's words.
    pub status: Option<Value>,
    /// A JSON patch, empty for none.
    pub patch: Vec<u8>,
    /// Texts for the client.
    pub warnings: Vec<String>,
}

fn kind(kind: &Gvk) -> Value {
    Value::from([
        ("group", kind.group.as_str().into()),
        ("version", kind.version.as_str().into()),
        ("kind", kind.kind.as_str().into()),
    ])
}

fn resource(resource: &Gvr) -> Value {
    Value::from([
        ("group", resource.group.as_str().into()),
        ("version", resource.version.as_str().into()),
        ("resource", resource.resource.as_str().into()),
    ])
}

/// `authentication.k8s.io/v1` UserInfo.
pub fn user(user: &UserInfo) -> Value {
    let list = |texts: &[String]| Value::Array(texts.iter().map(|text| text.as_str().into()).collect());
    let mut out = Object::new();
    let mut text = |member: &str, text: &str| {
        if !text.is_empty() {
            out.insert(member, text.into());
        }
    };
    text("username", &user.name);
    text("uid", &user.uid);
    if !user.groups.is_empty() {
        out.insert("groups", list(&user.groups));
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(key, values)| (key.clone(), list(values)));
        out.insert("extra", Value::Object(extra.collect()));
    }
    Value::Object(out)
}

/// The `AdmissionRequest` of a request, its objects left out.
pub fn request(uid: &str, attributes: &Attributes<'_>, shown: &Invocation) -> Object {
    let mut out = Object::with_capacity(16);
    if !uid.is_empty() {
        out.insert("uid", uid.into());
    }
    out.insert("kind", kind(&shown.kind));
    out.insert("resource", resource(&shown.resource));
    let mut text = |member: &str, text: &str| {
        if !text.is_empty() {
            out.insert(member, text.into());
        }
    };
    text("subResource", attributes.subresource);
    out.insert("requestKind", kind(attributes.kind));
    out.insert("requestResource", resource(attributes.resource));
    let mut text = |member: &str, text: &str| {
        if !text.is_empty() {
            out.insert(member, text.into());
        }
    };
    text("requestSubResource", attributes.subresource);
    text("name", attributes.name);
    text("namespace", attributes.namespace);
    out.insert("operation", attributes.operation.text().into());
    out.insert("userInfo", user(attributes.user));
    out
}

/// The `AdmissionRequest` as expressions see it.
pub fn told_to_expressions(attributes: &Attributes<'_>, shown: &Invocation) -> Object {
    let mut out = request("", attributes, shown);
    out.insert("dryRun", attributes.dry_run.into());
    out.insert("options", attributes.options.cloned().unwrap_or_default());
    out
}

impl Question {
    /// About a request, in the first version that the webhook understands.
    pub fn new(
        versions: &[String],
        attributes: &Attributes<'_>,
        shown: &Invocation,
        object: Option<Value>,
        old: Option<Value>,
    ) -> Result<Question, String> {
        let version = versions.iter().find_map(|version| match version.as_str() {
            "v1" => Some("v1"),
            "v1beta1" => Some("v1beta1"),
            _ => None,
        });
        let version = version.ok_or("webhook does not accept known AdmissionReview versions (v1, v1beta1)")?;
        let uid = uuid::Uuid::new_v4().to_string();
        let mut request = request(&uid, attributes, shown);
        request.insert("object", object.unwrap_or_default());
        request.insert("oldObject", old.unwrap_or_default());
        request.insert("dryRun", attributes.dry_run.into());
        request.insert("options", attributes.options.cloned().unwrap_or_default());
        let document = Value::from([
            ("kind", "AdmissionReview".into()),
            ("apiVersion", format!("admission.k8s.io/{version}").into()),
            ("request", Value::Object(request)),
        ]);
        Ok(Question { uid, version, document })
    }

    /// Reads an answer; `Err((true, _))` if it is none that could be read at all.
    pub fn answer(&self, bytes: &[u8], mutating: bool) -> Result<Verdict, Unusable> {
        let review = json::from_slice(bytes)
            .map_err(|e| Unusable::Undecodable(format!("couldn't get version/kind; json parse error: {e}")))?;
        if review.str_at(&["kind"]) == "Status" && review.str_at(&["apiVersion"]) == "v1" {
            let message = review.str_at(&["message"]).to_owned();
            if review.str_at(&["status"]) != "Success" {
                return Err(Unusable::Undecodable(message));
            }
        }
        let Some(response) = review.get("response").filter(|response| !response.is_null()) else {
            return Err(Unusable::Invalid("webhook response was absent".into()));
        };
        self.verdict(&review, response, mutating)
    }

    fn verdict(&self, review: &Value, response: &Value, mutating: bool) -> Result<Verdict, Unusable> {
        let patch = match response.get("patch") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => STANDARD
                .decode(text.as_bytes())
                .map_err(|_| Unusable::Undecodable("illegal base64 data in response.patch".into()))?,
            Some(other) => return Err(wrong_type(other, "patch", "[]uint8")),
        };
        let allowed = match response.get("allowed") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(allowed)) => *allowed,
            Some(other) => return Err(wrong_type(other, "allowed", "bool")),
        };
        let patch_type = response.get("patchType").filter(|value| !value.is_null());
        if self.version == "v1" {
            self.check(review, response)?;
            let invalid = |text: &str| Err(Unusable::Invalid(text.to_owned()));
            match (mutating, patch.is_empty(), patch_type) {
                (true, false, None) => {
                    return invalid("webhook returned response.patch but not response.patchType");
                }
                (true, true, Some(_)) => {
                    return invalid("webhook returned response.patchType but not response.patch");
                }
                (true, false, Some(kind)) if kind.as_str() == Some("") => {
                    return invalid("webhook returned invalid response.patchType of \"\"");
                }
                (true, false, Some(kind)) if kind.as_str() != Some("JSONPatch") => {
                    let kind = field::quote(kind.as_str().unwrap_or(""));
                    return Err(Unusable::Unsupported(format!("unsupported patch type {kind}")));
                }
                (false, false, _) => return invalid("validating webhook may not return response.patch"),
                (false, true, Some(_)) => return invalid("validating webhook may not return response.patchType"),
                _ => {}
            }
        }
        let warnings = response.array_at(&["warnings"]).iter().filter_map(Value::as_str);
        Ok(Verdict {
            allowed,
            status: response.get("status").filter(|status| !status.is_null()).cloned(),
            patch: if mutating { patch } else { Vec::new() },
            warnings: warnings.map(str::to_owned).collect(),
        })
    }

    /// What v1 demands: an answer to this question, of the same kind.
    fn check(&self, review: &Value, response: &Value) -> Result<(), Unusable> {
        let uid = response.str_at(&["uid"]);
        if uid != self.uid {
            let (wanted, got) = (field::quote(&self.uid), field::quote(uid));
            return Err(Unusable::Invalid(format!("expected response.uid={wanted}, got {got}")));
        }
        let (version, kind) = (review.str_at(&["apiVersion"]), review.str_at(&["kind"]));
        if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
            let version = if version.is_empty() { "/" } else { version };
            return Err(Unusable::Invalid(format!(
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {version}, Kind={kind}"
            )));
        }
        Ok(())
    }
}

fn wrong_type(value: &Value, member: &str, wanted: &str) -> Unusable {
    let have = value.type_name();
    Unusable::Undecodable(format!(
        "json: cannot unmarshal {have} into Go struct field AdmissionResponse.response.{member} of type {wanted}"
    ))
}

/// Why an answer cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It cannot be read.
    Undecodable(String),
    /// It is no answer to the question.
    Invalid(String),
    /// It asks for something that is not done.
    Unsupported(String),
}

/// The refusal that a webhook asks for.
pub fn refusal(webhook: &str, status: Option<&Value>) -> Box<Status> {
    let denied = format!("admission webhook {} denied the request", field::quote(webhook));
    let none = Value::Null;
    let status = status.unwrap_or(&none);
    let code = status.get("code").and_then(Value::as_i64);
    // a refusal is no success, whatever it says
    let code = code
        .and_then(|code| u16::try_from(code).ok())
        .unwrap_or(0)
        .clamp(400, 599);
    let mut refusal = read_status(code, status);
    refusal.message = match (refusal.message.as_str(), &*refusal.reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    Box::new(refusal)
}
