//! DefaultIngressClass: an ingress that names no class gets the cluster's default one.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Lookup};
use crate::pods;

/// What matters of an ingress class.
#[derive(Debug)]
pub struct IngressClass {
    name: String,
    created: String,
    default: bool,
}

impl Facts for IngressClass {
    fn of(object: &Value) -> IngressClass {
        let default = meta::annotation(object, "ingressclass.kubernetes.io/is-default-class");
        IngressClass {
            name: meta::name(object).to_owned(),
            created: meta::text(object, "creationTimestamp").to_owned(),
            default: default == Some("true"),
        }
    }
}

/// The plugin.
pub struct DefaultIngressClass {
    /// All ingress classes.
    pub classes: Arc<dyn Lookup<IngressClass>>,
}

impl Plugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && pods::is(resource, "networking.k8s.io", "ingresses")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let done = match object.filter(|_| attributes.subresource.is_empty()) {
            Some(ingress) => self.complete(attributes, ingress),
            None => Ok(()),
        };
        Box::pin(std::future::ready(done))
    }
}

impl DefaultIngressClass {
    fn complete(&self, attributes: &Attributes<'_>, ingress: &mut Value) -> StatusResult<()> {
        let named = ingress.at(&["spec", "ingressClassName"]).is_some();
        if named || meta::annotation(ingress, "kubernetes.io/ingress.class").is_some() {
            return Ok(());
        }
        let classes = match self.classes.all("") {
            Ok(classes) => classes,
            Err(status) => return Err(forbidden(attributes, Some(ingress), &status.message)),
        };
        let defaults = classes.iter().filter(|class| class.default);
        let newest = defaults.min_by_key(|class| (std::cmp::Reverse(&class.created), &class.name));
        if let Some(class) = newest {
            ingress.set_at(&["spec", "ingressClassName"], class.name.as_str().into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;

    #[tokio::test]
    async fn an_ingress_without_class_gets_the_default_one() {
        let plugin = DefaultIngressClass {
            classes: Fixed::of(&[
                r#"{"metadata":{"name":"a"}}"#,
                r#"{"metadata":{"name":"b","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}}}"#,
            ]),
        };
        for (ingress, class) in [
            (r#"{"spec":{}}"#, Some("b")),
            (r#"{"spec":{"ingressClassName":"c"}}"#, Some("c")),
            (
                r#"{"metadata":{"annotations":{"kubernetes.io/ingress.class":"x"}},"spec":{}}"#,
                None,
            ),
        ] {
            let write = Write::create("networking.k8s.io/ingresses", ingress);
            let (ingress, _) = write.admit(&plugin).await.unwrap();
            let given = ingress.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
            assert_eq!(given, class);
        }
    }
}
