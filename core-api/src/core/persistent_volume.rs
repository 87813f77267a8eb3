//! PersistentVolume: its phase, and what may change after creation.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta, time};
use triptych_registry::age::age;
use triptych_registry::object_meta::{self, Naming, RepeatedMetaChecks};
use triptych_registry::strategy::{Context, Strategy};
use triptych_schema::resource::NameRule;

use super::node_labels;
use crate::defaults;
use crate::printing;
use crate::unified_diff;
use crate::validation::affinity::node_selector;
use crate::validation::persistent_volume::{VolumeLenience, volume_spec};
use crate::validation::{Cursor, check, go_struct};

const PHASE: [&str; 2] = ["status", "phase"];
const PHASE_SINCE: [&str; 2] = ["status", "lastPhaseTransitionTime"];
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Members of the specification that are no volume source.
const NOT_SOURCES: [&str; 9] = [
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

/// The strategy of `persistentvolumes`.
pub struct PersistentVolumes;

/// The strategy of `persistentvolumes/status`.
pub struct Status;

impl Strategy for PersistentVolumes {
    fn default(&self, volume: &mut Value) {
        defaults::resource_lists(volume, &[&["spec", "capacity"]]);
        let defaults = [
            ("persistentVolumeReclaimPolicy", "Retain"),
            ("volumeMode", "Filesystem"),
        ];
        for (member, value) in defaults {
            if volume.str_at(&["spec", member]).is_empty() {
                volume.set_at(&["spec", member], value.into());
            }
        }
    }

    fn prepare_create(&self, cx: &Context, new: &mut Value) {
        new.set_at(&["status"], Value::from([("phase", "Pending".into())]));
        new.set_at(&PHASE_SINCE, time::rfc3339(cx.now).into());
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |volume| {
            spec(volume, VolumeLenience::default());
            mount_options(volume);
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        let lenience = lenience(old);
        // kube-apiserver validates the whole volume twice
        check(new, errors, |volume| {
            spec(volume, lenience);
            mount_options(volume);
        });
        let naming = Naming::Kind(NameRule::Subdomain, None);
        object_meta::validate(new, false, naming, errors);
        object_meta::validate_standard_finalizers(new, errors);
        check(new, errors, |volume| {
            spec(volume, lenience);
            unchanged(volume, old);
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn warnings(&self, _cx: &Context, new: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings(new)
    }

    fn cells(&self, volume: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let text = |path: &[&str]| volume.str_at(path).to_owned();
        let or = |text: &str, none: &str| {
            if text.is_empty() {
                none.to_owned()
            } else {
                text.to_owned()
            }
        };
        let claim = volume.at(&["spec", "claimRef"]);
        let claim = claim.map(|c| format!("{}/{}", c.str_at(&["namespace"]), c.str_at(&["name"])));
        let deleting = meta::deletion_timestamp(volume).is_some();
        let class = meta::annotation(volume, STORAGE_CLASS).map(str::to_owned);
        Some(vec![
            meta::name(volume).into(),
            or(volume.str_at(&["spec", "capacity", "storage"]), "0").into(),
            printing::access_modes(volume.array_at(&["spec", "accessModes"])).into(),
            text(&["spec", "persistentVolumeReclaimPolicy"]).into(),
            if deleting {
                "Terminating".into()
            } else {
                text(&PHASE).into()
            },
            claim.unwrap_or_default().into(),
            class.unwrap_or_else(|| text(&["spec", "storageClassName"])).into(),
            or(volume.str_at(&["spec", "volumeAttributesClassName"]), "<unset>").into(),
            text(&["status", "reason"]).into(),
            age(volume, now).into(),
            or(volume.str_at(&["spec", "volumeMode"]), "<unset>").into(),
        ])
    }
}

impl Strategy for Status {
    fn default(&self, object: &mut Value) {
        PersistentVolumes.default(object);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        let since = |object: &Value| object.str_at(&PHASE_SINCE).to_owned();
        let (have, had) = (since(new), since(old));
        if new.str_at(&PHASE) == old.str_at(&PHASE) {
            if have.is_empty() && !had.is_empty() {
                new.set_at(&PHASE_SINCE, had.into());
            }
        } else if have.is_empty() || have == had {
            new.set_at(&PHASE_SINCE, time::rfc3339(cx.now).into());
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        if meta::resource_version(new).is_empty() {
            errors.push(Error::required("resourceVersion", ""));
        }
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn spec(volume: Cursor<'_>, lenience: VolumeLenience) {
    volume_spec(volume.field("spec"), meta::name(volume.root()), lenience);
}

fn lenience(old: &Value) -> VolumeLenience {
    let mut found = ErrorList::new();
    check(old, &mut found, |volume| {
        if let Some(affinity) = volume.field("spec").given("nodeAffinity") {
            node_selector(affinity.field("required"), false);
        }
    });
    VolumeLenience {
        node_values: found.iter().any(|e| e.field.contains(".values[")),
    }
}

/// Mount options in an annotation, which only some sources know.
fn mount_options(volume: Cursor<'_>) {
    const KNOW_THEM: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let spec = volume.field("spec");
    if KNOW_THEM.iter().any(|source| spec.has(source)) {
        return;
    }
    if meta::annotation(volume.root(), MOUNT_OPTIONS).is_some() {
        volume.push(Error::forbidden(
            format!("metadata.annotations.{MOUNT_OPTIONS}"),
            "may not specify mount options for this volume type",
        ));
    }
}

/// The sources of a specification, in a document of their own.
fn sources(volume: &Value) -> Value {
    let mut spec = volume.get("spec").cloned().unwrap_or_else(Value::object);
    for member in NOT_SOURCES {
        spec.remove_at(&[member]);
    }
    spec
}

fn unchanged(volume: Cursor<'_>, old: &Value) {
    const EXPAND_SECRET: [&str; 2] = ["csi", "controllerExpandSecretRef"];
    let (mut have, had) = (sources(volume.root()), sources(old));
    // the secret may be added later
    if had.get("csi").is_some() && had.at(&EXPAND_SECRET).is_none() {
        have.remove_at(&EXPAND_SECRET);
    }
    if have != had {
        let go = |value: &Value| go_struct::of_core_type("PersistentVolumeSource", value);
        let diff = unified_diff::of_values(&go(&had), &go(&have));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        volume.push(Error::forbidden("spec.persistentvolumesource", detail));
    }
    let mode = volume.field("spec").field("volumeMode");
    if mode.str() != old.str_at(&["spec", "volumeMode"]) {
        volume.push(Error::invalid("volumeMode", mode.shown(), "field is immutable"));
    }
    let affinity = volume.field("spec").field("nodeAffinity");
    if let Some(before) = old.at(&["spec", "nodeAffinity"])
        && !same_affinity(affinity.value(), before)
    {
        let detail = "field is immutable, except for updating from beta label to GA";
        volume.push(Error::invalid("nodeAffinity", affinity.go_struct(), detail));
    }
    let class = volume.field("spec").field("volumeAttributesClassName");
    if !class.exists() && old.at(&["spec", "volumeAttributesClassName"]).is_some() {
        class.forbidden("update from non-nil value to nil is forbidden");
    }
}

/// Equal, where a beta label that has become stable may be replaced by its new name.
fn same_affinity(have: Option<&Value>, had: &Value) -> bool {
    const RENAMED: [(&str, &str); 5] = [
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        (
            "failure-domain.beta.kubernetes.io/region",
            "topology.kubernetes.io/region",
        ),
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    let Some(have) = have else { return false };
    let mut had = had.clone();
    let terms = had
        .at_mut(&["required", "nodeSelectorTerms"])
        .and_then(Value::as_array_mut);
    for (i, term) in terms.into_iter().flatten().enumerate() {
        for member in ["matchExpressions", "matchFields"] {
            let list = term.get_mut(member).and_then(Value::as_array_mut);
            for (j, requirement) in list.into_iter().flatten().enumerate() {
                let now = have
                    .array_at(&["required", "nodeSelectorTerms"])
                    .get(i)
                    .and_then(|t| t.array_at(&[member]).get(j))
                    .map_or("", |r| r.str_at(&["key"]));
                if RENAMED.contains(&(requirement.str_at(&["key"]), now)) {
                    requirement.set_at(&["key"], now.into());
                }
            }
        }
    }
    *have == had
}

fn warnings(volume: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, message) in [
        (
            STORAGE_CLASS,
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (
            MOUNT_OPTIONS,
            "deprecated since v1.31; use \"mountOptions\" attribute instead",
        ),
    ] {
        if meta::annotation(volume, key).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    let has = |member: &str| volume.at(&["spec", member]).is_some();
    if volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let terms = volume.array_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    for (i, term) in terms.iter().enumerate() {
        let path = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}]");
        warnings.extend(node_labels::of_expressions(&path, term));
    }
    for (member, shown, message) in [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        (
            "photonPersistentDisk",
            "photonPersistentDisk",
            "deprecated in v1.11, non-functional in v1.16+",
        ),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        (
            "storageos",
            "storageOS",
            "deprecated in v1.22, non-functional in v1.25+",
        ),
        (
            "glusterfs",
            "glusterfs",
            "deprecated in v1.25, non-functional in v1.26+",
        ),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ] {
        if has(member) {
            warnings.push(format!("spec.{shown}: {message}"));
        }
    }
    warnings
}
