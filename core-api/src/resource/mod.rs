//! `resource.k8s.io`: devices that drivers offer, and claims to them. Expressions are not compiled here.

mod allocation;
mod capacity;
mod claim;
mod defaults;
mod device;
mod device_class;
mod requests;
mod selector;
mod slice;
mod template;
mod texts;

use crate::context::Context;
use crate::kinds::Kinds;

const GROUP: &str = "resource.k8s.io";
/// Versions of the same form. v1beta1 differs.
const VERSIONS: [&str; 2] = ["v1", "v1beta2"];

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds, context: &Context) {
    let namespaces = claim::Namespaces(context.clone());
    for version in VERSIONS {
        kinds.versioned(GROUP, version, "deviceclasses", device_class::DeviceClasses);
        kinds.versioned(GROUP, version, "resourceclaims", claim::Claims(namespaces.clone()));
        let status = claim::Status(namespaces.clone());
        kinds.versioned_subresource(GROUP, version, "resourceclaims", "status", status);
        let templates = template::Templates(namespaces.clone());
        kinds.versioned(GROUP, version, "resourceclaimtemplates", templates);
        kinds.versioned(GROUP, version, "resourceslices", slice::Slices);
    }
    kinds.index(GROUP, "resourceslices", "spec.nodeName");
}
