//! Discovery: what is served, as clients ask for it at `/api`, `/apis` and below.
//!
//! Contract: documents are pure functions of resource records. A tier describes its own group-versions with
//! [`resources`] (built-in) or [`custom`] (from CRDs), adds what the tier behind it and APIServices give, and publishes
//! the whole as one immutable [`Snapshot`], whose bytes are rendered once and shared by all requests. Order and
//! spelling are kube-apiserver's; the beta form of aggregated discovery is gone since 1.35 and not served.

pub mod accept;
pub mod custom;
pub mod documents;
pub mod priority;
pub mod resources;
pub mod snapshot;

pub use priority::Priority;
pub use snapshot::{Entry, Freshness, Listing, Snapshot};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use triptych_schema::types::Kind;

/// `storageVersionHash`: tells whether two versions of a resource are stored alike, without saying how.
pub fn storage_version_hash(stored: &Kind) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, stored.kind));
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_storage_version_hash_is_that_of_kube_apiserver() {
        let kind = |group: &'static str, kind: &'static str| Kind {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
        };
        assert_eq!(storage_version_hash(&kind("apps", "Deployment")), "8aSe+NMegvE=");
        assert_eq!(storage_version_hash(&kind("", "Pod")), "xPOwRZ+Yhw8=");
    }
}
