//! What stands beside the schema of a version: deprecation, subresources, printer columns, selectable fields.

use std::collections::BTreeSet;

use triptych_object::Value;
use triptych_object::field::{Error, ErrorList};

use super::{field_path, structural};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = [
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
];
/// More fields may not be selectable.
pub const MAX_SELECTABLE: usize = 8;
const MAX_WARNING: usize = 256;

/// `deprecated` and `deprecationWarning`.
pub fn deprecation(version: &Value, path: &str, errors: &mut ErrorList) {
    let deprecated = version.get("deprecated").and_then(Value::as_bool).unwrap_or(false);
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let mut problems = Vec::new();
    if !deprecated {
        problems.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > MAX_WARNING {
            problems.push(format!("must be <= {MAX_WARNING} characters long"));
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((i, _)) = warning.char_indices().find(|(_, c)| !is_print(*c)) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {i}"
            ));
        }
    }
    for problem in problems {
        errors.push(Error::invalid(format!("{path}.deprecationWarning"), warning, problem));
    }
}

/// Go's `unicode.IsPrint`, as near as the standard library tells: no controls, no separators but the space.
fn is_print(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(c as u32, 0xAD | 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xE000..=0xF8FF | 0xFFF9..=0xFFFB))
}

fn simple_path(path: &str, at: String, errors: &mut ErrorList) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        errors.push(Error::invalid(at, path, "must be a simple json path starting with ."));
    }
    simple
}

/// `subresources`.
pub fn subresources(value: Option<&Value>, path: &str, errors: &mut ErrorList) {
    let Some(scale) = value.and_then(|v| v.get("scale")).filter(|s| !s.is_null()) else {
        return;
    };
    for (member, prefix, place) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        let given = scale.str_at(&[member]);
        let at = format!("{path}.scale.{member}");
        if given.is_empty() {
            errors.push(Error::required(at, ""));
        } else if simple_path(given, at.clone(), errors) && !given.starts_with(prefix) {
            errors.push(Error::invalid(at, given, place));
        }
    }
    let selector = scale.str_at(&["labelSelectorPath"]);
    let at = format!("{path}.scale.labelSelectorPath");
    if !selector.is_empty()
        && simple_path(selector, at.clone(), errors)
        && !selector.starts_with(".spec.")
        && !selector.starts_with(".status.")
    {
        errors.push(Error::invalid(
            at,
            selector,
            "should be a json path under either .spec or .status",
        ));
    }
}

/// `additionalPrinterColumns`.
pub fn columns(columns: &[Value], path: &str, errors: &mut ErrorList) {
    for (i, column) in columns.iter().enumerate() {
        let at = |member: &str| format!("{path}[{i}].{member}");
        let text = |member: &str| column.str_at(&[member]);
        if text("name").is_empty() {
            errors.push(Error::required(at("name"), ""));
        }
        let one_of = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text("type") {
            "" => errors.push(Error::required(at("type"), one_of)),
            kind if !COLUMN_TYPES.contains(&kind) => errors.push(Error::invalid(at("type"), kind, one_of)),
            _ => {}
        }
        let format = text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let one_of = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(at("format"), format, one_of));
        }
        match text("jsonPath") {
            "" => errors.push(Error::required(at("JSONPath"), "")),
            given => drop(simple_path(given, at("JSONPath"), errors)),
        }
    }
}

/// `selectableFields` of a version or of all; `schema` is what they select in.
pub fn selectable(
    fields: &[Value],
    schema: Option<&Value>,
    path: &str,
    too_many_allowed: bool,
    errors: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = format!("{path}[{i}].jsonPath");
        let given = field.str_at(&["jsonPath"]);
        if given.is_empty() {
            errors.push(Error::required(at, ""));
            continue;
        }
        let Some(schema) = schema.filter(|s| structural::convertible(s).is_ok()) else {
            continue;
        };
        let (normal, found) = match field_path::follow(given, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(Error::invalid(at, given, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if normal.split('.').next() == Some("metadata") {
            errors.push(Error::invalid(
                at.clone(),
                given,
                "must not point to fields in metadata",
            ));
        }
        if !matches!(found.str_at(&["type"]), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(at.clone(), given, why));
        }
        if !seen.insert(normal) {
            errors.push(Error::duplicate(at, given));
        }
    }
    if seen.len() > MAX_SELECTABLE && !too_many_allowed {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}
