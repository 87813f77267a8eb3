//! Conversion between the versions of a custom resource by a webhook (apiextensions.k8s.io ConversionReview).
//!
//! Contract: what a webhook may change is the object but not who it is: kind, name, namespace and uid must stay, of
//! metadata only labels and annotations are taken over. Texts are kube-apiserver's.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use triptych_client::hook::{Calls, Hook, Services, Target};
use triptych_object::{Gvk, Object, Value, json, meta};

/// How the calls name their caller.
pub const AGENT: &str = "kube-apiserver";
/// So many calls are under way at most.
pub const MAX_CALLS: usize = 200;
/// What client-go gives a call that nobody limits.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects of one call weigh about so much at most, a single one excepted.
const CALL_BYTES: usize = 4 << 20;
const GROUP: &str = "apiextensions.k8s.io";

/// For a tier that has no core-api to ask where Services lead.
pub struct NoServices;

impl Services for NoServices {
    fn resolve<'a>(&'a self, _: &'a str, name: &'a str, _: u16) -> BoxFuture<'a, Result<(String, u16), String>> {
        Box::pin(std::future::ready(Err(format!("service {name:?} not found"))))
    }
}

/// A CRD's webhook.
pub struct Converter {
    hook: Hook,
    /// The version of ConversionReview that is spoken: the first listed that is known.
    review: Option<&'static str>,
}

impl Converter {
    /// That of a CRD (v1); `None` if its strategy is not Webhook.
    pub fn of(crd: &Value, calls: &Arc<Calls>) -> Option<Converter> {
        if crd.str_at(&["spec", "conversion", "strategy"]) != "Webhook" {
            return None;
        }
        let webhook = crd.at(&["spec", "conversion", "webhook"]).unwrap_or(&Value::Null);
        let client = webhook.get("clientConfig").unwrap_or(&Value::Null);
        let service = client.get("service").filter(|service| !service.is_null());
        let target = match service {
            Some(service) => Target::Service {
                namespace: service.str_at(&["namespace"]).to_owned(),
                name: service.str_at(&["name"]).to_owned(),
                port: service
                    .get("port")
                    .and_then(Value::as_i64)
                    .and_then(|port| port.try_into().ok())
                    .unwrap_or(443),
                path: service.str_at(&["path"]).to_owned(),
            },
            None => Target::Url(client.str_at(&["url"]).to_owned()),
        };
        // it was validated; a bundle that is none vouches for nobody
        let bundle = STANDARD.decode(client.str_at(&["caBundle"])).unwrap_or_default();
        let mut listed = webhook.array_at(&["conversionReviewVersions"]).iter();
        Some(Converter {
            hook: Hook::new(calls, target, &bundle),
            review: listed.find_map(|version| match version.as_str() {
                Some("v1") => Some("v1"),
                Some("v1beta1") => Some("v1beta1"),
                _ => None,
            }),
        })
    }

    /// Documents as ones of `to` (`<group>/<version>`), in the same order. All of them are in another version.
    pub async fn convert(&self, documents: Vec<Value>, to: &str) -> Result<Vec<Value>, String> {
        let mut converted = Vec::with_capacity(documents.len());
        let (mut call, mut bytes) = (Vec::new(), 0);
        for document in documents {
            let size = json::to_vec(&document).len();
            if bytes + size > CALL_BYTES && !call.is_empty() {
                converted.extend(self.call(std::mem::take(&mut call), to).await?);
                bytes = 0;
            }
            bytes += size;
            call.push(document);
        }
        if !call.is_empty() {
            converted.extend(self.call(call, to).await?);
        }
        Ok(converted)
    }

    async fn call(&self, documents: Vec<Value>, to: &str) -> Result<Vec<Value>, String> {
        let review = self
            .review
            .ok_or_else(|| "no supported conversion review versions".to_owned())?;
        let of = documents.first().map(meta::gvk).unwrap_or_default();
        let uid = uuid::Uuid::new_v4().to_string();
        let question = Value::from([
            ("kind", "ConversionReview".into()),
            ("apiVersion", format!("{GROUP}/{review}").into()),
            (
                "request",
                Value::from([
                    ("uid", uid.as_str().into()),
                    ("desiredAPIVersion", to.into()),
                    ("objects", Value::Array(documents.clone())),
                ]),
            ),
        ]);
        let failed = |why: String| format!("conversion webhook for {of} failed: {why}");
        let answer = self.hook.post(&question, TIMEOUT).await.map_err(failed)?;
        let answer = json::from_slice(&answer).map_err(|e| failed(e.message))?;
        let objects = answered(&answer, review, &uid).map_err(failed)?;
        if objects.len() != documents.len() {
            return Err(format!(
                "conversion webhook for {of} returned {} objects, expected {}",
                objects.len(),
                documents.len()
            ));
        }
        let pairs = documents.iter().zip(objects);
        pairs
            .map(|(original, converted)| checked(original, converted, to))
            .collect()
    }
}

/// The objects of a review that says it succeeded.
fn answered(answer: &Value, review: &str, uid: &str) -> Result<Vec<Value>, String> {
    let wanted = Gvk::new(GROUP, review, "ConversionReview");
    let got = meta::gvk(answer);
    // v1beta1 was never held to what it answers
    let strict = review == "v1";
    if strict && got != wanted {
        return Err(format!("expected webhook response of {wanted}, got {got}"));
    }
    let Some(response) = answer.get("response").filter(|response| !response.is_null()) else {
        return Err("no response provided".to_owned());
    };
    let answered = response.str_at(&["uid"]);
    if strict && answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    match (
        response.str_at(&["result", "status"]),
        response.str_at(&["result", "message"]),
    ) {
        ("Success", _) => Ok(response.array_at(&["convertedObjects"]).to_vec()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// A converted object, if it still is the original, with the original's metadata.
fn checked(original: &Value, mut converted: Value, to: &str) -> Result<Value, String> {
    let of = meta::gvk(original);
    let returned = |what: &str, why: String| format!("conversion webhook for {of} returned invalid {what}: {why}");
    let api_version = converted.str_at(&["apiVersion"]);
    if api_version != to {
        let why = format!("invalid groupVersion (expected {to}, received {api_version})");
        return Err(returned("object at index 0", why));
    }
    let kind = converted.str_at(&["kind"]);
    if kind != of.kind {
        let why = format!("invalid kind (expected {}, received {kind})", of.kind);
        return Err(returned("object at index 0", why));
    }
    for (member, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let [before, after] = [original, &converted].map(|it| it.str_at(&["metadata", member]));
        if before != after {
            return Err(returned(
                "object",
                format!("must have the same {shown}: {before} != {after}"),
            ));
        }
    }
    let metadata = metadata(original, &converted).map_err(|why| returned("metadata", why))?;
    converted.set_at(&["metadata"], metadata);
    Ok(converted)
}

/// The original's metadata with the labels and annotations of the converted object.
fn metadata(original: &Value, converted: &Value) -> Result<Value, String> {
    let Some(given) = converted.get("metadata") else {
        return Err("missing metadata in converted object".to_owned());
    };
    if given.as_object().is_none() {
        return Err(format!(
            "invalid metadata of type {} in converted object",
            go_type(given)
        ));
    }
    let mut metadata = original
        .get("metadata")
        .cloned()
        .unwrap_or_else(|| Value::Object(Object::default()));
    for field in ["labels", "annotations"] {
        let Some(given) = given.get(field).filter(|given| !given.is_null()) else {
            metadata.remove_at(&[field]);
            continue;
        };
        let Some(members) = given.as_object() else {
            let kind = go_type(given);
            return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
        };
        if let Some((key, value)) = members.iter().find(|(_, value)| value.as_str().is_none()) {
            let kind = go_type(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {kind} in converted object"
            ));
        }
        metadata.set_at(&[field], given.clone());
    }
    Ok(metadata)
}

/// What Go's `%T` says of a value decoded from JSON.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn of_metadata_only_labels_and_annotations_are_converted() {
        let original = object(
            r#"{"apiVersion":"g.x/v1","kind":"K","metadata":{"name":"a","uid":"1","labels":{"l":"1"},"annotations":{"a":"1"}}}"#,
        );
        let converted = object(
            r#"{"apiVersion":"g.x/v2","kind":"K","metadata":{"name":"a","uid":"1","labels":{"l":"2"},"generation":9},"spec":1}"#,
        );
        let result = checked(&original, converted, "g.x/v2").unwrap();
        assert_eq!(
            json::to_string(&result),
            r#"{"apiVersion":"g.x/v2","kind":"K","metadata":{"name":"a","uid":"1","labels":{"l":"2"}},"spec":1}"#
        );
    }

    #[test]
    fn an_object_that_became_another_is_refused() {
        let original = object(r#"{"apiVersion":"g.x/v1","kind":"K","metadata":{"name":"a","uid":"1"}}"#);
        let refused = |text: &str| checked(&original, object(text), "g.x/v2").unwrap_err();
        for (converted, why) in [
            (
                r#"{"apiVersion":"g.x/v1","kind":"K","metadata":{"name":"a","uid":"1"}}"#,
                "returned invalid object at index 0: invalid groupVersion (expected g.x/v2, received g.x/v1)",
            ),
            (
                r#"{"apiVersion":"g.x/v2","kind":"L","metadata":{"name":"a","uid":"1"}}"#,
                "returned invalid object at index 0: invalid kind (expected K, received L)",
            ),
            (
                r#"{"apiVersion":"g.x/v2","kind":"K","metadata":{"name":"b","uid":"1"}}"#,
                "returned invalid object: must have the same name: a != b",
            ),
            (
                r#"{"apiVersion":"g.x/v2","kind":"K","metadata":{"name":"a","uid":"2"}}"#,
                "returned invalid object: must have the same UID: 1 != 2",
            ),
            (
                r#"{"apiVersion":"g.x/v2","kind":"K","metadata":{"name":"a","uid":"1","labels":{"x":1}}}"#,
                "returned invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object",
            ),
        ] {
            assert_eq!(
                refused(converted),
                format!("conversion webhook for g.x/v1, Kind=K {why}")
            );
        }
    }

    #[test]
    fn a_review_must_answer_the_question() {
        let said = |text: &str, review: &str| answered(&object(text), review, "u");
        let v1 = r#""apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview""#;
        let ok = format!(r#"{{{v1},"response":{{"uid":"u","result":{{"status":"Success"}},"convertedObjects":[1]}}}}"#);
        assert_eq!(said(&ok, "v1").unwrap().len(), 1);
        for (text, why) in [
            (
                "{}".to_owned(),
                "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
            ),
            (format!("{{{v1}}}"), "no response provided"),
            (
                format!(r#"{{{v1},"response":{{"uid":"x"}}}}"#),
                r#"expected response.uid="u", got "x""#,
            ),
            (
                format!(r#"{{{v1},"response":{{"uid":"u","result":{{"status":"Failed","message":"no"}}}}}}"#),
                "no",
            ),
            (
                format!(r#"{{{v1},"response":{{"uid":"u"}}}}"#),
                "response.result.status was '', not 'Success'",
            ),
        ] {
            assert_eq!(said(&text, "v1").unwrap_err(), why);
        }
        assert_eq!(said("{}", "v1beta1").unwrap_err(), "no response provided");
    }
}
