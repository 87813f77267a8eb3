//! Sources of pod volumes that name something on the node or in a storage system.
//!
//! Some errors stand below other names than the fields have (`persistentDisk`, `initiatorname`), as in kube-apiserver.

use std::sync::LazyLock;

use regex::Regex;
use triptych_object::field::Error;
use triptych_object::{Value, names};

use super::{Cursor, names as rules, paths};

const ISCSI_TOO_LONG: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";

fn members(c: Cursor<'_>, required: &'static [&'static str]) {
    required.iter().for_each(|name| rules::required(c.field(name)));
}

fn range(c: Cursor<'_>, low: i64, high: i64, shown: (i64, i64)) {
    if !(low..=high).contains(&c.int()) {
        c.invalid(c.int(), names::inclusive_range_message(shown.0, shown.1));
    }
}

fn secret_name(c: Cursor<'_>) {
    if let Some(secret) = c.given("secretRef") {
        rules::required(secret.field("name"));
    }
}

/// A file or directory of the node.
pub fn host_path(c: Cursor<'_>) {
    const TYPES: [&str; 8] = [
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = c.field("path");
    if path.str().is_empty() {
        path.required("");
        return;
    }
    paths::no_backsteps(path);
    rules::optional_one_of(c.field("type"), &TYPES);
}

/// A git checkout.
pub fn git_repo(c: Cursor<'_>) {
    members(c, &["repository"]);
    paths::local_descending(c.field("directory"));
}

/// `c` is the volume's place under the name `persistentDisk`.
pub fn gce_disk(c: Cursor<'_>) {
    members(c, &["pdName"]);
    range(c.field("partition"), 0, 255, (1, 255));
}

/// An EBS volume.
pub fn aws_block_store(c: Cursor<'_>) {
    members(c, &["volumeID"]);
    range(c.field("partition"), 0, 255, (1, 255));
}

/// An NFS export.
pub fn nfs(c: Cursor<'_>) {
    members(c, &["server", "path"]);
    let path = c.field("path");
    if !path.str().starts_with('/') {
        path.invalid(path.str(), "must be an absolute path");
    }
}

static IQN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"iqn\.[0-9]{4}-[0-9]{2}\.([0-9A-Za-z\-.]+)(:[^,;*&$|\s]+)$").ok());
static EUI: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^eui.[0-9A-Za-z]{16}$").ok());
static NAA: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^naa.[0-9A-Za-z]{32}$").ok());

/// Whether an iSCSI name begins as one should, and then is one.
fn iscsi_name(name: &str) -> (bool, bool) {
    for (prefix, pattern) in [("iqn", &IQN), ("eui", &EUI), ("naa", &NAA)] {
        if name.starts_with(prefix) {
            return (true, pattern.as_ref().is_some_and(|p| p.is_match(name)));
        }
    }
    (false, false)
}

fn iscsi_name_rule(at: Cursor<'_>, name: &str, wrong_start: &str) {
    match iscsi_name(name) {
        (false, _) => at.invalid(name, wrong_start),
        (true, false) => at.invalid(name, "must be valid format"),
        _ => {}
    }
}

fn iscsi_common(c: Cursor<'_>, wrong_start: &str) {
    let iqn = c.field("iqn");
    if iqn.str().is_empty() {
        iqn.required("");
    } else {
        iscsi_name_rule(iqn, iqn.str(), wrong_start);
    }
    range(c.field("lun"), 0, 255, (0, 255));
    if (c.is_true_of("chapAuthDiscovery") || c.is_true_of("chapAuthSession")) && !c.has("secretRef") {
        c.field("secretRef").required("");
    }
}

/// An iSCSI disk of a pod's volume.
pub fn iscsi(c: Cursor<'_>) {
    const START: &str = "must be valid format starting with iqn, eui, or naa";
    members(c, &["targetPortal"]);
    iscsi_common(c, START);
    if c.has("initiatorName") {
        iscsi_name_rule(c.alias("initiatorname"), c.str_of("initiatorName"), START);
    }
}

/// The name of a volume with an iSCSI initiator, together with its portal.
pub fn iscsi_volume_name(volume: Cursor<'_>) {
    let source = volume.field("iscsi");
    let name = volume.field("name");
    if source.has("initiatorName") && name.str().len() + 1 + source.str_of("targetPortal").len() > 64 {
        name.invalid(name.str(), ISCSI_TOO_LONG);
    }
}

/// An iSCSI disk of a PersistentVolume.
pub fn iscsi_persistent(c: Cursor<'_>, volume: &str) {
    const START: &str = "must be valid format";
    members(c, &["targetPortal"]);
    let portal = c.str_of("targetPortal");
    if c.has("initiatorName") && volume.len() + 1 + portal.len() > 64 {
        c.alias("targetportal").invalid(portal, ISCSI_TOO_LONG);
    }
    iscsi_common(c, START);
    secret_name(c);
    if c.has("initiatorName") {
        iscsi_name_rule(c.alias("initiatorname"), c.str_of("initiatorName"), START);
    }
}

/// A Fibre Channel disk.
pub fn fibre_channel(c: Cursor<'_>) {
    let (wwns, lun) = (c.field("targetWWNs"), c.field("lun"));
    let wwids = !c.field("wwids").is_empty();
    if wwns.is_empty() && !wwids {
        wwns.required("must specify either targetWWNs or wwids, but not both");
    }
    if wwns.is_empty() {
        return;
    }
    if wwids {
        wwns.invalid(wwns.shown(), "targetWWNs and wwids can not be specified simultaneously");
    }
    if lun.exists() {
        range(lun, 0, 255, (0, 255));
    } else {
        lun.required("lun is required if targetWWNs is specified");
    }
}

/// A GlusterFS volume.
pub fn glusterfs(c: Cursor<'_>) {
    members(c, &["endpoints", "path"]);
}

/// A GlusterFS volume of a PersistentVolume.
pub fn glusterfs_persistent(c: Cursor<'_>) {
    glusterfs(c);
    if let Some(namespace) = c.given("endpointsNamespace") {
        if namespace.str().is_empty() {
            namespace.invalid("", "if the endpointnamespace is set, it must be a valid namespace name");
        } else {
            rules::label(namespace);
        }
    }
}

/// A Flocker dataset.
pub fn flocker(c: Cursor<'_>) {
    let name = c.field("datasetName");
    match (name.str().is_empty(), c.str_of("datasetUUID").is_empty()) {
        (true, true) => c.required("one of datasetName and datasetUUID is required"),
        (false, false) => c.invalid(
            "resource",
            "datasetName and datasetUUID can not be specified simultaneously",
        ),
        _ => {}
    }
    if name.str().contains('/') {
        name.invalid(name.str(), "must not contain '/'");
    }
}

/// A Ceph block device.
pub fn rbd(c: Cursor<'_>) {
    if c.field("monitors").is_empty() {
        c.field("monitors").required("");
    }
    members(c, &["image"]);
}

/// A Cinder volume.
pub fn cinder(c: Cursor<'_>) {
    members(c, &["volumeID"]);
    secret_name(c);
}

/// A Ceph file system.
pub fn cephfs(c: Cursor<'_>) {
    if c.field("monitors").is_empty() {
        c.field("monitors").required("");
    }
}

/// A Quobyte volume.
pub fn quobyte(c: Cursor<'_>) {
    const REGISTRY: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (c.field("registry"), c.field("tenant"));
    if registry.str().is_empty() {
        registry.required(REGISTRY);
    } else if tenant.str().len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for pair in registry.str().split(',').filter(|pair| !is_host_port(pair)) {
            let _ = pair;
            registry.invalid(registry.str(), REGISTRY);
        }
    }
    members(c, &["volume"]);
}

/// Whether Go's `net.SplitHostPort` would take it.
fn is_host_port(text: &str) -> bool {
    let Some((host, _)) = text.rsplit_once(':') else {
        return false;
    };
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|inner| !inner.contains(['[', ']'])),
        None => !text
            .rsplit_once(':')
            .is_some_and(|(h, p)| h.contains([':', '[', ']']) || p.contains(['[', ']'])),
    }
}

/// A driver of the vendor's own.
pub fn flex_volume(c: Cursor<'_>) {
    members(c, &["driver"]);
    for (key, option) in c.field("options").entries() {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let normalized = format!(".{}", namespace.to_lowercase());
        if normalized.ends_with(".kubernetes.io") || normalized.ends_with(".k8s.io") {
            option.invalid(key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

/// An Azure file share.
pub fn azure_file(c: Cursor<'_>) {
    members(c, &["secretName", "shareName"]);
}

/// An Azure disk.
pub fn azure_disk(c: Cursor<'_>) {
    const MANAGED: [&str; 1] =
        ["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"];
    const BLOB: [&str; 1] = ["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"];
    members(c, &["diskName", "diskURI"]);
    rules::optional_one_of(c.field("cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    rules::optional_one_of(c.field("kind"), &["Dedicated", "Managed", "Shared"]);
    let uri = c.field("diskURI");
    let (prefix, supported) = match c.value().and_then(|v| v.get("kind")).and_then(Value::as_str) {
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
        None => return,
    };
    if !uri.str().starts_with(prefix) {
        uri.push(Error::not_supported(uri.path(), uri.str(), &supported));
    }
}

/// A vSphere disk.
pub fn vsphere(c: Cursor<'_>) {
    members(c, &["volumePath"]);
}

/// A Photon disk.
pub fn photon(c: Cursor<'_>) {
    members(c, &["pdID"]);
}

/// A Portworx volume.
pub fn portworx(c: Cursor<'_>) {
    members(c, &["volumeID"]);
}

/// A ScaleIO volume.
pub fn scale_io(c: Cursor<'_>) {
    members(c, &["gateway", "system", "volumeName"]);
}

/// A StorageOS volume.
pub fn storage_os(c: Cursor<'_>) {
    rules::required_label(c.field("volumeName"));
    if !c.str_of("volumeNamespace").is_empty() {
        rules::label(c.field("volumeNamespace"));
    }
    secret_name(c);
}

/// The name of a CSI driver.
pub fn csi_driver_name(c: Cursor<'_>) {
    if c.str().is_empty() {
        c.required("");
        return;
    }
    if c.str().len() > 63 {
        c.too_long(63);
    }
    for message in names::dns1123_subdomain(&c.str().to_lowercase()) {
        c.invalid(c.str(), message);
    }
}

/// An inline CSI volume.
pub fn csi(c: Cursor<'_>) {
    csi_driver_name(c.field("driver"));
    if let Some(secret) = c.given("nodePublishSecretRef") {
        let name = secret.field("name");
        if name.str().is_empty() {
            name.required("");
        } else {
            for message in names::dns1123_subdomain(name.str()) {
                c.alias("name").invalid(name.str(), message);
            }
        }
    }
}
