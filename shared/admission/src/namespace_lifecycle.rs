//! NamespaceLifecycle: objects are created only in namespaces that exist and are not being deleted, and the namespaces
//! that every cluster needs cannot be deleted.

use futures_util::future::BoxFuture;
use triptych_object::{Cause, GroupResource, Gvr, Status, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};

/// Cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What is known of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    /// There is none of that name.
    Absent,
    /// Objects may be created in it.
    Active,
    /// It is being deleted.
    Terminating,
}

/// Knows all namespaces, current enough that nothing is created after a namespace's last sweep (DESIGN §6).
pub trait Namespaces: Send + Sync + 'static {
    /// The state of one; an error if it cannot be told.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StatusResult<Namespace>>;
}

/// The plugin.
pub struct NamespaceLifecycle<N>(pub N);

impl<N: Namespaces> Plugin for NamespaceLifecycle<N> {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        let namespaces = resource.group.is_empty() && resource.resource == "namespaces";
        match operation {
            Operation::Delete => namespaces,
            Operation::Create | Operation::Update => !namespaces && !is_review(resource),
            Operation::Connect => false,
        }
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let object = object.as_deref();
            if attributes.operation == Operation::Delete {
                if attributes.subresource.is_empty() && IMMORTAL.contains(&attributes.name) {
                    return Err(forbidden(attributes, object, "this namespace may not be deleted"));
                }
                return Ok(());
            }
            if attributes.namespace.is_empty() {
                return Ok(());
            }
            let namespace = attributes.namespace;
            match self.0.find(namespace).await? {
                Namespace::Absent => Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace)),
                Namespace::Terminating if attributes.operation == Operation::Create => {
                    Err(terminating(attributes, object, namespace))
                }
                Namespace::Active | Namespace::Terminating => Ok(()),
            }
        })
    }
}

fn is_review(resource: &Gvr) -> bool {
    resource.group == "authorization.k8s.io" && resource.resource == "localsubjectaccessreviews"
}

fn terminating(attributes: &Attributes<'_>, object: Option<&Value>, namespace: &str) -> Box<Status> {
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let status = forbidden(attributes, object, why);
    let cause = Cause {
        reason: "NamespaceTerminating".into(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".into(),
    };
    let details = status.details.clone().map(|mut details| {
        details.causes.push(cause);
        details
    });
    status.with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    struct Fixed;

    impl Namespaces for Fixed {
        fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StatusResult<Namespace>> {
            let found = match name {
                "active" => Namespace::Active,
                "ending" => Namespace::Terminating,
                _ => Namespace::Absent,
            };
            Box::pin(std::future::ready(Ok(found)))
        }
    }

    fn named(namespace: &str) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"{namespace}"}}}}"#)
    }

    #[tokio::test]
    async fn objects_are_created_only_in_namespaces_that_stay() {
        let plugin = NamespaceLifecycle(Fixed);
        let ending =
            "pods \"a\" is forbidden: unable to create new content in namespace ending because it is being terminated";
        let absent = "namespaces \"none\" not found";
        for (namespace, create, update) in [
            ("active", "", ""),
            ("ending", ending, ""),
            ("none", absent, absent),
            ("", "", ""),
        ] {
            let object = named(namespace);
            assert_eq!(Write::create("pods", &object).refusal(&plugin).await, create);
            assert_eq!(Write::update("pods", &object, &object).refusal(&plugin).await, update);
            assert_eq!(Write::delete("pods", &object).refusal(&plugin).await, "");
        }
        let review = "authorization.k8s.io/localsubjectaccessreviews";
        assert_eq!(Write::create(review, &named("none")).refusal(&plugin).await, "");
    }

    #[tokio::test]
    async fn the_refusal_says_why_in_a_way_that_controllers_read() {
        let plugin = NamespaceLifecycle(Fixed);
        let status = Write::create("pods", &named("ending")).admit(&plugin).await.err();
        let causes = status
            .and_then(|s| s.details.clone())
            .map(|d| d.causes)
            .unwrap_or_default();
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].reason, "NamespaceTerminating");
        assert_eq!(causes[0].field, "metadata.namespace");
    }

    #[tokio::test]
    async fn the_clusters_own_namespaces_are_not_deleted() {
        let plugin = NamespaceLifecycle(Fixed);
        for (name, refusal) in [
            (
                "kube-system",
                "namespaces \"kube-system\" is forbidden: this namespace may not be deleted",
            ),
            ("mine", ""),
        ] {
            let object = format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            assert_eq!(Write::delete("namespaces", &object).refusal(&plugin).await, refusal);
        }
    }
}
