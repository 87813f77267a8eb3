//! ClusterTrustBundle: certificates of authorities that a signer, or everybody, trusts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::strategy::{Context, Strategy};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::validation::{Cursor, check, names as rules, pem};

const MAX_BYTES: usize = 1024 * 1024;
const HIDDEN: &str = "<value omitted>";

/// The strategy of `clustertrustbundles`.
pub struct ClusterTrustBundles;

impl Strategy for ClusterTrustBundles {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |bundle| whole(bundle, true));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |bundle| {
            let certificates = bundle.field("spec").field("trustBundle");
            whole(bundle, certificates.str() != old.str_at(&["spec", "trustBundle"]));
            let signer = bundle.field("spec").field("signerName");
            if signer.str() != old.str_at(&["spec", "signerName"]) {
                signer.invalid(signer.str(), "field is immutable");
            }
        });
    }

    fn cells(&self, bundle: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        let signer = bundle.str_at(&["spec", "signerName"]);
        let signer = if signer.is_empty() { "<none>" } else { signer };
        Some(vec![meta::name(bundle).into(), signer.into()])
    }
}

fn whole(bundle: Cursor<'_>, read: bool) {
    let spec = bundle.field("spec");
    let signer = spec.field("signerName");
    name(bundle.field("metadata").field("name"), signer.str());
    if !signer.is_empty() {
        rules::signer_name(signer);
    }
    if read {
        trust_bundle(spec.field("trustBundle"));
    }
}

/// A signer's bundles have its name before theirs.
fn name(name: Cursor<'_>, signer: &str) {
    if signer.is_empty() {
        if name.str().contains(':') {
            return name.invalid(
                name.str(),
                "ClusterTrustBundle without signer name must not have \":\" in its name",
            );
        }
        return name.invalid_text(names::dns1123_subdomain(name.str()));
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.str().strip_prefix(&prefix) {
        Some(own) => {
            for message in names::dns1123_subdomain(own) {
                name.invalid(name.str(), message);
            }
        }
        None => name.invalid(
            name.str(),
            format!("ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"),
        ),
    }
}

fn trust_bundle(text: Cursor<'_>) {
    if text.len() > MAX_BYTES {
        return text.too_long(MAX_BYTES);
    }
    let before = text.found();
    let mut entries: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (i, block) in pem::blocks(text.str().as_bytes()).into_iter().enumerate() {
        match wrong(&block) {
            Some(wrong) => text.invalid(HIDDEN, format!("entry {i} {wrong}")),
            None => entries.entry(block.bytes).or_default().push(i),
        }
    }
    if text.found() > before {
        return;
    }
    if entries.is_empty() {
        text.invalid(HIDDEN, "at least one trust anchor must be provided");
    }
    for places in entries.values().filter(|places| places.len() > 1) {
        let places: Vec<String> = places.iter().map(usize::to_string).collect();
        text.invalid(
            HIDDEN,
            format!("duplicate trust anchor (indices [{}])", places.join(" ")),
        );
    }
}

fn wrong(block: &pem::Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.has_headers {
        return Some("has PEM block headers".into());
    }
    match X509Certificate::from_der(&block.bytes) {
        Ok(([], certificate)) => (!certificate.is_ca()).then(|| "does not have the CA bit set".into()),
        _ => Some("does not parse as X.509".into()),
    }
}
