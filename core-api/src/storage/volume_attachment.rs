//! VolumeAttachment: a volume that is, or should be, attached to a node.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::parameters::bytes;
use crate::defaults;
use crate::validation::persistent_volume::inline_volume_spec;
use crate::validation::volume_sources::csi_driver_name;
use crate::validation::{Cursor, check, names as rules};

const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;

/// The strategy of `volumeattachments` and of their status.
pub struct VolumeAttachments;

impl Strategy for VolumeAttachments {
    fn default(&self, attachment: &mut Value) {
        defaults::resource_lists(attachment, &[&["spec", "source", "inlineVolumeSpec", "capacity"]]);
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |attachment| {
            whole(attachment);
            let spec = attachment.field("spec");
            if spec.value() != old.get("spec") {
                spec.invalid(spec.go_struct(), "field is immutable");
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn cells(&self, attachment: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let spec = |member: &str| Value::from(attachment.str_at(&["spec", member]));
        let attached = attachment.at(&["status", "attached"]).and_then(Value::as_bool);
        Some(vec![
            meta::name(attachment).into(),
            spec("attacher"),
            attachment.str_at(&["spec", "source", "persistentVolumeName"]).into(),
            spec("nodeName"),
            Value::Bool(attached == Some(true)),
            age(attachment, now).into(),
        ])
    }
}

fn whole(attachment: Cursor<'_>) {
    const EXACTLY_ONE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    let spec = attachment.field("spec");
    csi_driver_name(spec.field("attacher"));
    let source = spec.field("source");
    let (inline, name) = (source.given("inlineVolumeSpec"), source.given("persistentVolumeName"));
    match (inline, name) {
        (None, None) => source.required(EXACTLY_ONE),
        (Some(_), Some(_)) => source.forbidden(EXACTLY_ONE),
        (None, Some(name)) if name.is_empty() => name.required("must specify non empty persistentVolumeName"),
        (None, Some(_)) => {}
        (Some(inline), None) => inline_volume_spec(inline, ""),
    }
    rules::subdomain(spec.field("nodeName"));
    status(attachment.field("status"));
    if let Some(name) = name {
        name.invalid_text(names::dns1123_subdomain(name.str()));
    }
}

fn status(status: Cursor<'_>) {
    let metadata = status.field("attachmentMetadata");
    if bytes(metadata) > MAX_METADATA_BYTES {
        metadata.too_long(MAX_METADATA_BYTES);
    }
    for member in ["attachError", "detachError"] {
        let Some(error) = status.given(member) else { continue };
        let (message, code) = (error.field("message"), error.field("errorCode"));
        if message.len() > MAX_MESSAGE_BYTES {
            // the limit that kube-apiserver names is not the one it checks
            message.too_long(MAX_METADATA_BYTES);
        }
        if code.int() < 0 {
            code.invalid(code.int(), names::inclusive_range_message(0, i64::from(i32::MAX)));
        }
    }
}
