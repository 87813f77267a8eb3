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
