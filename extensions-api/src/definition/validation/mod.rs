//! What a CRD must be, on create and on update, in the words of apiextensions' `validation` package.
//!
//! Contract: CRDs are checked in their internal shape ([`super::internal`]), which is why errors speak of
//! `spec.validation` where all versions share a schema. What an older server accepted stays acceptable on update
//! ([`Options::update`]).

pub mod conversion;
pub mod defaults;
pub mod expressions;
pub mod field_path;
mod go_form;
pub mod keywords;
pub mod schema_walk;
pub mod structural;
mod version;

use std::sync::Arc;

use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, names};
use triptych_schema::types::Schema;

use self::expressions::Expressions;
use self::schema_walk::{all_of_spec, any_of_spec, given, text};
use super::approval::{self, ANNOTATION, Approval};
use super::conditions;
use super::internal::hoisted;

const IMMUTABLE: &str = "field is immutable";

/// What is demanded.
#[derive(Clone, Debug)]
pub struct Options {
    /// Webhooks must understand a ConversionReview that servers send.
    pub recognized_reviews: bool,
    /// Scope and kind stay as they are.
    pub immutable_names: bool,
    /// Every version has a schema.
    pub schema: bool,
    /// Types are those of OpenAPI v3.
    pub valid_types: bool,
    /// Schemas are structural.
    pub structural: bool,
    /// Defaults hold only what their schema knows.
    pub pruned_defaults: bool,
    /// Items of sets are atomic.
    pub atomic_sets: bool,
    /// Keys of associative lists are always there.
    pub map_list_keys: bool,
    /// A CA bundle may be nonsense.
    pub allow_bad_bundle: bool,
    /// Versions (empty: all of them together) whose selectable fields may be too many.
    pub too_many_selectable: Vec<String>,
    /// Versions whose schema was accepted before, and whose single rules may cost what they do.
    pub unchanged: Vec<String>,
}

impl Options {
    fn is_unchanged(&self, version: &Value) -> bool {
        self.unchanged.iter().any(|name| name == text(version, "name"))
    }

    /// Of a new CRD.
    pub fn create() -> Options {
        Options {
            recognized_reviews: true,
            immutable_names: false,
            schema: true,
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_list_keys: true,
            allow_bad_bundle: true,
            too_many_selectable: Vec::new(),
            unchanged: Vec::new(),
        }
    }

    /// Of the update of a CRD that is stored; `spec` and `old_spec` are in internal shape.
    fn update(spec: &Value, old: &Value, old_spec: &Value, base: &Arc<Schema>) -> Options {
        let established = conditions::is_true(old, "Established");
        let bundle = old_spec.str_at(&["conversion", "webhookClientConfig", "caBundle"]);
        let whole =
            |schema: &Value| structural::convertible(schema).is_ok() && structural::check(schema, "").is_empty();
        Options {
            recognized_reviews: conversion::reviews_are_recognized(old_spec.get("conversion")),
            immutable_names: established,
            schema: missing_schemas(old_spec).is_empty(),
            valid_types: !all_of_spec(old_spec).any(keywords::has_unknown_types),
            structural: all_of_spec(old_spec).all(whole),
            pruned_defaults: !all_of_spec(old_spec)
                .filter(|s| defaults::has_defaults(s) && whole(s))
                .any(|s| defaults::has_unpruned(s, base)),
            atomic_sets: !all_of_spec(old_spec).any(keywords::has_granular_sets),
            map_list_keys: !all_of_spec(old_spec).any(keywords::has_loose_lists),
            allow_bad_bundle: !established || !bundle.is_empty() && conversion::ca_bundle_problem(bundle).is_some(),
            too_many_selectable: too_many_selectable(spec, old_spec),
            unchanged: unchanged(spec, old_spec),
        }
    }
}

fn too_many_selectable(spec: &Value, old: &Value) -> Vec<String> {
    let excused = |new: &Value, old: &Value| {
        let before = old.array_at(&["selectableFields"]);
        before.len() > version::MAX_SELECTABLE && new.array_at(&["selectableFields"]) == before
    };
    let mut names = Vec::new();
    if excused(spec, old) {
        names.push(String::new());
    }
    for version in spec.array_at(&["versions"]) {
        let name = text(version, "name");
        let before = old.array_at(&["versions"]).iter().find(|v| text(v, "name") == name);
        if before.is_some_and(|before| excused(version, before)) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Names of the versions whose schema is as it was.
fn unchanged(spec: &Value, old: &Value) -> Vec<String> {
    let schema = |spec: &Value, name: &str| -> Option<Value> {
        let version = spec.array_at(&["versions"]).iter().find(|v| text(v, "name") == name)?;
        let own = version.at(&["schema", "openAPIV3Schema"]);
        own.or_else(|| spec.at(&["validation", "openAPIV3Schema"])).cloned()
    };
    let versions = spec.array_at(&["versions"]).iter().map(|v| text(v, "name"));
    let same = |name: &&str| {
        let exists = old.array_at(&["versions"]).iter().any(|v| text(v, "name") == *name);
        exists && schema(spec, name) == schema(old, name)
    };
    versions.filter(same).map(str::to_owned).collect()
}

/// Checks a new CRD; `base` are the types that schemas of CRDs stand on.
pub fn create(crd: &Value, base: &Arc<Schema>, errors: &mut ErrorList) {
    let shape = hoisted(crd.get("spec").unwrap_or(&Value::Null));
    name(crd, &shape, errors);
    spec(&shape, &Options::create(), base, errors);
    status(crd, errors);
    stored_versions(crd, &shape, errors);
    api_approval(crd, None, errors);
    preserve_unknown(&shape, None, errors);
}

/// Checks the update of a CRD.
pub fn update(crd: &Value, old: &Value, base: &Arc<Schema>, errors: &mut ErrorList) {
    let shape = hoisted(crd.get("spec").unwrap_or(&Value::Null));
    let old_shape = hoisted(old.get("spec").unwrap_or(&Value::Null));
    let options = Options::update(&shape, old, &old_shape, base);
    spec(&shape, &options, base, errors);
    let mut immutable = |path: &[&str]| {
        if shape.str_at(path) != old_shape.str_at(path) {
            let field = format!("spec.{}", path.join("."));
            errors.push(Error::invalid(field, shape.str_at(path), IMMUTABLE));
        }
    };
    if options.immutable_names {
        immutable(&["scope"]);
        immutable(&["names", "kind"]);
    }
    immutable(&["group"]);
    immutable(&["names", "plural"]);
    status(crd, errors);
    stored_versions(crd, &shape, errors);
    api_approval(crd, Some(old), errors);
    preserve_unknown(&shape, Some(&old_shape), errors);
}

/// Checks what is written to the status.
pub fn status(crd: &Value, errors: &mut ErrorList) {
    let accepted = crd.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
    check_names(accepted, "status.acceptedNames", errors);
}

fn name(crd: &Value, spec: &Value, errors: &mut ErrorList) {
    let wanted = format!("{}.{}", spec.str_at(&["names", "plural"]), text(spec, "group"));
    let mut check = |field: &str, name: &str, mut problems: Vec<String>| {
        if name.is_empty() {
            return;
        }
        if name != wanted {
            problems.push(r#"must be spec.names.plural+"."+spec.group"#.to_owned());
        }
        for problem in problems {
            errors.push(Error::invalid(field, name, problem));
        }
    };
    let prefix = meta::text(crd, "generateName");
    check("metadata.generateName", prefix, names::dns1123_subdomain_prefix(prefix));
    check(
        "metadata.name",
        meta::name(crd),
        names::dns1123_subdomain(meta::name(crd)),
    );
}

fn stored_versions(crd: &Value, spec: &Value, errors: &mut ErrorList) {
    const PATH: &str = "status.storedVersions";
    let stored = crd.array_at(&["status", "storedVersions"]);
    if stored.is_empty() {
        let shown = crd.at(&["status", "storedVersions"]).cloned().unwrap_or(Value::Null);
        errors.push(Error::invalid(PATH, shown, "must have at least one stored version"));
        return;
    }
    let versions = spec.array_at(&["versions"]);
    // a version that stands twice finds its stored version once
    let mut open: Vec<&str> = stored.iter().filter_map(Value::as_str).collect();
    for version in versions {
        let name = text(version, "name");
        let found = open.contains(&name);
        if schema_walk::flag(version, "storage") && !found {
            let why = format!("must have the storage version {name}");
            errors.push(Error::invalid(PATH, stored.to_vec(), why));
        }
        open.retain(|other| *other != name);
    }
    for (i, version) in stored.iter().enumerate() {
        let name = version.as_str().unwrap_or("");
        if !versions.iter().any(|v| text(v, "name") == name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(format!("{PATH}[{i}]"), name, why));
        }
    }
}

fn api_approval(crd: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    if !approval::is_protected(crd.str_at(&["spec", "group"])) {
        return;
    }
    let (state, reason) = approval::state(crd);
    // who does not touch it is not asked about it
    if old.is_some_and(|old| approval::state(old).0 == state) {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    let annotation = meta::annotation(crd, ANNOTATION).unwrap_or("");
    match state {
        Approval::Invalid => errors.push(Error::invalid(field, annotation, reason)),
        Approval::Missing => errors.push(Error::required(field, reason)),
        Approval::Approved | Approval::Bypassed => {}
    }
}

fn preserves(spec: &Value) -> bool {
    schema_walk::flag(spec, "preserveUnknownFields")
}

fn preserve_unknown(spec: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    if preserves(spec) && !old.is_some_and(preserves) {
        let why =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid("spec.preserveUnknownFields", true, why));
    }
}

/// Numbers of the versions that have no schema.
fn missing_schemas(spec: &Value) -> Vec<usize> {
    if spec
        .at(&["validation", "openAPIV3Schema"])
        .is_some_and(|s| !s.is_null())
    {
        return Vec::new();
    }
    let versions = spec.array_at(&["versions"]).iter().enumerate();
    let without = versions.filter(|(_, v)| v.at(&["schema", "openAPIV3Schema"]).is_none_or(Value::is_null));
    without.map(|(i, _)| i).collect()
}

fn spec(spec: &Value, options: &Options, base: &Arc<Schema>, errors: &mut ErrorList) {
    let mut options = options.clone();
    group(spec, errors);
    match text(spec, "scope") {
        "" => errors.push(Error::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(Error::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    options.structural |= !preserves(spec);
    let schema_path = |i: usize| format!("spec.versions[{i}].schema.openAPIV3Schema");
    let versions = spec.array_at(&["versions"]);
    for i in missing_schemas(spec) {
        if options.schema {
            errors.push(Error::required(schema_path(i), ""));
        } else if !preserves(spec) && schema_walk::flag(&versions[i], "served") {
            errors.push(Error::required(
                schema_path(i),
                "because otherwise all fields are pruned",
            ));
        }
    }
    if any_of_spec(spec, &|s| given(s, "default").is_some()) {
        options.structural = true;
        if preserves(spec) {
            let why = "must be false in order to use defaults in the schema";
            errors.push(Error::invalid("spec.preserveUnknownFields", true, why));
        }
    }
    options.structural |= all_of_spec(spec).any(keywords::has_extensions);

    for (i, version) in versions.iter().enumerate() {
        check_version(version, i, spec, &options, base, errors);
    }
    version_list(spec, versions, errors);

    let spec_names = spec.get("names").unwrap_or(&Value::Null);
    for member in ["plural", "singular", "kind", "listKind"] {
        if text(spec_names, member).is_empty() {
            errors.push(Error::required(format!("spec.names.{member}"), ""));
        }
    }
    check_names(spec_names, "spec.names", errors);
    let any_status = [Some(spec)].into_iter().flatten().chain(versions).any(has_status);
    if let Some(common) = given(spec, "validation") {
        // The schema of all versions is that of each of them.
        let unchanged = !versions.is_empty() && versions.iter().all(|v| options.is_unchanged(v));
        let schema = SchemaOf {
            status: any_status,
            unchanged,
            path: "spec.validation",
        };
        validation(common, &schema, &options, base, errors);
    }
    version::subresources(given(spec, "subresources"), "spec.subresources", errors);
    let columns = spec.array_at(&["additionalPrinterColumns"]);
    version::columns(columns, "spec.additionalPrinterColumns", errors);
    let fields = spec.array_at(&["selectableFields"]);
    if !fields.is_empty() {
        match given(spec, "validation") {
            None => {
                let why = "may only be set when validations.schema is included";
                errors.push(Error::invalid("spec.selectableFields", "", why));
            }
            Some(common) => {
                let excused = options.too_many_selectable.iter().any(String::is_empty);
                let schema = given(common, "openAPIV3Schema");
                version::selectable(fields, schema, "spec.selectableFields", excused, errors);
            }
        }
    }
    if let Some(given) = given(spec, "conversion") {
        let strategy = text(given, "strategy");
        if strategy != "None" && preserves(spec) {
            let why = "must be None if spec.preserveUnknownFields is true";
            errors.push(Error::invalid("spec.conversion.strategy", strategy, why));
        }
        conversion::check(given, options.recognized_reviews, options.allow_bad_bundle, errors);
    }
}

fn group(spec: &Value, errors: &mut ErrorList) {
    const PATH: &str = "spec.group";
    let group = text(spec, "group");
    if group.is_empty() {
        errors.push(Error::required(PATH, ""));
        return;
    }
    let problems = names::dns1123_subdomain(group);
    if !problems.is_empty() {
        errors.push(Error::invalid(PATH, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(PATH, group, "should be a domain with at least one dot"));
    }
}

fn has_status(of: &Value) -> bool {
    of.at(&["subresources", "status"]).is_some_and(|s| !s.is_null())
}

fn check_version(
    version: &Value,
    i: usize,
    spec: &Value,
    options: &Options,
    base: &Arc<Schema>,
    errors: &mut ErrorList,
) {
    let path = format!("spec.versions[{i}]");
    let name = text(version, "name");
    let problems = names::dns1035_label(name);
    if !problems.is_empty() {
        errors.push(Error::invalid(format!("{path}.name"), name, problems.join(",")));
    }
    let versions = spec.array_at(&["versions"]);
    let per_version = versions.iter().any(|v| given(v, "subresources").is_some());
    let status = has_status(if per_version { version } else { spec });
    version::deprecation(version, &path, errors);
    if let Some(own) = given(version, "schema") {
        let schema = SchemaOf {
            status,
            unchanged: options.is_unchanged(version),
            path: &format!("{path}.schema"),
        };
        validation(own, &schema, options, base, errors);
    }
    version::subresources(given(version, "subresources"), &format!("{path}.subresources"), errors);
    let columns = version.array_at(&["additionalPrinterColumns"]);
    version::columns(columns, &format!("{path}.additionalPrinterColumns"), errors);
    let fields = version.array_at(&["selectableFields"]);
    if fields.is_empty() {
        return;
    }
    let at = format!("{path}.selectableFields");
    match version.at(&["schema", "openAPIV3Schema"]).filter(|s| !s.is_null()) {
        None => {
            let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(Error::invalid(at, "", why));
        }
        Some(schema) => {
            let excused = options.too_many_selectable.iter().any(|n| !n.is_empty() && n == name);
            version::selectable(fields, Some(schema), &at, excused, errors);
        }
    }
}

/// What holds for the versions together.
fn version_list(spec: &Value, versions: &[Value], errors: &mut ErrorList) {
    const PATH: &str = "spec.versions";
    let shown = || go_form::versions(spec.get("versions"));
    let names: Vec<&str> = versions.iter().map(|v| text(v, "name")).collect();
    if names.iter().enumerate().any(|(i, name)| names[..i].contains(name)) {
        errors.push(Error::invalid(PATH, shown(), "must contain unique version names"));
    }
    let stored = versions.iter().filter(|v| schema_walk::flag(v, "storage")).count();
    if stored != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(PATH, shown(), why));
    }
    let first = text(spec, "version");
    let problems = names::dns1035_label(first);
    if !first.is_empty() && !problems.is_empty() {
        errors.push(Error::invalid("spec.version", first, problems.join(",")));
    }
}

/// Where a schema stands.
struct SchemaOf<'p> {
    /// There is a status subresource.
    status: bool,
    /// It was accepted before.
    unchanged: bool,
    path: &'p str,
}

/// Checks `schema` of a version, or the one of all versions.
fn validation(value: &Value, of: &SchemaOf<'_>, options: &Options, base: &Arc<Schema>, errors: &mut ErrorList) {
    let Some(schema) = given(value, "openAPIV3Schema") else {
        return;
    };
    let path = format!("{}.openAPIV3Schema", of.path);
    let before = errors.len();
    if of.status {
        at_root_beside_status(schema, &path, errors);
    }
    if schema_walk::flag(schema, "nullable") {
        errors.push(Error::forbidden(
            format!("{path}.nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let (mut unconvertible, mut expressions) = (None, None);
    if options.structural {
        match structural::convertible(schema) {
            Err(why) => unconvertible = Some(why),
            Ok(()) => {
                let found = structural::check(schema, &path);
                if found.is_empty() {
                    let found = defaults::check(schema, &path, base, options.pruned_defaults);
                    if found.is_empty() {
                        expressions = Some(Expressions::new(of.unchanged));
                    }
                    errors.append(found);
                } else {
                    errors.append(found);
                }
            }
        }
    }
    keywords::check(schema, &path, options, expressions.as_mut(), errors);
    if let Some(expressions) = expressions {
        expressions.finish(&path, errors);
    }
    if let Some(why) = unconvertible.filter(|_| errors.len() == before) {
        errors.push(Error::invalid(path, "", why));
    }
}

/// At the root of a schema whose `properties.status` is taken out for validating the status subresource, only what is
/// not lost by that may stand.
fn at_root_beside_status(schema: &Value, path: &str, errors: &mut ErrorList) {
    const ALLOWED: [&str; 22] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    for (json, go) in go_form::schema_members() {
        let zero = match schema.get(json) {
            None | Some(Value::Null | Value::Bool(false)) => {
                json != "x-kubernetes-preserve-unknown-fields" || given(schema, json).is_none()
            }
            Some(Value::String(s)) => s.is_empty(),
            Some(_) => false,
        };
        if zero {
            continue;
        }
        if go == "Type" {
            let kind = text(schema, "type");
            if kind != "object" {
                let why = r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
                errors.push(Error::invalid(format!("{path}.type"), kind, why));
                return;
            }
        } else if !ALLOWED.contains(&go) {
            let why = format!(
                "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
                ALLOWED.join(" ")
            );
            errors.push(Error::invalid(path, go_form::schema(schema), why));
            return;
        }
    }
}

/// `names` of the spec, or those accepted.
fn check_names(value: &Value, path: &str, errors: &mut ErrorList) {
    let mut label = |member: &str, mixed: bool| {
        let given = text(value, member);
        let problems = if mixed {
            names::dns1035_label(&given.to_lowercase())
        } else {
            names::dns1035_label(given)
        };
        if given.is_empty() || problems.is_empty() {
            return;
        }
        let otherwise = if mixed {
            "may have mixed case, but should otherwise match: "
        } else {
            ""
        };
        let detail = format!("{otherwise}{}", problems.join(","));
        errors.push(Error::invalid(format!("{path}.{member}"), given, detail));
    };
    label("plural", false);
    label("singular", false);
    label("kind", true);
    label("listKind", true);
    let mut labels = |member: &str| {
        for (i, item) in value.array_at(&[member]).iter().enumerate() {
            let item = item.as_str().unwrap_or("");
            let problems = names::dns1035_label(item);
            if !problems.is_empty() {
                errors.push(Error::invalid(
                    format!("{path}.{member}[{i}]"),
                    item,
                    problems.join(","),
                ));
            }
        }
    };
    labels("shortNames");
    labels("categories");
    let kind = text(value, "kind");
    if !kind.is_empty() && kind == text(value, "listKind") {
        let why = "kind and listKind may not be the same";
        errors.push(Error::invalid(format!("{path}.listKind"), kind, why));
    }
}
