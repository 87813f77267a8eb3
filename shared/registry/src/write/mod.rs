//! The write path: create, update, patch, apply, delete, actions.
//!
//! Contract: decode → strict findings → default → managedFields → mutating admission → prepare → validate → reserve →
//! validating admission → encode → equal to what is stored: no write → compare-and-swap → answer from the bytes just
//! stored. A lost race is retried with the object that won, nothing is half-written, and a dry run does everything but
//! the swap.

pub mod action;
pub mod connect;
pub mod create;
pub mod delete;
pub mod fields;
pub mod patch;
pub mod paths;
pub mod save;
pub mod update;

use std::sync::Arc;

use triptych_object::{Empties, Gvk, Status, StatusResult, Value};

use crate::admission::Warnings;
use crate::model::{DecodeError, Model};
use crate::negotiate;
use crate::object_meta;
use crate::options::FieldValidation;
use crate::request::Request;
use crate::write::fields::Fields;

/// A document in the form that strategies see, and what it named and left empty.
pub struct Candidate {
    /// The document.
    pub document: Value,
    /// What was empty in it.
    pub empties: Arc<Empties>,
}

impl Candidate {
    /// Sets the defaults of a decoded document and settles it.
    pub(crate) fn of_decoded(model: &dyn Model, mut document: Value) -> Candidate {
        model.default(&mut document);
        let empties = Arc::new(model.settle(&mut document));
        Candidate { document, empties }
    }

    /// Notes who owns what; from then on the document is as it will come back from the store.
    pub(crate) fn owned(mut self, fields: &Fields<'_>, live: Option<&Value>, manager: &str) -> StatusResult<Candidate> {
        fields.update(live, &mut self.document, manager)?;
        if self.empties.always_written() {
            fields.model.through_store(&mut self.document);
        }
        Ok(self)
    }
}

/// Reads a body into a defaulted document; unknown and duplicate fields as `validation` says.
pub(crate) fn decode(
    model: &dyn Model,
    request: &Request,
    validation: FieldValidation,
    warnings: &mut Warnings,
) -> StatusResult<Candidate> {
    let format = negotiate::input(&request.headers, model.offer().formats)?;
    let refuse = |e: DecodeError| undecodable(model.gvk(), &e, &request.body);
    let mut decoded = model.decode_body(format, &request.body).map_err(refuse)?;
    report(validation, std::mem::take(&mut decoded.strict), warnings, |message| {
        refuse(DecodeError {
            gvk: Some(decoded.gvk.clone()),
            message,
        })
    })?;
    let (have, want) = (decoded.gvk.group_version(), model.gvk().group_version());
    if have != want {
        let message = format!("the API version in the data ({have}) does not match the expected API version ({want})");
        return Err(Status::bad_request(message));
    }
    Ok(Candidate::of_decoded(model, decoded.document))
}

/// Turns strict findings into warnings or into the error that `refuse` makes of them.
pub(crate) fn report(
    validation: FieldValidation,
    findings: Vec<String>,
    warnings: &mut Warnings,
    refuse: impl FnOnce(String) -> Box<Status>,
) -> StatusResult<()> {
    if findings.is_empty() {
        return Ok(());
    }
    match validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            warnings.extend(findings.iter().flat_map(|text| findings_of(text)));
            Ok(())
        }
        FieldValidation::Strict => Err(refuse(format!("strict decoding error: {}", findings.join(", ")))),
    }
}

/// The warnings of one strict error: the YAML reader tells all of its findings in one text, a line each.
pub(crate) fn findings_of(text: &str) -> Vec<String> {
    let yaml = text.strip_prefix("error converting YAML to JSON: ").unwrap_or(text);
    match yaml.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![text.to_owned()],
    }
}

/// 400 of a body that could not be decoded.
fn undecodable(want: &Gvk, error: &DecodeError, body: &[u8]) -> Box<Status> {
    Status::bad_request(match &error.gvk {
        Some(gvk) if !gvk.kind.is_empty() => format!(
            "{} in version {} cannot be handled as a {}: {}",
            gvk.kind,
            triptych_object::field::quote(&gvk.version),
            want.kind,
            error.message
        ),
        _ => format!(
            "the object provided is unrecognized (must be of type {}): {} ({})",
            want.kind,
            error.message,
            summary(body)
        ),
    })
}

/// The beginning of a body: as text if it looks like JSON, else in hex.
fn summary(body: &[u8]) -> String {
    const MAX: usize = 30;
    let head = &body[..body.len().min(MAX)];
    let more = if body.len() > MAX { " ..." } else { "" };
    match head.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => format!("{}{more}", head.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    }
}

/// Drops owner references that stand twice, with a warning.
pub(crate) fn dedup_owners(document: &mut Value, after_admission: bool, warnings: &mut Warnings) {
    let duplicates = object_meta::dedup_owner_references(document);
    if duplicates.is_empty() {
        return;
    }
    let after = if after_admission {
        " after mutating admission happens"
    } else {
        ""
    };
    warnings.push(format!(
        ".metadata.ownerReferences contains duplicate entries{after}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        duplicates.join(", ")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_of_the_yaml_reader_is_a_warning_of_its_own() {
        let text = "error converting YAML to JSON: yaml: unmarshal errors:\n  line 6: key \"k\" already set in map\n  line 7: key \"l\" already set in map";
        assert_eq!(
            findings_of(text),
            [
                "line 6: key \"k\" already set in map",
                "line 7: key \"l\" already set in map"
            ]
        );
        assert_eq!(findings_of("unknown field \"a\""), ["unknown field \"a\""]);
    }
}
