//! The plugins in order.
//!
//! Contract: all plugins mutate in order, later all validate in order; the first refusal ends it. A plugin says once which
//! operations and resources concern it, so that a write nobody cares for prepares nothing.

use futures_util::future::BoxFuture;
use triptych_object::{GroupResource, Gvr, Status, StatusResult, Value, meta};
use triptych_registry::Admission;
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::rounds::Rounds;

/// One admission plugin.
pub trait Plugin: Send + Sync + 'static {
    /// Its name in flags and texts.
    fn name(&self) -> &'static str;

    /// False if it never looks at such a write.
    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool;

    /// May change the object.
    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The same, for plugins that take part in the second round in their own way.
    fn mutate_in_round<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
        _rounds: &'a mut Rounds,
    ) -> BoxFuture<'a, StatusResult<()>> {
        self.mutate(attributes, object, old, warnings)
    }

    /// May refuse the write.
    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Plugins in kube-apiserver's order.
#[derive(Default)]
pub struct Chain {
    plugins: Vec<Box<dyn Plugin>>,
}

impl Chain {
    /// Of these, in this order.
    pub fn new(plugins: Vec<Box<dyn Plugin>>) -> Chain {
        Chain { plugins }
    }

    fn concerned(&self, operation: Operation, resource: &Gvr) -> impl Iterator<Item = &dyn Plugin> {
        self.plugins
            .iter()
            .map(|p| &**p)
            .filter(move |p| p.concerns(operation, resource))
    }
}

impl Admission for Chain {
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        mut object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let mut rounds = Rounds::default();
            loop {
                for plugin in self.concerned(attributes.operation, attributes.resource) {
                    plugin
                        .mutate_in_round(attributes, object.as_deref_mut(), old, warnings, &mut rounds)
                        .await?;
                }
                if !rounds.next() {
                    return Ok(());
                }
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            for plugin in self.concerned(attributes.operation, attributes.resource) {
                plugin.validate(attributes, object, old, warnings).await?;
            }
            Ok(())
        })
    }

    fn ignores(&self, operation: Operation, resource: &Gvr) -> bool {
        self.concerned(operation, resource).next().is_none()
    }
}

/// The name by which a refusal calls the object: its own, or what its name begins with.
pub fn shown_name<'a>(attributes: &Attributes<'a>, object: Option<&'a Value>) -> &'a str {
    let of_object = |object: &'a Value| [meta::name(object), meta::text(object, "generateName")];
    let known = [attributes.name]
        .into_iter()
        .chain(object.into_iter().flat_map(of_object));
    known.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
}

/// A plugin's refusal (`admission.NewForbidden`): 403 about the object.
pub fn forbidden(attributes: &Attributes<'_>, object: Option<&Value>, why: impl std::fmt::Display) -> Box<Status> {
    let resource = GroupResource::new(
        attributes.resource.group.as_str(),
        attributes.resource.resource.as_str(),
    );
    Status::forbidden(&resource, shown_name(attributes, object), why)
}
