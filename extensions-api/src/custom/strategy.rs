//! The strategy of every custom resource: status kept apart, generation, validation by schema, columns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::field::{Error, ErrorKind, ErrorList, quote};
use triptych_object::{GroupResource, Status, StatusResult, Value, meta, names};
use triptych_registry::object_meta::{self, Naming, RepeatedMetaChecks};
use triptych_registry::strategy::{Context, Reservation, Strategy};
use triptych_schema::validate;

use super::columns::Columns;
use super::kind::{CustomKind, KindVersion};
use super::scale_paths::ScalePaths;
use crate::rules::BUDGET;

/// A custom resource's particulars in one version; also those of its status.
pub struct CustomStrategy {
    /// For texts.
    pub resource: GroupResource,
    /// All versions.
    pub kind: Arc<CustomKind>,
    /// The number of this one.
    pub version: usize,
    /// Objects live in namespaces.
    pub namespaced: bool,
    /// `/status` exists.
    pub status: bool,
    /// `/scale` exists.
    pub scale: Option<ScalePaths>,
    /// What a table shows.
    pub columns: Columns,
    /// The CRD is being deleted.
    pub terminating: Arc<AtomicBool>,
}

impl CustomStrategy {
    fn own(&self) -> &KindVersion {
        &self.kind.versions[self.version]
    }

    /// False if the document is of another kind or version, which is all that is said of it then.
    fn check_type(&self, new: &Value, errors: &mut ErrorList) -> bool {
        let before = errors.len();
        let mut must_be = |member: &str, wanted: &str| {
            let have = new.str_at(&[member]);
            if have != wanted {
                errors.push(Error::invalid(member, have, format!("must be {wanted}")));
            }
        };
        must_be("kind", &self.kind.kind);
        must_be("apiVersion", &self.own().api_version);
        errors.len() == before
    }

    fn check_whole(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let types = &self.own().types;
        if self.check_type(new, errors) {
            errors.append(validate::value(&types.schema, types.root, new, old, None));
            if let Some(scale) = &self.scale {
                scale.check_spec(new, errors);
                scale.check_status(new, errors);
            }
        }
        errors.append(validate::embedded(
            &types.schema,
            types.root,
            new,
            "",
            &embedded_metadata,
        ));
        self.check_lists(new, old, errors);
        self.check_rules(new, old, errors);
    }

    /// Sets and associative lists hold no item twice, unless the old object did already.
    fn check_lists(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let types = &self.own().types;
        let lists = |object: &Value| validate::list_types(&types.schema, types.root, object, "");
        if old.is_none_or(|old| lists(old).is_empty()) {
            errors.append(lists(new));
        }
    }

    /// Evaluates the rules, unless what is wrong already would make nonsense of them.
    fn check_rules(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) {
        let Some(rules) = &self.own().rules else { return };
        let blocks = |error: &Error| {
            matches!(
                error.kind,
                ErrorKind::NotSupported
                    | ErrorKind::Required
                    | ErrorKind::TooLong
                    | ErrorKind::TooMany
                    | ErrorKind::TypeInvalid
            )
        };
        if errors.iter().any(blocks) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(Error::invalid("<nil>", Value::Null, why));
            return;
        }
        rules.validate(new, old, true, None, BUDGET, errors);
    }

    fn check_status(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let types = &self.own().types;
        if self.check_type(new, errors) {
            let root = types.schema.get(types.root).as_struct();
            let status_type = root.and_then(|s| s.field("status")).map(|f| f.ty);
            if let (Some(ty), Some(status)) = (status_type, new.get("status")) {
                let before = old.get("status");
                errors.append(validate::value(&types.schema, ty, status, before, Some("status")));
            }
            if let Some(scale) = &self.scale {
                scale.check_status(new, errors);
            }
        }
        self.check_lists(new, Some(old), errors);
        self.check_rules(new, Some(old), errors);
    }
}

/// ObjectMeta of an embedded resource: it needs no name, and says itself whether it is in a namespace.
pub fn embedded_metadata(metadata: &Value, path: &str, errors: &mut ErrorList) {
    let mut object = Value::from([("metadata", metadata.clone())]);
    if meta::name(&object).is_empty() {
        meta::set_text(&mut object, "name", "fakename");
    }
    let namespaced = !meta::namespace(&object).is_empty();
    let mut found = ErrorList::new();
    object_meta::validate(&object, namespaced, Naming::PathSegment, &mut found);
    for mut error in found {
        error.field = format!("{path}{}", error.field.strip_prefix("metadata").unwrap_or(&error.field));
        errors.push(error);
    }
}

impl Strategy for CustomStrategy {
    fn begin<'a>(
        &'a self,
        _cx: &'a Context,
        new: &'a mut Value,
        old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        let refused = old.is_none() && self.terminating.load(Ordering::Relaxed);
        let why = "create not allowed while custom resource definition is terminating";
        let outcome = if refused {
            Err(Status::forbidden(&self.resource, meta::name(new), why))
        } else {
            Ok(None)
        };
        Box::pin(std::future::ready(outcome))
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        if self.status {
            new.remove_at(&["status"]);
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        self.check_whole(new, None, errors);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        if cx.subresource == "status" {
            only_status(new, old);
            return;
        }
        if self.status {
            match old.get("status") {
                Some(status) => new.set_at(&["status"], status.clone()),
                None => drop(new.remove_at(&["status"])),
            }
        }
        if differs_outside_metadata(new, old) {
            meta::set_generation(new, meta::generation(old) + 1);
        }
    }

    fn validate_update(&self, cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        if cx.subresource == "status" {
            self.check_status(new, old, errors);
        } else {
            self.check_whole(new, Some(old), errors);
        }
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn warnings(&self, cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        if cx.subresource == "status" {
            return Vec::new();
        }
        let mut added: Vec<&str> = meta::finalizers(new)
            .filter(|f| !old.is_some_and(|old| meta::finalizers(old).any(|o| o == *f)))
            .collect();
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(self.columns.cells(object, now))
    }
}

/// The old object with the new one's status and managers.
fn only_status(new: &mut Value, old: &Value) {
    let status = new.remove_at(&["status"]);
    let managers = new.remove_at(&["metadata", "managedFields"]);
    let version = new.remove_at(&["metadata", "resourceVersion"]);
    *new = old.clone();
    let mut put = |path: &[&str], value: Option<Value>| match value {
        Some(value) => new.set_at(path, value),
        None => drop(new.remove_at(path)),
    };
    put(&["status"], status);
    put(&["metadata", "managedFields"], managers);
    put(&["metadata", "resourceVersion"], version);
}

fn differs_outside_metadata(new: &Value, old: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else {
        return true;
    };
    let covers = |a: &triptych_object::Object, b: &triptych_object::Object| {
        a.iter().all(|(k, v)| k == "metadata" || b.get(k) == Some(v))
    };
    !(covers(a, b) && covers(b, a))
}

/// What is said of finalizers that may collide with others'.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let says = |text: &str| format!("metadata.finalizers: {}: {text}", quote(finalizer));
    let mut warnings: Vec<String> = names::qualified_name(finalizer).iter().map(|m| says(m)).collect();
    if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
        warnings.push(if finalizer.contains('.') {
            says(
                "prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers",
            )
        } else {
            says("prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers")
        });
    }
    warnings
}
