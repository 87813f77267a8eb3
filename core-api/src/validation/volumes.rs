//! A pod's volumes: one source each, and what every kind of source needs.

use std::collections::{HashMap, HashSet};

use triptych_object::field::Error;
use triptych_object::{Value, names};

use super::env::{object_field, resource_field};
use super::label_selector::{Lenience, label_selector};
use super::pod_options::PodOptions;
use super::volume_claim::claim_template;
use super::{Cursor, names as rules, paths, volume_sources as sources};

/// The volumes that containers may mount, by name.
pub type Volumes<'a> = HashMap<&'a str, Cursor<'a>>;

/// A source's member, the name under which its error about a second source stands, and its rule.
type Source = (&'static str, &'static str, fn(Cursor<'_>));

/// In the order in which kube-apiserver looks: the first one given is checked, every other refused.
const SOURCES: [Source; 25] = [
    ("hostPath", "hostPath", sources::host_path),
    ("gitRepo", "gitRepo", sources::git_repo),
    ("gcePersistentDisk", "gcePersistentDisk", |c| {
        sources::gce_disk(c.renamed("persistentDisk"))
    }),
    ("awsElasticBlockStore", "awsElasticBlockStore", sources::aws_block_store),
    ("secret", "secret", secret),
    ("nfs", "nfs", sources::nfs),
    ("iscsi", "iscsi", sources::iscsi),
    ("glusterfs", "glusterfs", sources::glusterfs),
    ("flocker", "flocker", sources::flocker),
    ("persistentVolumeClaim", "persistentVolumeClaim", |c| {
        rules::required(c.field("claimName"))
    }),
    ("rbd", "rbd", sources::rbd),
    ("cinder", "cinder", sources::cinder),
    ("cephfs", "cephFS", sources::cephfs),
    ("quobyte", "quobyte", sources::quobyte),
    ("downwardAPI", "downwarAPI", downward_api),
    ("fc", "fc", sources::fibre_channel),
    ("flexVolume", "flexVolume", sources::flex_volume),
    ("configMap", "configMap", config_map),
    ("azureFile", "azureFile", sources::azure_file),
    ("vsphereVolume", "vsphereVolume", sources::vsphere),
    ("photonPersistentDisk", "photonPersistentDisk", sources::photon),
    ("portworxVolume", "portworxVolume", sources::portworx),
    ("azureDisk", "azureDisk", sources::azure_disk),
    ("storageos", "storageos", sources::storage_os),
    ("scaleIO", "scaleIO", sources::scale_io),
];

const ONE_ONLY: &str = "may not specify more than 1 volume type";

/// A pod's volumes; answers those without errors. `pod_name` is empty for a template.
pub fn volumes<'a>(c: Cursor<'a>, pod_name: &str, options: &PodOptions) -> Volumes<'a> {
    let created: HashSet<String> = if pod_name.is_empty() {
        HashSet::new()
    } else {
        let ephemeral = c.items().filter(|v| v.has("ephemeral"));
        ephemeral.map(|v| format!("{pod_name}-{}", v.str_of("name"))).collect()
    };
    let mut good = Volumes::new();
    for volume in c.items() {
        let before = volume.found();
        source(volume, pod_name, options);
        let name = volume.field("name");
        rules::required_label(name);
        if good.contains_key(name.str()) {
            name.duplicate(name.str());
        }
        if volume.found() == before {
            good.insert(name.str(), volume);
        }
        if let Some(claim) = volume
            .given("persistentVolumeClaim")
            .map(|claim| claim.field("claimName"))
            && created.contains(claim.str())
        {
            claim.invalid(
                claim.str(),
                "must not reference a PVC that gets created for an ephemeral volume",
            );
        }
    }
    good
}

fn source(volume: Cursor<'_>, pod_name: &str, options: &PodOptions) {
    let mut any = false;
    let mut first = |given: bool, at: Cursor<'_>, shown: &'static str| {
        let first = given && !any;
        if given && any {
            at.alias(shown).forbidden(ONE_ONLY);
        }
        any |= given;
        first
    };
    if first(volume.has("emptyDir"), volume, "emptyDir") {
        let limit = volume.field("emptyDir").field("sizeLimit");
        if super::resources::quantity(limit.value()).sign() < 0 {
            limit.forbidden("SizeLimit field must be a valid resource quantity");
        }
    }
    for (member, shown, rule) in SOURCES {
        if member == "scaleIO" && first(volume.has("projected"), volume, "projected") {
            projected(volume.field("projected"), options);
        }
        if !volume.has(member) {
            continue;
        }
        if first(true, volume, shown) {
            rule(volume.field(member));
        }
        if member == "iscsi" {
            sources::iscsi_volume_name(volume);
        }
    }
    if first(volume.has("csi"), volume, "csi") {
        sources::csi(volume.field("csi"));
    }
    if first(volume.has("ephemeral"), volume, "ephemeral") {
        ephemeral(volume, pod_name);
    }
    if first(volume.has("image"), volume, "image") {
        let image = volume.field("image");
        if options.is_pod {
            rules::required(image.field("reference"));
        }
        super::container::pull_policy(image.field("pullPolicy"));
    }
    if !any {
        volume.required("must specify a volume type");
    }
}

fn secret(c: Cursor<'_>) {
    rules::required(c.field("secretName"));
    paths::file_mode(c.field("defaultMode"));
    c.field("items").items().for_each(paths::key_to_path);
}

fn config_map(c: Cursor<'_>) {
    rules::required(c.field("name"));
    paths::file_mode(c.field("defaultMode"));
    c.field("items").items().for_each(paths::key_to_path);
}

fn ephemeral(volume: Cursor<'_>, pod_name: &str) {
    let template = volume.field("ephemeral").field("volumeClaimTemplate");
    if template.exists() {
        claim_template(template);
    } else {
        template.required("");
    }
    let name = volume.field("name");
    if !pod_name.is_empty() && !name.str().is_empty() {
        let claim = format!("{pod_name}-{}", name.str());
        for message in names::dns1123_subdomain(&claim) {
            let claim = triptych_object::field::quote(&claim);
            name.invalid(name.str(), format!("PVC name {claim}: {message}"));
        }
    }
}

fn downward_api(c: Cursor<'_>) {
    paths::file_mode(c.field("defaultMode"));
    for file in c.field("items").items() {
        downward_api_file(file.standing_for(c));
    }
}

/// A file of a downward API volume; its errors stand at the volume, not at the item.
fn downward_api_file(c: Cursor<'_>) {
    const FIELDS: [&str; 5] = [
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
    ];
    let path = c.field("path");
    rules::required(path);
    paths::local_non_reserved(path);
    let (field, resource) = (c.field("fieldRef"), c.field("resourceFieldRef"));
    match (field.exists(), resource.exists()) {
        (true, both) => {
            object_field(field, &FIELDS);
            if both {
                c.invalid(
                    "resource",
                    "fieldRef and resourceFieldRef can not be specified simultaneously",
                );
            }
        }
        (false, true) => resource_field(resource, true),
        (false, false) => c.required("one of fieldRef and resourceFieldRef is required"),
    }
    paths::file_mode(c.field("mode"));
}

/// Paths of a projected volume, which must not repeat.
struct Paths<'a> {
    volume: Cursor<'a>,
    seen: HashSet<&'a str>,
}

impl<'a> Paths<'a> {
    fn add(&mut self, path: &'a str, shown: &str) {
        if !self.seen.insert(path) {
            self.volume.invalid(shown, "conflicting duplicate paths");
        }
    }

    fn add_given(&mut self, path: &'a str, shown: &str) {
        if !path.is_empty() {
            self.add(path, shown);
        }
    }
}

fn projected(c: Cursor<'_>, options: &PodOptions) {
    paths::file_mode(c.field("defaultMode"));
    let mut seen = Paths {
        volume: c,
        seen: HashSet::new(),
    };
    for source in c.field("sources").items() {
        let mut number = 0;
        for keys in ["secret", "configMap"] {
            if let Some(keys) = source.given(keys) {
                number += 1;
                rules::required(keys.field("name"));
                for item in keys.field("items").items() {
                    paths::key_to_path(item);
                    seen.add_given(item.str_of("path"), keys.str_of("name"));
                }
            }
        }
        if let Some(downward) = source.given("downwardAPI") {
            number += 1;
            for file in downward.field("items").items() {
                downward_api_file(file.standing_for(downward));
                seen.add_given(file.str_of("path"), file.str_of("path"));
            }
        }
        if let Some(token) = source.given("serviceAccountToken") {
            number += 1;
            service_account_token(token, c, options);
        }
        if let Some(bundle) = source.given("clusterTrustBundle") {
            number += 1;
            cluster_trust_bundle(bundle);
            seen.add(bundle.str_of("path"), bundle.str_of("path"));
        }
        if let Some(certificate) = source.given("podCertificate") {
            number += 1;
            pod_certificate(certificate, &mut seen);
        }
        if number > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

fn service_account_token<'a>(c: Cursor<'a>, volume: Cursor<'a>, options: &PodOptions) {
    let seconds = c.field("expirationSeconds");
    if seconds.int() < 600 {
        seconds.invalid(seconds.int(), "may not specify a duration less than 10 minutes");
    }
    if seconds.int() > 1 << 32 {
        seconds.invalid(seconds.int(), "may not specify a duration larger than 2^32 seconds");
    }
    let path = c.field("path").standing_for(volume.alias("path"));
    if path.str().is_empty() {
        path.required("");
    } else if !options.non_local_token_path {
        paths::local_non_reserved(path);
    }
}

fn cluster_trust_bundle(c: Cursor<'_>) {
    let (name, signer, path) = (c.field("name"), c.field("signerName"), c.field("path"));
    match (name.exists(), signer.exists()) {
        (true, true) => c.invalid(c.go_struct(), "only one of name and signerName may be used"),
        (true, false) => {
            if name.str().is_empty() {
                name.required("must be a valid object name");
            }
            // `<signer with : for />:<name>`, or a name alone
            let own = name.str().rsplit_once(':').map_or(name.str(), |(_, own)| own);
            for message in names::dns1123_subdomain(own) {
                name.invalid(name.str(), format!("not a valid clustertrustbundlename: {message}"));
            }
            let selector = c.field("labelSelector");
            if selector.exists() {
                selector.invalid(selector.shown(), "labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            if signer.str().is_empty() {
                signer.required("must be a valid signer name");
            }
            rules::signer_name(signer);
            label_selector(c.field("labelSelector"), Lenience::default());
        }
        (false, false) => c.required("either name or signerName must be specified"),
    }
    rules::required(path);
    paths::local_non_reserved(path);
}

fn pod_certificate<'a>(c: Cursor<'a>, seen: &mut Paths<'a>) {
    const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    /// certificates.k8s.io: 91 days, and one day from kubernetes.io's own signers.
    const LONGEST: (i64, i64) = (91 * 24 * 3600, 24 * 3600);
    let signer = c.field("signerName");
    rules::signer_name(signer);
    if let Some(annotations) = c.field("userAnnotations").value().and_then(Value::as_object) {
        for key in annotations.keys() {
            rules::domain_prefixed_key(c.field("userAnnotations"), &key.to_lowercase());
        }
    }
    let key_type = c.field("keyType");
    if !KEY_TYPES.contains(&key_type.str()) {
        key_type.push(Error::not_supported(key_type.path(), key_type.str(), &KEY_TYPES));
    }
    if let Some(seconds) = c.given("maxExpirationSeconds") {
        if seconds.int() < 3600 {
            seconds.invalid(seconds.int(), "if provided, maxExpirationSeconds must be >= 3600");
        }
        let host = signer.str().split('/').next().unwrap_or("");
        let own = host == "kubernetes.io" || host.ends_with(".kubernetes.io");
        let longest = if own { LONGEST.1 } else { LONGEST.0 };
        if seconds.int() > longest {
            let detail = format!("if provided, maxExpirationSeconds must be <= {longest}");
            seconds.invalid(seconds.int(), detail);
        }
    }
    let mut any = false;
    for path in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = c.field(path);
        if !path.str().is_empty() {
            any = true;
            paths::local_non_reserved(path);
            seen.add(path.str(), path.str());
        }
    }
    if !any {
        c.required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}
