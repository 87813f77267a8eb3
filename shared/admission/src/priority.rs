//! Priority: a pod's priority is what its priority class says, and only one class is everybody's default.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Status, StatusResult, Value, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Lookup};
use crate::pods;

/// What matters of a priority class.
#[derive(Debug)]
pub struct PriorityClass {
    name: String,
    value: i64,
    global_default: bool,
    preemption_policy: Option<String>,
}

impl Facts for PriorityClass {
    fn of(object: &Value) -> PriorityClass {
        PriorityClass {
            name: meta::name(object).to_owned(),
            value: object.get("value").and_then(Value::as_i64).unwrap_or(0),
            global_default: object.get("globalDefault").and_then(Value::as_bool).unwrap_or(false),
            preemption_policy: object
                .get("preemptionPolicy")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }
}

/// The plugin.
pub struct Priority {
    /// All priority classes.
    pub classes: Arc<dyn Lookup<PriorityClass>>,
}

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && (pods::is(resource, "", "pods") || is_class(resource))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(pod) = object.filter(|_| pods::is_pod(attributes)) else {
                return Ok(());
            };
            if attributes.operation == Operation::Create {
                self.establish(attributes, pod).await
            } else {
                for member in ["priority", "preemptionPolicy"] {
                    let path = ["spec", member];
                    if let (None, Some(kept)) = (pod.at(&path), old.and_then(|old| old.at(&path))) {
                        pod.set_at(&path, kept.clone());
                    }
                }
                Ok(())
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(std::future::ready(self.only_default(attributes, object)))
    }
}

fn is_class(resource: &Gvr) -> bool {
    pods::is(resource, "scheduling.k8s.io", "priorityclasses")
}

impl Priority {
    async fn establish(&self, attributes: &Attributes<'_>, pod: &mut Value) -> StatusResult<()> {
        let named = pod.str_at(&["spec", "priorityClassName"]);
        let class = if named.is_empty() {
            self.default_class().map_err(|status| {
                let why = format!(
                    "error occurred while retrieving default priority class: {}",
                    status.message
                );
                Status::unknown(why)
            })?
        } else {
            let found = self.classes.get("", named).await?;
            let missing = || {
                let why = format!("no PriorityClass with name {named} was found");
                forbidden(attributes, Some(pod), why)
            };
            Some(found.ok_or_else(missing)?)
        };
        let (name, value, policy) = match class.as_deref() {
            Some(class) => (class.name.as_str(), class.value, class.preemption_policy.as_deref()),
            None => ("", 0, Some("PreemptLowerPriority")),
        };
        if let Some(own) = pod
            .at(&["spec", "priority"])
            .and_then(Value::as_i64)
            .filter(|own| *own != value)
        {
            let why = format!(
                "the integer value of priority ({own}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
            );
            return Err(forbidden(attributes, Some(pod), why));
        }
        if let (Some(policy), Some(own)) = (policy, pod.at(&["spec", "preemptionPolicy"]).and_then(Value::as_str))
            && own != policy
        {
            let why = format!(
                "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
            );
            return Err(forbidden(attributes, Some(pod), why));
        }
        if !name.is_empty() {
            pod.set_at(&["spec", "priorityClassName"], name.into());
        }
        pod.set_at(&["spec", "priority"], value.into());
        if let Some(policy) = policy {
            pod.set_at(&["spec", "preemptionPolicy"], policy.into());
        }
        Ok(())
    }

    /// The class of pods that name none; of several (two were made at once) the one of least priority.
    fn default_class(&self) -> StatusResult<Option<Arc<PriorityClass>>> {
        let classes = self.classes.all("")?;
        Ok(classes.into_iter().filter(|c| c.global_default).min_by_key(|c| c.value))
    }

    fn only_default(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> StatusResult<()> {
        let Some(class) = object.filter(|_| is_class(attributes.resource) && attributes.subresource.is_empty()) else {
            return Ok(());
        };
        if class.get("globalDefault").and_then(Value::as_bool) != Some(true) {
            return Ok(());
        }
        match self.default_class()? {
            Some(default) if attributes.operation == Operation::Create || default.name != meta::name(class) => {
                let name = &default.name;
                let why = format!("PriorityClass {name} is already marked as default. Only one default can exist");
                Err(forbidden(attributes, object, why))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;
    use triptych_object::json;

    const HIGH: &str = r#"{"metadata":{"name":"high"},"value":1000,"preemptionPolicy":"Never"}"#;
    const DEFAULT: &str =
        r#"{"metadata":{"name":"usual"},"value":5,"globalDefault":true,"preemptionPolicy":"PreemptLowerPriority"}"#;

    fn plugin(classes: &[&str]) -> Priority {
        Priority {
            classes: Fixed::of(classes),
        }
    }

    fn pod(spec: &str) -> Write {
        Write::create("pods", &format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#))
    }

    #[tokio::test]
    async fn a_pod_gets_the_priority_of_its_class_or_of_the_default() {
        for (classes, spec, after) in [
            (
                vec![HIGH],
                "{}",
                r#"{"priority":0,"preemptionPolicy":"PreemptLowerPriority"}"#,
            ),
            (
                vec![HIGH, DEFAULT],
                "{}",
                r#"{"priorityClassName":"usual","priority":5,"preemptionPolicy":"PreemptLowerPriority"}"#,
            ),
            (
                vec![HIGH, DEFAULT],
                r#"{"priorityClassName":"high"}"#,
                r#"{"priorityClassName":"high","priority":1000,"preemptionPolicy":"Never"}"#,
            ),
            (
                vec![HIGH],
                r#"{"priorityClassName":"high","priority":1000}"#,
                r#"{"priorityClassName":"high","priority":1000,"preemptionPolicy":"Never"}"#,
            ),
        ] {
            let (pod, _) = pod(spec).admit(&plugin(&classes)).await.unwrap();
            assert_eq!(json::to_string(pod.get("spec").unwrap()), after);
        }
    }

    #[tokio::test]
    async fn what_a_pod_says_itself_must_be_what_its_class_says() {
        let plugin = plugin(&[HIGH]);
        for (spec, why) in [
            (
                r#"{"priorityClassName":"none"}"#,
                "no PriorityClass with name none was found",
            ),
            (
                r#"{"priority":7}"#,
                "the integer value of priority (7) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name",
            ),
            (
                r#"{"priorityClassName":"high","preemptionPolicy":"PreemptLowerPriority"}"#,
                "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
            ),
        ] {
            let refusal = pod(spec).refusal(&plugin).await;
            assert_eq!(refusal, format!("pods \"p\" is forbidden: {why}"));
        }
    }

    #[tokio::test]
    async fn an_update_that_leaves_the_priority_out_keeps_it() {
        let write = Write::update(
            "pods",
            r#"{"spec":{}}"#,
            r#"{"spec":{"priority":3,"preemptionPolicy":"Never"}}"#,
        );
        let (pod, _) = write.admit(&plugin(&[])).await.unwrap();
        assert_eq!(
            json::to_string(&pod),
            r#"{"spec":{"priority":3,"preemptionPolicy":"Never"}}"#
        );
    }

    #[tokio::test]
    async fn only_one_class_is_the_default() {
        let plugin = plugin(&[DEFAULT]);
        let resource = "scheduling.k8s.io/priorityclasses";
        let second = r#"{"metadata":{"name":"b"},"globalDefault":true}"#;
        let refusal = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass usual is already marked as default. Only one default can exist";
        assert_eq!(Write::create(resource, second).refusal(&plugin).await, refusal);
        assert_eq!(Write::update(resource, second, second).refusal(&plugin).await, refusal);
        assert_eq!(Write::update(resource, DEFAULT, DEFAULT).refusal(&plugin).await, "");
    }
}
