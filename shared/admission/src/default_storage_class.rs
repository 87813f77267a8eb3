//! DefaultStorageClass: a claim that names no storage class gets the cluster's default one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Lookup};
use crate::pods;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// What matters of a storage class.
#[derive(Debug)]
pub struct StorageClass {
    name: String,
    created: String,
    default: bool,
    /// `allowVolumeExpansion`
    pub(crate) expands: bool,
}

impl Facts for StorageClass {
    fn of(object: &Value) -> StorageClass {
        StorageClass {
            name: meta::name(object).to_owned(),
            created: meta::text(object, "creationTimestamp").to_owned(),
            default: IS_DEFAULT
                .iter()
                .any(|key| meta::annotation(object, key) == Some("true")),
            expands: object.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true),
        }
    }
}

/// The plugin.
pub struct DefaultStorageClass {
    /// All storage classes.
    pub classes: Arc<dyn Lookup<StorageClass>>,
}

impl Plugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && is_claim(resource)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let done = match object.filter(|_| attributes.subresource.is_empty()) {
            Some(claim) => self.complete(attributes, claim),
            None => Ok(()),
        };
        Box::pin(std::future::ready(done))
    }
}

impl DefaultStorageClass {
    fn complete(&self, attributes: &Attributes<'_>, claim: &mut Value) -> StatusResult<()> {
        if class_of(claim).is_some() {
            return Ok(());
        }
        let classes = match self.classes.all("") {
            Ok(classes) => classes,
            Err(status) => return Err(forbidden(attributes, Some(claim), &status.message)),
        };
        let defaults = classes.iter().filter(|class| class.default);
        let newest = defaults.min_by_key(|class| (std::cmp::Reverse(&class.created), &class.name));
        if let Some(class) = newest {
            claim.set_at(&["spec", "storageClassName"], class.name.as_str().into());
        }
        Ok(())
    }
}

pub(crate) fn is_claim(resource: &Gvr) -> bool {
    pods::is(resource, "", "persistentvolumeclaims")
}

/// The class that a claim names, the old way or the new; it may name the empty one.
pub(crate) fn class_of(claim: &Value) -> Option<&str> {
    let old = meta::annotation(claim, CLASS_ANNOTATION);
    old.or_else(|| claim.at(&["spec", "storageClassName"]).and_then(Value::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;

    fn class(name: &str, created: &str, default: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"{name}","creationTimestamp":"{created}","annotations":{{"storageclass.kubernetes.io/is-default-class":"{default}"}}}}}}"#
        )
    }

    #[tokio::test]
    async fn the_newest_default_class_is_given_to_claims_that_name_none() {
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-02T00:00:00Z", "true"),
            class("new", "2026-01-03T00:00:00Z", "false"),
        ];
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        let plugin = DefaultStorageClass {
            classes: Fixed::of(&classes),
        };
        for (claim, class) in [
            (r#"{"spec":{}}"#, Some("a")),
            (r#"{"spec":{"storageClassName":""}}"#, Some("")),
            (
                r#"{"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"x"}},"spec":{}}"#,
                None,
            ),
        ] {
            let (claim, _) = Write::create("persistentvolumeclaims", claim)
                .admit(&plugin)
                .await
                .unwrap();
            let given = claim.at(&["spec", "storageClassName"]).and_then(Value::as_str);
            assert_eq!(given, class);
        }
    }
}
