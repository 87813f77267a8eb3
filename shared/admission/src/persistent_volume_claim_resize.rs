//! PersistentVolumeClaimResize: only bound claims of a class that allows it can grow.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Quantity, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::default_storage_class::{StorageClass, class_of, is_claim};
use crate::lookup::Find;

/// The plugin.
pub struct PersistentVolumeClaimResize {
    /// All storage classes.
    pub classes: Arc<dyn Find<StorageClass>>,
}

impl Plugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Update && is_claim(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(claim), Some(old), "") = (object, old, attributes.subresource) else {
                return Ok(());
            };
            if size(claim) <= size(old) {
                return Ok(());
            }
            if old.str_at(&["status", "phase"]) != "Bound" {
                let why = "Only bound persistent volume claims can be expanded";
                return Err(forbidden(attributes, object, why));
            }
            if !self.may_grow(claim, old).await {
                let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
                return Err(forbidden(attributes, object, why));
            }
            Ok(())
        })
    }
}

impl PersistentVolumeClaimResize {
    async fn may_grow(&self, claim: &Value, old: &Value) -> bool {
        match class_of(claim).filter(|class| !class.is_empty()) {
            Some(class) if class_of(old) == Some(class) => {
                let class = self.classes.get("", class).await;
                matches!(class, Ok(Some(class)) if class.expands)
            }
            _ => false,
        }
    }
}

fn size(claim: &Value) -> Quantity {
    let text = claim.str_at(&["spec", "resources", "requests", "storage"]);
    text.parse().unwrap_or_else(|_| Quantity::zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;

    fn claim(class: &str, size: &str, phase: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"c"}},"spec":{{"storageClassName":"{class}","resources":{{"requests":{{"storage":"{size}"}}}}}},"status":{{"phase":"{phase}"}}}}"#
        )
    }

    #[tokio::test]
    async fn a_claim_grows_only_where_its_class_allows_it() {
        let plugin = PersistentVolumeClaimResize {
            classes: Fixed::of(&[
                r#"{"metadata":{"name":"grows"},"allowVolumeExpansion":true}"#,
                r#"{"metadata":{"name":"fixed"}}"#,
            ]),
        };
        let unbound = "persistentvolumeclaims \"c\" is forbidden: Only bound persistent volume claims can be expanded";
        let fixed = "persistentvolumeclaims \"c\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        for (class, size, phase, refusal) in [
            ("grows", "2Gi", "Bound", ""),
            ("fixed", "1024Mi", "Bound", ""),
            ("fixed", "2Gi", "Bound", fixed),
            ("none", "2Gi", "Bound", fixed),
            ("", "2Gi", "Bound", fixed),
            ("grows", "2Gi", "Pending", unbound),
        ] {
            let (new, old) = (claim(class, size, phase), claim(class, "1Gi", phase));
            let write = Write::update("persistentvolumeclaims", &new, &old);
            assert_eq!(write.refusal(&plugin).await, refusal, "{class} {size} {phase}");
            let status = Write::update("persistentvolumeclaims", &new, &old).subresource("status");
            assert_eq!(status.refusal(&plugin).await, "");
        }
    }
}
