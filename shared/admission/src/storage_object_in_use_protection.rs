//! StorageObjectInUseProtection: claims, volumes and volume attributes classes stay until nobody uses them.

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::Plugin;

/// The plugin.
pub struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && finalizer(resource).is_some()
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let object = object.filter(|_| attributes.subresource.is_empty());
        if let (Some(object), Some(finalizer)) = (object, finalizer(attributes.resource))
            && !meta::finalizers(object).any(|f| f == finalizer)
        {
            let mut all: Vec<String> = meta::finalizers(object).map(str::to_owned).collect();
            all.push(finalizer.to_owned());
            meta::set_finalizers(object, all);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

fn finalizer(resource: &Gvr) -> Option<&'static str> {
    match (resource.group.as_str(), resource.resource.as_str()) {
        ("", "persistentvolumes") => Some("kubernetes.io/pv-protection"),
        ("", "persistentvolumeclaims") => Some("kubernetes.io/pvc-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn what_may_be_in_use_gets_its_finalizer_once() {
        for (resource, before, after) in [
            ("persistentvolumes", vec![], vec!["kubernetes.io/pv-protection"]),
            (
                "persistentvolumeclaims",
                vec!["a/b"],
                vec!["a/b", "kubernetes.io/pvc-protection"],
            ),
            (
                "storage.k8s.io/volumeattributesclasses",
                vec!["kubernetes.io/vac-protection"],
                vec!["kubernetes.io/vac-protection"],
            ),
        ] {
            let object = format!(r#"{{"metadata":{{"finalizers":{before:?}}}}}"#);
            let write = Write::create(resource, &object);
            let (object, _) = write.admit(&StorageObjectInUseProtection).await.unwrap();
            assert_eq!(meta::finalizers(&object).collect::<Vec<_>>(), after);
        }
    }
}
