//! ResourceQuota: what a namespace uses stays within the hard limits of all its quotas.
//!
//! - [`evaluator`]: which writes count, and for which names of a quota;
//! - [`usage`]: what an object counts for;
//! - [`quota`]: a quota, and whether a write fits;
//! - [`ledger`]: charging, with usage stored before the write goes on.
//!
//! Contract: last of all plugins, when nothing else can refuse the write any more.

mod classes;
mod evaluator;
mod ledger;
mod quota;
#[cfg(test)]
mod tests;
mod usage;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::{Gvr, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use self::classes::Classes;
pub use self::classes::DeviceClass;
use self::evaluator::Evaluator;
pub use self::ledger::{Ledger, StatusWriter};
use self::quota::Charge;
use crate::chain::{Plugin, shown_name};
use crate::lookup::Lookup;

/// The plugin.
pub struct ResourceQuota {
    /// The quotas.
    pub ledger: Arc<Ledger>,
    /// Device classes; none where no ResourceClaims are served.
    pub classes: Option<Arc<dyn Lookup<DeviceClass>>>,
    /// The clock.
    pub now: fn() -> Timestamp,
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && !evaluator::is_ignored(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(charge) = self.charge(attributes, object, old)? else {
                return Ok(());
            };
            self.ledger.charge(attributes.namespace, charge).await
        })
    }
}

impl ResourceQuota {
    /// What is to be charged, if anything.
    fn charge(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> StatusResult<Option<Charge>> {
        let resource = attributes.resource;
        let namespaces = resource.group.is_empty() && resource.resource == "namespaces";
        let Some(object) = object.filter(|_| !attributes.namespace.is_empty() && !namespaces) else {
            return Ok(None);
        };
        let evaluator = Evaluator::of(resource);
        if !evaluator.handles(attributes, object, old) || self.ledger.quotas(attributes.namespace)?.is_empty() {
            return Ok(None);
        }
        let classes = match evaluator {
            Evaluator::ResourceClaims => Arc::new(Classes::of(self.classes.as_ref())),
            _ => Arc::default(),
        };
        let measure = |object: &Value| usage::measure(evaluator, resource, object, &classes, (self.now)());
        Ok(Some(Charge {
            evaluator,
            resource: resource.clone(),
            name: shown_name(attributes, Some(object)).to_owned(),
            unlimited: attributes.subresource == "status",
            dry_run: attributes.dry_run,
            new: measure(object),
            old: old.filter(|_| attributes.operation == Operation::Update).map(measure),
            classes: classes.clone(),
        }))
    }
}
