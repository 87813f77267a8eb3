//! PersistentVolumeClaim: its data sources, and what may change after creation.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::names;
use triptych_object::quantity::Quantity;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::defaults;
use crate::printing;
use crate::unified_diff;
use crate::validation::label_selector::{Lenience, label_selector};
use crate::validation::volume_claim::{ClaimLenience, claim_spec};
use crate::validation::{Cursor, check, go_struct, resource_names};

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const REQUESTED: [&str; 4] = ["spec", "resources", "requests", "storage"];
const CLASS_NAME: [&str; 2] = ["spec", "storageClassName"];
const ATTRIBUTES_CLASS: [&str; 2] = ["spec", "volumeAttributesClassName"];

/// The strategy of `persistentvolumeclaims`.
pub struct Claims;

/// The strategy of `persistentvolumeclaims/status`.
pub struct Status;

/// The ResourceLists of a claim.
const LISTS: [&[&str]; 4] = [
    &["spec", "resources", "limits"],
    &["spec", "resources", "requests"],
    &["status", "capacity"],
    &["status", "allocatedResources"],
];

/// Defaults of a claim's quantities, also where the claim is a template.
pub fn default_lists(claim: &mut Value) {
    defaults::resource_lists(claim, &LISTS);
}

impl Strategy for Claims {
    fn default(&self, claim: &mut Value) {
        default_lists(claim);
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        new.set_at(&["status"], Value::from([("phase", "Pending".into())]));
        data_sources(new, None);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |claim| {
            claim_spec(claim.field("spec"), ClaimLenience::default())
        });
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, old: &Value) {
        data_sources(new, Some(old));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let lenience = lenience(old);
        let mut old = old.clone();
        normalise(&mut old);
        check(new, errors, |claim| {
            claim_spec(claim.field("spec"), lenience);
            change(claim, &old);
        });
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if meta::annotation(new, STORAGE_CLASS).is_some() {
            warnings.push(format!(
                "metadata.annotations[{STORAGE_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            ));
        }
        warnings.extend(spec_warnings("spec", new.get("spec")));
        warnings
    }

    fn cells(&self, claim: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let text = |path: &[&str]| claim.str_at(path).to_owned();
        let unset = |path: &[&str]| {
            Some(text(path))
                .filter(|t| !t.is_empty())
                .unwrap_or_else(|| "<unset>".into())
        };
        let (mut capacity, mut modes) = (String::new(), String::new());
        if !claim.str_at(&["spec", "volumeName"]).is_empty() {
            let size = claim.at(&["status", "capacity", "storage"]).and_then(Value::as_str);
            capacity = size.unwrap_or("0").to_owned();
            modes = printing::access_modes(claim.array_at(&["status", "accessModes"]));
        }
        let deleting = meta::deletion_timestamp(claim).is_some();
        let class = meta::annotation(claim, STORAGE_CLASS).map(str::to_owned);
        Some(vec![
            meta::name(claim).into(),
            if deleting {
                "Terminating".into()
            } else {
                text(&["status", "phase"]).into()
            },
            text(&["spec", "volumeName"]).into(),
            capacity.into(),
            modes.into(),
            class.unwrap_or_else(|| text(&CLASS_NAME)).into(),
            unset(&ATTRIBUTES_CLASS).into(),
            age(claim, now).into(),
            unset(&["spec", "volumeMode"]).into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, claim: &mut Value) {
        Claims.default(claim);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |claim| {
            if meta::resource_version(new).is_empty() {
                claim.push(Error::required("resourceVersion", ""));
            }
            if claim.field("spec").field("accessModes").is_empty() {
                claim.push(Error::required("Spec.accessModes", ""));
            }
            status(claim.field("status"));
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

/// Warnings about a claim's specification at `path`.
pub fn spec_warnings(path: &str, spec: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for member in ["requests", "limits"] {
        let storage = spec.and_then(|s| s.at(&["resources", member, "storage"]));
        let Some(quantity) = storage.and_then(resource_names::of) else {
            continue;
        };
        if !resource_names::is_whole(&quantity) {
            warnings.push(format!(
                "{path}.resources.{member}[storage]: fractional byte value \"{quantity}\" is invalid, must be an integer"
            ));
        }
    }
    warnings
}

/// Data sources that only `dataSourceRef` may name are dropped from `dataSource`; then each is completed by the other.
fn data_sources(new: &mut Value, old: Option<&Value>) {
    let has = |object: &Value, member: &str| object.at(&["spec", member]).is_some();
    let in_use = old.is_some_and(|old| has(old, "dataSource") || has(old, "dataSourceRef"));
    // a reference into another namespace needs CrossNamespaceVolumeDataSource
    let foreign = !new.str_at(&["spec", "dataSourceRef", "namespace"]).is_empty();
    if foreign && !old.is_some_and(|old| has(old, "dataSourceRef")) {
        new.remove_at(&["spec", "dataSourceRef"]);
    }
    if !in_use && !has(new, "dataSourceRef") {
        let source = |member: &str| new.str_at(&["spec", "dataSource", member]);
        let known = matches!(
            (source("kind"), source("apiGroup")),
            ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
        );
        if !known {
            new.remove_at(&["spec", "dataSource"]);
        }
    }
    normalise(new);
}

fn normalise(claim: &mut Value) {
    let read = |claim: &Value, member: &str| claim.at(&["spec", member]).cloned();
    match (read(claim, "dataSource"), read(claim, "dataSourceRef")) {
        (Some(source), None) => claim.set_at(&["spec", "dataSourceRef"], source),
        (None, Some(reference)) if reference.str_at(&["namespace"]).is_empty() => {
            let mut source = reference;
            source.remove_at(&["namespace"]);
            claim.set_at(&["spec", "dataSource"], source);
        }
        _ => {}
    }
}

fn lenience(old: &Value) -> ClaimLenience {
    let mut found = ErrorList::new();
    check(old, &mut found, |claim| {
        label_selector(claim.field("spec").field("selector"), Lenience::default());
    });
    let group = |member: &str| old.at(&["spec", member, "apiGroup"]).is_some();
    ClaimLenience {
        selector_values: !found.is_empty(),
        data_source_group: group("dataSource") || group("dataSourceRef"),
    }
}

fn change(claim: Cursor<'_>, old: &Value) {
    const CLASS_ANNOTATION: &str = "metadata.annotations.volume.beta.kubernetes.io/storage-class";
    let new = claim.root();
    let copy = |from: &Value, to: &mut Value, path: &[&str]| match from.at(path) {
        Some(value) => to.set_at(path, value.clone()),
        None => drop(to.remove_at(path)),
    };
    // what may change is made equal, then the rest is compared
    let (mut have, mut had) = (new.clone(), old.clone());
    if old.str_at(&["spec", "volumeName"]).is_empty() {
        copy(new, &mut had, &["spec", "volumeName"]);
    }
    let annotated = |object: &'_ Value| meta::annotation(object, STORAGE_CLASS).map(str::to_owned);
    let (annotation, before) = (annotated(new), annotated(old));
    let (class, class_before) = (new.at(&CLASS_NAME), old.at(&CLASS_NAME));
    let named_as_annotated = before.is_some()
        && class_before.is_none()
        && class.and_then(Value::as_str) == before.as_deref()
        && (annotation.is_none() || annotation == before);
    if named_as_annotated {
        have.remove_at(&CLASS_NAME);
    } else {
        if annotation != before {
            let shown = annotation.unwrap_or_default();
            claim.push(Error::invalid(CLASS_ANNOTATION, shown, "field is immutable"));
        }
        let from_nil = class.is_some()
            && class_before.is_none()
            && before
                .as_deref()
                .is_none_or(|b| class.and_then(Value::as_str) == Some(b));
        if from_nil {
            copy(old, &mut have, &CLASS_NAME);
        }
    }
    if new.str_at(&["status", "phase"]) == "Bound" {
        if have.at(&["spec", "resources", "requests"]).is_some() {
            let size = old.at(&REQUESTED).cloned().unwrap_or_else(|| "0".into());
            have.set_at(&REQUESTED, size);
        }
        copy(old, &mut have, &ATTRIBUTES_CLASS);
    }
    let spec = claim.field("spec");
    if !same_spec(have.get("spec"), had.get("spec")) {
        let empty = Value::object();
        let (had, have) = (had.get("spec").unwrap_or(&empty), have.get("spec").unwrap_or(&empty));
        let go = |value: &Value| go_struct::of_core_type("PersistentVolumeClaimSpec", value);
        let diff = unified_diff::of_values(&go(had), &go(have));
        spec.forbidden(format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"
        ));
    }
    let size = |object: &Value, path: &[&str]| {
        object
            .at(path)
            .and_then(resource_names::of)
            .unwrap_or_else(Quantity::zero)
    };
    let (wanted, before) = (size(new, &REQUESTED), size(old, &REQUESTED));
    if wanted < before && wanted <= size(old, &["status", "capacity", "storage"]) {
        spec.field("resources")
            .field("requests")
            .alias("storage")
            .forbidden("field can not be less than status.capacity");
    }
    let mode = spec.field("volumeMode");
    if mode.value() != old.at(&["spec", "volumeMode"]) {
        claim.push(Error::invalid("volumeMode", mode.shown(), "field is immutable"));
    }
    attributes_class(claim, old);
}

fn attributes_class(claim: Cursor<'_>, old: &Value) {
    let class = claim.field("spec").field("volumeAttributesClassName");
    let changed = class.value() != old.at(&ATTRIBUTES_CLASS);
    if !changed || old.at(&["status", "currentVolumeAttributesClassName"]).is_none() {
        return;
    }
    let current = "is forbidden when status.currentVolumeAttributesClassName is not nil";
    if !class.exists() {
        class.forbidden(format!("update to nil {current}"));
    } else if class.is_empty() {
        class.forbidden(format!("update to empty string {current}"));
    }
}

/// Equal specifications; quantities by value.
fn same_spec(a: Option<&Value>, b: Option<&Value>) -> bool {
    if a == b {
        return true;
    }
    let canonical = |spec: Option<&Value>| {
        let mut spec = spec.cloned().unwrap_or_default();
        for member in ["requests", "limits"] {
            let list = spec.at_mut(&["resources", member]).and_then(Value::as_object_mut);
            for (_, quantity) in list.into_iter().flat_map(|l| l.iter_mut()) {
                if let Some(parsed) = resource_names::of(quantity) {
                    *quantity = Value::Float(parsed.as_f64());
                }
            }
        }
        spec
    };
    canonical(a) == canonical(b)
}

fn status(status: Cursor<'_>) {
    const RESIZES: [&str; 5] = [
        "ControllerResizeInProgress",
        "ControllerResizeInfeasible",
        "NodeResizePending",
        "NodeResizeInProgress",
        "NodeResizeInfeasible",
    ];
    for (_, quantity) in status.field("capacity").entries() {
        not_negative(quantity);
    }
    let statuses = status.field("allocatedResourceStatuses");
    for (key, state) in statuses.entries() {
        resource_key(statuses, key);
        if !RESIZES.contains(&state.str()) {
            let mut sorted = RESIZES;
            sorted.sort_unstable();
            statuses.push(Error::not_supported(statuses.path(), key, &sorted));
        }
    }
    let allocated = status.field("allocatedResources");
    for (key, quantity) in allocated.entries() {
        if resource_key(allocated, key) && not_negative(quantity) {
            resource_names::quantity_of(quantity, "storage");
        }
    }
}

fn not_negative(quantity: Cursor<'_>) -> bool {
    let value = resource_names::quantity(quantity).value();
    if value < 0 {
        quantity.invalid(value, "must be a valid resource quantity");
    }
    value >= 0
}

/// `storage`, or a vendor's resource.
fn resource_key(at: Cursor<'_>, key: &str) -> bool {
    let messages = names::qualified_name(key);
    if !messages.is_empty() {
        messages.into_iter().for_each(|message| at.invalid(key, message));
        return false;
    }
    if resource_names::is_native(key) && key != "storage" {
        at.push(Error::not_supported(at.path(), key, &["storage"]));
        return false;
    }
    true
}
