//! PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{GroupKind, Status, StatusResult, Value, json, meta, yaml};
use triptych_schema::decode::Reader;
use triptych_schema::patch::Reading;
use triptych_schema::patch::json_patch::JsonPatch;
use triptych_schema::patch::merge_patch::MergePatch;
use triptych_schema::patch::strategic::StrategicPatch;

use crate::admission::Warnings;
use crate::endpoint::Endpoint;
use crate::model::Model;
use crate::negotiate;
use crate::object_meta;
use crate::options::{FieldValidation, Query, Write, WriteKind};
use crate::request::{Request, Response};
use crate::strategy::Strategy;
use crate::write::Candidate;
use crate::write::fields::Fields;
use crate::write::update::{Change, finish};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// True for the media types of patches to built-in kinds.
pub fn is_patch_type(media_type: &str) -> bool {
    matches!(media_type, JSON_PATCH | MERGE_PATCH | STRATEGIC_PATCH | APPLY_PATCH)
}

/// A decoded patch.
pub enum Patch {
    /// RFC 6902.
    Json(JsonPatch),
    /// RFC 7386.
    Merge(MergePatch),
    /// Kubernetes' own, led by the types.
    Strategic(StrategicPatch),
    /// Server-side apply.
    Apply(Configuration),
}

/// What a client applies.
pub struct Configuration {
    value: Value,
    /// What a strict reader says of keys that stand twice.
    duplicates: Option<String>,
}

/// Changes an object (or, with apply, makes it).
pub async fn patch(
    endpoint: &Endpoint,
    strategy: &Arc<dyn Strategy>,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<Response> {
    check_type(&*endpoint.model, request)?;
    let output = endpoint.negotiate(request)?;
    let options = options(request)?;
    let applies = negotiate::content_type(&request.headers) == APPLY_PATCH;
    // an object that is not there is told before a patch that is none
    let patch = read(request, &options);
    let change = Change {
        endpoint,
        strategy,
        request,
        options: &options,
        uid: None,
        allow_create: applies && request.info.subresource.is_empty(),
    };
    let make = |live: Option<Value>| -> BoxFuture<'_, StatusResult<(Candidate, Warnings)>> {
        let made = match &patch {
            Ok(patch) => make(endpoint, request, &options, patch, live),
            Err(status) => Err(status.clone()),
        };
        Box::pin(std::future::ready(made))
    };
    let (saved, created) = change.run(make, warnings).await?;
    finish(endpoint, request, &output, saved, created)
}

/// Refuses a patch type the kind does not understand.
pub fn check_type(model: &dyn Model, request: &Request) -> StatusResult<()> {
    let kind = negotiate::content_type(&request.headers);
    let strategic = model.merges_strategically();
    if is_patch_type(&kind) && (strategic || kind != STRATEGIC_PATCH) {
        return Ok(());
    }
    let mut accepted = vec![JSON_PATCH, MERGE_PATCH];
    accepted.extend(strategic.then_some(STRATEGIC_PATCH));
    accepted.push(APPLY_PATCH);
    Err(Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    )))
}

/// The options of a patch.
pub fn options(request: &Request) -> StatusResult<Write> {
    let applies = negotiate::content_type(&request.headers) == APPLY_PATCH;
    let kind = if applies { WriteKind::Apply } else { WriteKind::Patch };
    Write::parse(&Query::parse(&request.query), kind)
}

/// Reads a patch.
pub fn read(request: &Request, options: &Write) -> StatusResult<Patch> {
    decode(
        &negotiate::content_type(&request.headers),
        &request.body,
        options.field_validation,
    )
}

fn decode(kind: &str, body: &[u8], validation: FieldValidation) -> StatusResult<Patch> {
    let reading = match validation {
        FieldValidation::Ignore => Reading::Lenient,
        FieldValidation::Warn | FieldValidation::Strict => Reading::Strict,
    };
    Ok(match kind {
        JSON_PATCH => Patch::Json(JsonPatch::decode(body, reading)?),
        MERGE_PATCH => Patch::Merge(MergePatch::decode(body, reading)?),
        STRATEGIC_PATCH => Patch::Strategic(StrategicPatch::decode(body, reading)?),
        _ => Patch::Apply(configuration(body)?),
    })
}

/// An applied configuration: YAML (or JSON) of an object.
fn configuration(body: &[u8]) -> StatusResult<Configuration> {
    let refuse = |e: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {e}"));
    let parsed = yaml::parse(body).map_err(|e| refuse(&format!("error converting YAML to JSON: {e}")))?;
    let duplicates = parsed
        .strict
        .map(|text| format!("error converting YAML to JSON: {text}"));
    match parsed.value {
        Value::Null => Ok(Configuration {
            value: Value::object(),
            duplicates,
        }),
        value @ Value::Object(_) => Ok(Configuration { value, duplicates }),
        other => Err(refuse(&format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.type_name()
        ))),
    }
}

/// The new content from the live object and a patch.
fn make(
    endpoint: &Endpoint,
    request: &Request,
    options: &Write,
    patch: &Patch,
    live: Option<Value>,
) -> StatusResult<(Candidate, Warnings)> {
    let mut warnings = Warnings::new();
    if live.is_none() && !matches!(patch, Patch::Apply(_)) {
        return Err(Status::not_found(&endpoint.group_resource(), &request.info.name));
    }
    let mut new = apply(&endpoint.fields(request), options, patch, live.as_ref(), &mut warnings)?;
    let document = &mut new.document;
    if live.is_none() && !meta::uid(document).is_empty() {
        // told as a conflict by the caller, before its name is looked at
        return Ok((new, warnings));
    }
    let namespace = if endpoint.resource.namespaced {
        request.info.namespace.as_str()
    } else {
        ""
    };
    object_meta::ensure_namespace(document, namespace)?;
    object_meta::check_name(document, &request.info.name, &request.info.namespace)?;
    Ok((new, warnings))
}

/// Applies a patch to a document of the fields' kind and notes who owns what.
pub fn apply(
    fields: &Fields<'_>,
    options: &Write,
    patch: &Patch,
    live: Option<&Value>,
    warnings: &mut Warnings,
) -> StatusResult<Candidate> {
    let configuration = match patch {
        Patch::Apply(configuration) => configuration,
        patch => {
            let live = live.unwrap_or(&Value::Null);
            let new = patched(fields.model, options, patch, live, warnings)?;
            return new.owned(fields, Some(live), &options.field_manager);
        }
    };
    let applied = fields.apply(
        live,
        &configuration.value,
        &options.field_manager,
        options.force == Some(true),
    )?;
    if let Some(text) = &configuration.duplicates {
        match options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(super::findings_of(text)),
            FieldValidation::Strict => {
                return Err(Status::bad_request(format!("error strict decoding YAML: {text}")));
            }
        }
    }
    Ok(Candidate {
        document: applied,
        empties: Arc::default(),
    })
}

fn patched(
    model: &dyn Model,
    options: &Write,
    patch: &Patch,
    live: &Value,
    warnings: &mut Warnings,
) -> StatusResult<Candidate> {
    let mut new = live.clone();
    let mut findings = change(model, patch, &mut new)?;
    let strategic = match patch {
        Patch::Strategic(p) => Some(p),
        _ => None,
    };
    // what a refusal shows as the bad value: the patch itself, or the object that came out
    let shown = || match strategic {
        Some(p) => p.go_text(),
        None => {
            let mut again = live.clone();
            let _ = change(model, patch, &mut again);
            match patch {
                Patch::Merge(p) => p.sort_touched(&mut again),
                Patch::Json(p) => p.sort_touched(&mut again),
                Patch::Strategic(_) | Patch::Apply(_) => {}
            }
            json::to_string(&again)
        }
    };
    let refuse = |why: String| {
        let errors: ErrorList = std::iter::once(Error::invalid("patch", shown(), why)).collect();
        Status::invalid(&GroupKind::default(), "", &errors)
    };
    let reader = match patch {
        Patch::Merge(p) => Reader::Json(p.numbers()),
        Patch::Json(p) => Reader::Json(p.numbers()),
        Patch::Strategic(_) | Patch::Apply(_) => Reader::Converter,
    };
    findings.extend(model.decode(&mut new, reader).map_err(refuse)?);
    super::report(options.field_validation, findings, warnings, refuse)?;
    Ok(Candidate::of_decoded(model, new))
}

/// Changes a document as the patch says; what a strict reader found in the patch.
fn change(model: &dyn Model, patch: &Patch, document: &mut Value) -> StatusResult<Vec<String>> {
    Ok(match patch {
        Patch::Json(p) => {
            p.apply(document)?;
            p.findings().to_vec()
        }
        Patch::Merge(p) => {
            p.apply(document);
            p.findings().to_vec()
        }
        Patch::Strategic(p) => {
            let (schema, ty) = model.schema();
            p.apply(schema, ty, document)?;
            p.findings().to_vec()
        }
        Patch::Apply(_) => Vec::new(),
    })
}
