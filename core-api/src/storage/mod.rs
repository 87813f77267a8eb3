//! `storage.k8s.io`: classes of storage, CSI drivers and where they run, capacity, and volumes attached to nodes.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod parameters;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use crate::kinds::Kinds;

const GROUP: &str = "storage.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy(GROUP, "csidrivers", csi_driver::CsiDrivers);
    kinds.strategy(GROUP, "csinodes", csi_node::CsiNodes);
    kinds.strategy(
        GROUP,
        "csistoragecapacities",
        csi_storage_capacity::CsiStorageCapacities,
    );
    kinds.strategy(GROUP, "storageclasses", storage_class::StorageClasses);
    kinds.strategy(GROUP, "volumeattachments", volume_attachment::VolumeAttachments);
    kinds.subresource(
        GROUP,
        "volumeattachments",
        "status",
        volume_attachment::VolumeAttachments,
    );
    kinds.strategy(
        GROUP,
        "volumeattributesclasses",
        volume_attributes_class::VolumeAttributesClasses,
    );
}
