//! What every object's `metadata` must satisfy, and what the server does to it on writes.
//!
//! Contract: texts, causes and their repetition equal k8s.io/apimachinery/pkg/api/validation. kube-apiserver reports a
//! metadata error once per validator that looks, so that an update names a bad label several times; see
//! [`RepeatedMetaChecks`].

use std::collections::HashSet;

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList, quote};
use triptych_object::value::Object;
use triptych_object::{Status, StatusResult, Value, meta, names, time};
use triptych_schema::resource::NameRule;

use crate::options::check_field_manager;

/// Annotations may take this many bytes, keys and values together.
const MAX_ANNOTATIONS_BYTES: usize = 256 * 1024;

const IMMUTABLE: &str = "field is immutable";

/// Which metadata checks a kind's own update validator repeats after the common ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepeatedMetaChecks {
    /// None.
    None,
    /// Those of an update.
    Update,
    /// Those of a whole object.
    Whole,
    /// Those of an update and those of a whole object.
    #[default]
    UpdateAndWhole,
}

/// Clears what a client may not set on create.
pub fn wipe_system_fields(object: &mut Value) {
    if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for member in [
            "creationTimestamp",
            "uid",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
        ] {
            meta.remove(member);
        }
    }
}

/// Gives a new object its uid and time.
pub fn fill_system_fields(object: &mut Value, now: Timestamp) {
    meta::set_text(object, "creationTimestamp", time::rfc3339(now));
    meta::set_text(object, "uid", uuid::Uuid::new_v4().to_string());
}

/// Puts the request's namespace into the object, or refuses one that differs.
pub fn ensure_namespace(object: &mut Value, expected: &str) -> StatusResult<()> {
    let have = meta::namespace(object);
    if have == expected {
        return Ok(());
    }
    if !have.is_empty() && !expected.is_empty() {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(message));
    }
    meta::set_text(object, "namespace", expected);
    Ok(())
}

/// Refuses an object whose name is not the URL's.
pub fn check_name(object: &Value, name: &str, namespace: &str) -> StatusResult<()> {
    let have = meta::name(object);
    if have.is_empty() {
        let message = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
        return Err(Status::bad_request(message));
    }
    if have != name {
        let message = format!("the name of the object ({have}) does not match the name on the URL ({name})");
        return Err(Status::bad_request(message));
    }
    let own = meta::namespace(object);
    if !namespace.is_empty() && !own.is_empty() && own != namespace {
        let message =
            format!("the namespace of the object ({own}) does not match the namespace on the request ({namespace})");
        return Err(Status::bad_request(message));
    }
    Ok(())
}

/// Appends five random characters to a prefix, cut so that the whole has at most 63 (names.SimpleNameGenerator).
pub fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    const RANDOM: usize = 5;
    let mut end = prefix.len().min(63 - RANDOM);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    for _ in 0..RANDOM {
        name.push(char::from(ALPHABET[rand::random_range(0..ALPHABET.len())]));
    }
    name
}

/// Removes owner references that stand twice; their uids, for the warning.
pub fn dedup_owner_references(object: &mut Value) -> Vec<String> {
    let Some(references) = object
        .at_mut(&["metadata", "ownerReferences"])
        .and_then(Value::as_array_mut)
    else {
        return Vec::new();
    };
    let mut duplicates = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(references.len());
    let mut seen = HashSet::new();
    for reference in references.drain(..) {
        let uid = reference.get("uid").and_then(Value::as_str).unwrap_or("").to_owned();
        if seen.insert(uid.clone()) || !kept.contains(&reference) {
            kept.push(reference);
        } else {
            duplicates.push(uid);
        }
    }
    *references = kept;
    duplicates
}

/// How a name is checked.
#[derive(Clone, Copy, Debug)]
pub enum Naming {
    /// As the kind demands, with its limit on the length.
    Kind(NameRule, Option<u16>),
    /// As any path segment, the check common to all kinds.
    PathSegment,
}

impl Naming {
    fn check(self, name: &str, prefix: bool) -> Vec<String> {
        match self {
            Naming::PathSegment | Naming::Kind(NameRule::PathSegment, _) => {
                if prefix {
                    names::path_segment_name_prefix(name)
                } else {
                    names::path_segment_name(name)
                }
            }
            Naming::Kind(NameRule::Label, _) => {
                if prefix {
                    names::dns1123_label_prefix(name)
                } else {
                    names::dns1123_label(name)
                }
            }
            Naming::Kind(NameRule::Subdomain, _) => {
                if prefix {
                    names::dns1123_subdomain_prefix(name)
                } else {
                    names::dns1123_subdomain(name)
                }
            }
            Naming::Kind(NameRule::Loose | NameRule::Ip | NameRule::Composed, _) => Vec::new(),
        }
    }
}

/// Everything a whole object's metadata must satisfy (`ValidateObjectMeta`).
pub fn validate(object: &Value, namespaced: bool, naming: Naming, errors: &mut ErrorList) {
    let name = meta::name(object);
    let generate_name = meta::text(object, "generateName");
    if !generate_name.is_empty() {
        for message in naming.check(generate_name, true) {
            errors.push(Error::invalid("metadata.generateName", generate_name, message));
        }
    }
    if name.is_empty() {
        errors.push(Error::required("metadata.name", "name or generateName is required"));
    } else {
        for message in naming.check(name, false) {
            errors.push(Error::invalid("metadata.name", name, message));
        }
        if let Naming::Kind(_, Some(limit)) = naming
            && name.len() > usize::from(limit)
        {
            errors.push(Error::invalid(
                "metadata.name",
                name,
                format!("must be no more than {limit} characters"),
            ));
        }
    }
    let namespace = meta::namespace(object);
    if namespaced {
        if namespace.is_empty() {
            errors.push(Error::required("metadata.namespace", ""));
        } else {
            for message in names::dns1123_label(namespace) {
                errors.push(Error::invalid("metadata.namespace", namespace, message));
            }
        }
    } else if !namespace.is_empty() {
        errors.push(Error::forbidden("metadata.namespace", "not allowed on this type"));
    }
    if meta::generation(object) < 0 {
        let detail = "must be greater than or equal to 0";
        errors.push(Error::invalid("metadata.generation", meta::generation(object), detail));
    }
    validate_maps_and_owners(object, errors);
    validate_finalizers(object, errors);
    validate_managed_fields(object, errors);
}

/// What an update may not change, and what the new metadata must satisfy besides (`ValidateObjectMetaUpdate`).
pub fn validate_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    if meta::deletion_timestamp(old).is_some() {
        let before: HashSet<&str> = meta::finalizers(old).collect();
        let mut added: Vec<&str> = meta::finalizers(new).filter(|f| !before.contains(f)).collect();
        added.sort_unstable();
        added.dedup();
        if !added.is_empty() {
            let listed: Vec<String> = added.iter().map(|f| quote(f)).collect();
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                listed.join(", ")
            );
            errors.push(Error::forbidden("metadata.finalizers", detail));
        }
    }
    if meta::resource_version(new).is_empty() {
        errors.push(Error::invalid(
            "metadata.resourceVersion",
            "",
            "must be specified for an update",
        ));
    }
    if meta::generation(new) < meta::generation(old) {
        errors.push(Error::invalid(
            "metadata.generation",
            meta::generation(new),
            "must not be decremented",
        ));
    }
    for member in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (have, had) = (new.at(&["metadata", member]), old.at(&["metadata", member]));
        if have != had {
            let text = matches!(member, "name" | "namespace" | "uid");
            let shown = have.cloned().unwrap_or(if text { "".into() } else { Value::Null });
            errors.push(Error::invalid(format!("metadata.{member}"), shown, IMMUTABLE));
        }
    }
    validate_maps_and_owners(new, errors);
    validate_managed_fields(new, errors);
}

fn validate_maps_and_owners(object: &Value, errors: &mut ErrorList) {
    if let Some(labels) = object.at(&["metadata", "labels"]).and_then(Value::as_object) {
        validate_labels(labels, "metadata.labels", errors);
    }
    if let Some(annotations) = object.at(&["metadata", "annotations"]).and_then(Value::as_object) {
        validate_annotations(annotations, "metadata.annotations", errors);
    }
    validate_owner_references(object.array_at(&["metadata", "ownerReferences"]), errors);
}

/// Keys are qualified names, values label values.
pub fn validate_labels(labels: &Object, field: &str, errors: &mut ErrorList) {
    for (key, value) in labels.iter() {
        for message in names::qualified_name(key) {
            errors.push(Error::invalid(field, key, message));
        }
        let value = value.as_str().unwrap_or("");
        for message in names::label_value(value) {
            errors.push(Error::invalid(field, value, message));
        }
    }
}

/// Keys are qualified names of any case, all together within the limit.
pub fn validate_annotations(annotations: &Object, field: &str, errors: &mut ErrorList) {
    let mut size = 0;
    for (key, value) in annotations.iter() {
        for message in names::qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(field, key, message));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATIONS_BYTES {
        errors.push(Error::too_long(field, MAX_ANNOTATIONS_BYTES));
    }
}

fn validate_owner_references(references: &[Value], errors: &mut ErrorList) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for reference in references {
        let gvk = meta::gvk(reference);
        let api_version = reference.str_at(&["apiVersion"]);
        if gvk.version.is_empty() {
            errors.push(Error::invalid(
                format!("{FIELD}.apiVersion"),
                api_version,
                "version must not be empty",
            ));
        }
        for member in ["kind", "name", "uid"] {
            if reference.str_at(&[member]).is_empty() {
                errors.push(Error::invalid(format!("{FIELD}.{member}"), "", "must not be empty"));
            }
        }
        if (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) == ("", "v1", "Event") {
            errors.push(Error::invalid(
                FIELD,
                reference.clone(),
                format!("{gvk} is disallowed from being an owner"),
            ));
        }
        if reference.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", gvk.kind, reference.str_at(&["name"]));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(Error::invalid(FIELD, references.to_vec(), detail));
                }
                None => controller = Some(this),
            }
        }
    }
}

fn validate_finalizers(object: &Value, errors: &mut ErrorList) {
    const FIELD: &str = "metadata.finalizers";
    const BOTH: [&str; 2] = ["orphan", "foregroundDeletion"];
    let finalizers: Vec<&str> = meta::finalizers(object).collect();
    for finalizer in &finalizers {
        for message in names::qualified_name(finalizer) {
            errors.push(Error::invalid(FIELD, *finalizer, message));
        }
    }
    if BOTH.iter().all(|f| finalizers.contains(f)) {
        let detail = format!("finalizer {} and {} cannot be both set", BOTH[0], BOTH[1]);
        errors.push(Error::invalid(FIELD, finalizers, detail));
    }
}

/// Finalizers without a domain must be those that Kubernetes itself uses: what the validators of most built-in kinds add
/// to the common rules.
pub fn validate_standard_finalizers(object: &Value, errors: &mut ErrorList) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    for (i, finalizer) in meta::finalizers(object).enumerate() {
        if !finalizer.contains('/') && !STANDARD.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(Error::invalid(format!("metadata.finalizers[{i}]"), finalizer, detail));
        }
    }
}

fn validate_managed_fields(object: &Value, errors: &mut ErrorList) {
    for (i, entry) in object.array_at(&["metadata", "managedFields"]).iter().enumerate() {
        let at = |member: &str| format!("metadata.managedFields[{i}].{member}");
        let operation = entry.str_at(&["operation"]);
        if !matches!(operation, "Apply" | "Update") {
            errors.push(Error::invalid(
                at("operation"),
                operation,
                "must be `Apply` or `Update`",
            ));
        }
        let fields_type = entry.str_at(&["fieldsType"]);
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.push(Error::invalid(at("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        check_field_manager(entry.str_at(&["manager"]), &at("manager"), errors);
        if entry.str_at(&["subresource"]).len() > 256 {
            errors.push(Error::too_long(at("subresource"), 256));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn parse(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_generated_name_fits_a_label() {
        let name = generate_name(&"x".repeat(100));
        assert_eq!(name.len(), 63);
        assert!(generate_name("a-").starts_with("a-"));
    }

    #[test]
    fn immutable_metadata_is_named_with_its_new_value() {
        let old = parse(r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}"#);
        let new = parse(r#"{"metadata":{"name":"a","uid":"v","resourceVersion":"1","finalizers":["x/y"]}}"#);
        let mut errors = ErrorList::new();
        validate_update(&new, &old, &mut errors);
        assert_eq!(
            errors.aggregate(),
            "metadata.uid: Invalid value: \"v\": field is immutable"
        );
    }

    #[test]
    fn only_one_owner_controls() {
        let object = parse(
            r#"{"metadata":{"name":"a","ownerReferences":[
                {"apiVersion":"v1","kind":"Pod","name":"p","uid":"1","controller":true},
                {"apiVersion":"v1","kind":"Pod","name":"q","uid":"2","controller":true}]}}"#,
        );
        let mut errors = ErrorList::new();
        validate(&object, false, Naming::PathSegment, &mut errors);
        assert!(
            errors.aggregate().ends_with("in references for Pod/p and Pod/q"),
            "{}",
            errors.aggregate()
        );
    }

    #[test]
    fn owner_references_that_stand_twice_are_dropped() {
        let mut object = parse(r#"{"metadata":{"ownerReferences":[{"uid":"1"},{"uid":"1"},{"uid":"1","name":"x"}]}}"#);
        assert_eq!(dedup_owner_references(&mut object), ["1"]);
        assert_eq!(object.array_at(&["metadata", "ownerReferences"]).len(), 2);
    }
}
