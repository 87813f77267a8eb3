//! `certificates.k8s.io`: requests for certificates, and the certificates that whole clusters trust.

mod cluster_trust_bundle;
mod request;
mod request_rules;
mod signing_request;

use crate::kinds::Kinds;

const GROUP: &str = "certificates.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    use request_rules::Part;
    const REQUESTS: &str = "certificatesigningrequests";
    kinds.strategy(GROUP, REQUESTS, request::Requests(Part::Whole));
    kinds.subresource(GROUP, REQUESTS, "approval", request::Requests(Part::Approval));
    kinds.subresource(GROUP, REQUESTS, "status", request::Requests(Part::Status));
    kinds.strategy(GROUP, "clustertrustbundles", cluster_trust_bundle::ClusterTrustBundles);
}
