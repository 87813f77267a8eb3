//! The specification of a PersistentVolumeClaim, also where it is a template (ephemeral volumes, StatefulSets).

use triptych_object::Value;

use super::label_selector::{Lenience, label_selector, labels};
use super::{Cursor, names as rules, resources};

/// Access modes, sorted.
pub const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What stored claims may have that new ones may not.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaimLenience {
    /// Values of the selector that are no label values.
    pub selector_values: bool,
    /// API groups of data sources that are no subdomains.
    pub data_source_group: bool,
}

/// A PersistentVolumeClaimTemplate: only labels, annotations and the specification.
pub fn claim_template(c: Cursor<'_>) {
    template_metadata(c.field("metadata"));
    claim_spec(c.field("spec"), ClaimLenience::default());
}

/// Metadata of what objects are made from: labels and annotations alone.
pub fn template_metadata(metadata: Cursor<'_>) {
    annotations(metadata.field("annotations"));
    labels(metadata.field("labels"));
    if let Some(members) = metadata.value().and_then(Value::as_object) {
        for name in members.keys().filter(|n| !matches!(*n, "annotations" | "labels")) {
            metadata.alias(name).forbidden("cannot be set");
        }
    }
}

/// A map of annotations.
pub fn annotations(c: Cursor<'_>) {
    if let Some(map) = c.value().and_then(Value::as_object) {
        let mut found = triptych_object::field::ErrorList::new();
        triptych_registry::object_meta::validate_annotations(map, &c.path(), &mut found);
        found.into_iter().for_each(|error| c.push(error));
    }
}

/// A PersistentVolumeClaimSpec.
pub fn claim_spec(c: Cursor<'_>, lenience: ClaimLenience) {
    let modes = c.field("accessModes");
    if modes.is_empty() {
        modes.required("at least 1 access mode is required");
    }
    let selector = Lenience {
        invalid_values: lenience.selector_values,
    };
    label_selector(c.field("selector"), selector);
    let (mut once_pod, mut other) = (false, false);
    for mode in modes.items() {
        match mode.str() {
            "ReadWriteOncePod" => once_pod = true,
            known if ACCESS_MODES.contains(&known) => other = true,
            unknown => modes.push(triptych_object::field::Error::not_supported(
                modes.path(),
                unknown,
                &ACCESS_MODES,
            )),
        }
    }
    if once_pod && other {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
    let storage = c.field("resources").field("requests").key("storage");
    let shown = c.field("resources").key("storage");
    if !storage.exists() {
        shown.required("");
    } else {
        let q = resources::quantity(storage.value());
        if q.sign() <= 0 {
            shown.invalid(q.to_string(), "must be greater than zero");
        }
    }
    rules::optional_subdomain(c.field("storageClassName"));
    rules::optional_one_of(c.field("volumeMode"), &["Block", "Filesystem"]);
    data_sources(c, lenience);
    rules::optional_subdomain(c.field("volumeAttributesClassName"));
}

fn data_sources(c: Cursor<'_>, lenience: ClaimLenience) {
    let (source, reference) = (c.field("dataSource"), c.field("dataSourceRef"));
    for c in [source, reference].into_iter().filter(|c| c.exists()) {
        rules::required(c.field("name"));
        rules::required(c.field("kind"));
        let (group, kind) = (c.field("apiGroup"), c.str_of("kind"));
        if group.str().is_empty() && kind != "PersistentVolumeClaim" {
            c.invalid(
                kind,
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            );
        }
        if !lenience.data_source_group {
            rules::optional_subdomain(group);
        }
    }
    let foreign = reference.exists() && !reference.str_of("namespace").is_empty();
    if foreign {
        rules::label(reference.field("namespace"));
    }
    // kube-apiserver shows the Path struct, which has no exported field
    if foreign && source.exists() {
        c.invalid(
            Value::object(),
            "may not be specified when dataSourceRef.namespace is specified",
        );
    } else if source.exists() && reference.exists() {
        let same = ["apiGroup", "kind", "name"]
            .iter()
            .all(|member| source.value().and_then(|v| v.get(member)) == reference.value().and_then(|v| v.get(member)));
        if !same {
            c.invalid(Value::object(), "must match dataSourceRef");
        }
    }
}
