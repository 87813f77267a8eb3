//! The seam between the write path and admission: who may change or refuse an object on its way into the store.
//!
//! Contract: `mutate` runs before the strategy prepares the object, `validate` after validation and before the write.
//! Order within a chain is the chain's business. Reads are not admitted (connect requests are).

use std::time::Instant;

use futures_util::future::BoxFuture;
use triptych_object::{Gvk, Gvr, StatusResult, UserInfo, Value};

use crate::model::Model;

/// What a write does, in the words of `AdmissionRequest.operation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// A create (also create-on-update and subresources posted).
    Create,
    /// An update or patch.
    Update,
    /// A delete.
    Delete,
    /// A connect subresource (exec, proxy …).
    Connect,
}

impl Operation {
    /// As it is written in rules and reviews.
    pub fn text(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// What admission is told of a write.
#[derive(Clone)]
pub struct Attributes<'a> {
    /// Create, update, delete or connect.
    pub operation: Operation,
    /// Group, version, resource as requested.
    pub resource: &'a Gvr,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Kind of the object.
    pub kind: &'a Gvk,
    /// Empty for cluster-scoped resources.
    pub namespace: &'a str,
    /// Empty for a create with a generated name.
    pub name: &'a str,
    /// The effective user.
    pub user: &'a UserInfo,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The operation's options (CreateOptions, UpdateOptions, DeleteOptions) as sent.
    pub options: Option<&'a Value>,
    /// The kind's documents: how what a plugin changed is read again, and its other versions.
    pub model: &'a dyn Model,
    /// When the request has to be answered.
    pub deadline: Instant,
}

/// Collects `Warning` headers while a request is handled; bounded like kube-apiserver's (4 KiB of texts).
pub type Warnings = Vec<String>;

/// A chain of admission plugins.
pub trait Admission: Send + Sync + 'static {
    /// May change `object` (`None` for deletes); an error refuses the write.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>>;

    /// May refuse the write.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>>;

    /// True if nothing is interested in this resource and operation, so that the write path need not prepare for it.
    fn ignores(&self, operation: Operation, resource: &Gvr) -> bool;
}
