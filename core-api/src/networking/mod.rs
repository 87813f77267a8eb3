//! `networking.k8s.io`: ingresses, network policies, and the address ranges of services.

pub mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::kinds::Kinds;

const GROUP: &str = "networking.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy(GROUP, "ingresses", ingress::Ingresses);
    kinds.subresource(GROUP, "ingresses", "status", ingress::Status);
    kinds.strategy(GROUP, "ingressclasses", ingress_class::IngressClasses);
    kinds.strategy(GROUP, "ipaddresses", ip_address::IpAddresses);
    kinds.strategy(GROUP, "networkpolicies", network_policy::NetworkPolicies);
    kinds.strategy(GROUP, "servicecidrs", service_cidr::ServiceCidrs);
    kinds.subresource(GROUP, "servicecidrs", "status", service_cidr::Status);
}
