//! The specification of a PersistentVolume, also where a VolumeAttachment carries one inline.

use triptych_object::field::Error;

use super::affinity::node_selector;
use super::volume_claim::ACCESS_MODES;
use super::{Cursor, names as rules, paths, resource_names, volume_sources as sources};

/// What stored volumes may have that new ones may not.
#[derive(Clone, Copy, Debug, Default)]
pub struct VolumeLenience {
    /// Values in the required node affinity that are no label values.
    pub node_values: bool,
}

/// A PersistentVolumeSpec of the volume `name`.
pub fn volume_spec(c: Cursor<'_>, name: &str, lenience: VolumeLenience) {
    access_modes(c.field("accessModes"));
    let capacity = c.field("capacity");
    if capacity.is_empty() {
        capacity.required("");
    }
    if capacity.len() != 1 || !capacity.key("storage").exists() {
        let shown = capacity.shown();
        capacity.push(Error::not_supported(capacity.path(), shown, &["storage"]));
    }
    for (_, quantity) in capacity.entries() {
        let value = resource_names::quantity(quantity).value();
        if value < 0 {
            quantity.invalid(value, "must be a valid resource quantity");
        }
        resource_names::positive(quantity);
    }
    let policy = c.field("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        rules::one_of(policy, &["Delete", "Recycle", "Retain"]);
    }
    let affinity = c.given("nodeAffinity");
    if let Some(affinity) = affinity {
        match affinity.given("required") {
            Some(required) => node_selector(required, lenience.node_values),
            None => affinity
                .field("required")
                .required("must specify required node constraints"),
        }
    }
    source(c, name, affinity.is_some());
    let root = clean(c.field("hostPath").str_of("path")) == "/";
    if c.has("hostPath") && root && policy.str() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    rules::optional_subdomain(c.field("storageClassName"));
    rules::optional_one_of(c.field("volumeMode"), &["Block", "Filesystem"]);
    if let Some(class) = c.given("volumeAttributesClassName") {
        if class.str().is_empty() {
            class.required("an empty string is disallowed");
        } else {
            rules::subdomain(class);
        }
        if !c.has("csi") {
            c.field("csi")
                .required("has to be specified when using volumeAttributesClassName");
        }
    }
}

/// A PersistentVolumeSpec inside another object, which only migration of in-tree volumes to CSI makes.
pub fn inline_volume_spec(c: Cursor<'_>, name: &str) {
    const INLINE: &str = "may not be specified in the context of inline volumes";
    if c.has("claimRef") {
        c.field("claimRef").forbidden(INLINE);
    }
    if !c.field("capacity").is_empty() {
        c.field("capacity").forbidden(INLINE);
    }
    if !c.has("csi") {
        c.field("csi")
            .required("has to be specified in the context of inline volumes");
    }
    access_modes(c.field("accessModes"));
    let policy = c.field("persistentVolumeReclaimPolicy");
    if !matches!(policy.str(), "" | "Retain") {
        policy.forbidden("may only be Retain in the context of inline volumes");
    }
    if c.has("nodeAffinity") {
        c.field("nodeAffinity").forbidden(INLINE);
    }
    source(c, name, false);
    if !c.str_of("storageClassName").is_empty() {
        c.field("storageClassName").forbidden(INLINE);
    }
    if let Some(mode) = c.given("volumeMode")
        && mode.str() != "Filesystem"
    {
        mode.forbidden("may not specify volumeMode other than Filesystem in the context of inline volumes");
    }
    if let Some(class) = c.given("volumeAttributesClassName") {
        if class.str().is_empty() {
            class.required("an empty string is disallowed");
        } else {
            rules::subdomain(class);
        }
    }
}

fn access_modes(modes: Cursor<'_>) {
    if modes.is_empty() {
        modes.required("");
    }
    let (mut once_pod, mut other) = (false, false);
    for mode in modes.items() {
        match mode.str() {
            "ReadWriteOncePod" => once_pod = true,
            known if ACCESS_MODES.contains(&known) => other = true,
            unknown => modes.push(Error::not_supported(modes.path(), unknown, &ACCESS_MODES)),
        }
    }
    if once_pod && other {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

/// Go's `path.Clean`, as far as being the root matters.
fn clean(path: &str) -> &str {
    let up = |part: &str| matches!(part, "" | "." | "..");
    if path.starts_with('/') && path.split('/').all(up) {
        "/"
    } else {
        path
    }
}

/// The name under which kube-apiserver refuses a second source, where it is not the field's.
fn refused_name(member: &'static str) -> &'static str {
    if member == "cephfs" { "cephFS" } else { member }
}

type Rule = fn(Cursor<'_>);

/// The sources in the order in which kube-apiserver looks at them.
const SOURCES: [(&str, Rule); 22] = [
    ("hostPath", sources::host_path),
    ("gcePersistentDisk", |c| sources::gce_disk(c.renamed("persistentDisk"))),
    ("awsElasticBlockStore", sources::aws_block_store),
    ("glusterfs", sources::glusterfs_persistent),
    ("flocker", sources::flocker),
    ("nfs", sources::nfs),
    ("rbd", sources::rbd),
    ("quobyte", sources::quobyte),
    ("cephfs", sources::cephfs),
    ("iscsi", |_| {}),
    ("cinder", cinder),
    ("fc", sources::fibre_channel),
    ("flexVolume", sources::flex_volume),
    ("azureFile", azure_file),
    ("vsphereVolume", sources::vsphere),
    ("photonPersistentDisk", sources::photon),
    ("portworxVolume", sources::portworx),
    ("azureDisk", sources::azure_disk),
    ("scaleIO", sources::scale_io),
    ("local", local),
    ("storageos", storage_os),
    ("csi", csi),
];

/// Exactly one source must be given.
fn source(c: Cursor<'_>, name: &str, has_affinity: bool) {
    let mut found = 0;
    for (member, rule) in SOURCES {
        let Some(source) = c.given(member) else { continue };
        // a second driver of the vendor's own is not refused
        if found > 0 && member != "flexVolume" {
            source
                .renamed(refused_name(member))
                .forbidden("may not specify more than 1 volume type");
            continue;
        }
        found += 1;
        rule(source);
        if member == "iscsi" {
            sources::iscsi_persistent(source, name);
        }
        if member == "local" && !has_affinity {
            c.field("nodeAffinity").required("Local volume requires node affinity");
        }
    }
    if found == 0 {
        c.required("must specify a volume type");
    }
}

fn secret_reference(secret: Option<Cursor<'_>>) {
    if let Some(secret) = secret {
        rules::required(secret.field("name"));
        rules::required(secret.field("namespace"));
    }
}

fn cinder(c: Cursor<'_>) {
    rules::required(c.field("volumeID"));
    secret_reference(c.given("secretRef"));
}

fn azure_file(c: Cursor<'_>) {
    sources::azure_file(c);
    if let Some(namespace) = c.given("secretNamespace") {
        rules::required(namespace);
    }
}

fn local(c: Cursor<'_>) {
    let path = c.field("path");
    if path.is_empty() {
        path.required("");
    } else {
        paths::no_backsteps(path);
    }
}

fn storage_os(c: Cursor<'_>) {
    rules::required_label(c.field("volumeName"));
    if !c.str_of("volumeNamespace").is_empty() {
        rules::label(c.field("volumeNamespace"));
    }
    secret_reference(c.given("secretRef"));
}

fn csi(c: Cursor<'_>) {
    sources::csi_driver_name(c.field("driver"));
    rules::required(c.field("volumeHandle"));
    for member in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = c.given(member) else { continue };
        let (name, namespace) = (secret.field("name"), secret.field("namespace"));
        if name.is_empty() {
            name.required("");
        } else {
            rules::subdomain(name);
        }
        rules::required_label(namespace);
    }
}
