//! RuntimeClass: a pod pays the overhead of its runtime class and goes where the class runs.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Quantity, StatusResult, Value, field};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Find};
use crate::pods;

/// What matters of a runtime class.
#[derive(Debug)]
pub struct Class {
    /// `overhead.podFixed`, if there is an overhead.
    overhead: Option<Value>,
    scheduling: Option<Value>,
}

impl Facts for Class {
    fn of(object: &Value) -> Class {
        let overhead = object.get("overhead");
        Class {
            overhead: overhead.map(|o| o.get("podFixed").cloned().unwrap_or_else(Value::object)),
            scheduling: object.get("scheduling").cloned(),
        }
    }
}

/// The plugin.
pub struct RuntimeClass {
    /// All runtime classes.
    pub classes: Arc<dyn Find<Class>>,
}

impl Plugin for RuntimeClass {
    fn name(&self) -> &'static str {
        "RuntimeClass"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && pods::is(resource, "", "pods")
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(pod) = object.filter(|_| pods::is_pod(attributes)) else {
                return Ok(());
            };
            if let Some(class) = self.class(attributes, pod).await? {
                set_overhead(attributes, pod, &class)?;
                set_scheduling(attributes, pod, &class)?;
            }
            Ok(())
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(pod) = object.filter(|_| pods::is_pod(attributes)) else {
                return Ok(());
            };
            let class = self.class(attributes, pod).await?;
            let own = pod.at(&["spec", "overhead"]);
            match class.as_deref().and_then(|class| class.overhead.as_ref()) {
                Some(overhead) if !same_quantities(Some(overhead), own) => Err(mismatch(attributes, pod)),
                None if own.is_some() => {
                    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
                    Err(forbidden(attributes, object, why))
                }
                _ => Ok(()),
            }
        })
    }
}

impl RuntimeClass {
    async fn class(&self, attributes: &Attributes<'_>, pod: &Value) -> StatusResult<Option<Arc<Class>>> {
        let Some(name) = pod.at(&["spec", "runtimeClassName"]).and_then(Value::as_str) else {
            return Ok(None);
        };
        match self.classes.get("", name).await? {
            Some(class) => Ok(Some(class)),
            None => {
                let why = format!("pod rejected: RuntimeClass {} not found", field::quote(name));
                Err(forbidden(attributes, Some(pod), why))
            }
        }
    }
}

fn mismatch(attributes: &Attributes<'_>, pod: &Value) -> Box<triptych_object::Status> {
    let why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    forbidden(attributes, Some(pod), why)
}

fn is_empty(map: &Value) -> bool {
    map.as_object().is_none_or(|map| map.is_empty())
}

fn set_overhead(attributes: &Attributes<'_>, pod: &mut Value, class: &Class) -> StatusResult<()> {
    let Some(overhead) = &class.overhead else {
        return Ok(());
    };
    let own = pod.at(&["spec", "overhead"]);
    if own.is_some_and(|own| !is_empty(own)) && !same_quantities(Some(overhead), own) {
        return Err(mismatch(attributes, pod));
    }
    if !is_empty(overhead) {
        pod.set_at(&["spec", "overhead"], overhead.clone());
    }
    Ok(())
}

/// Whether two maps hold the same amounts, however written.
fn same_quantities(a: Option<&Value>, b: Option<&Value>) -> bool {
    let amounts = |map: Option<&Value>| {
        let entries = map.and_then(Value::as_object).into_iter().flat_map(|map| map.iter());
        let mut amounts: Vec<(String, Option<Quantity>)> = entries
            .map(|(name, amount)| (name.to_owned(), amount.as_str().and_then(|text| text.parse().ok())))
            .collect();
        amounts.sort_by(|(a, _), (b, _)| a.cmp(b));
        amounts
    };
    amounts(a) == amounts(b)
}

fn set_scheduling(attributes: &Attributes<'_>, pod: &mut Value, class: &Class) -> StatusResult<()> {
    let Some(scheduling) = &class.scheduling else {
        return Ok(());
    };
    let selector = scheduling.get("nodeSelector").and_then(Value::as_object);
    for (key, wanted) in selector.into_iter().flat_map(|s| s.iter()) {
        let path = ["spec", "nodeSelector", key];
        if let Some(own) = pod.at(&path).filter(|own| *own != wanted) {
            let (own, wanted) = (own.as_str().unwrap_or_default(), wanted.as_str().unwrap_or_default());
            let why = format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            );
            return Err(forbidden(attributes, Some(pod), why));
        }
        pod.set_at(&path, wanted.clone());
    }
    let own = pod.array_at(&["spec", "tolerations"]);
    let merged = merge_tolerations(own.iter().chain(scheduling.array_at(&["tolerations"])).collect());
    if !merged.is_empty() {
        pod.set_at(&["spec", "tolerations"], merged.into());
    }
    Ok(())
}

/// Those that no other one of them includes; of equal ones the first.
fn merge_tolerations(all: Vec<&Value>) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (i, toleration) in all.iter().enumerate() {
        let included = merged.iter().any(|m| includes(m, toleration))
            || all[i + 1..]
                .iter()
                .any(|later| later != toleration && includes(later, toleration));
        if !included {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether `wide` tolerates all that `narrow` does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let (key, operator, effect) = (
        wide.str_at(&["key"]),
        wide.str_at(&["operator"]),
        wide.str_at(&["effect"]),
    );
    if narrow.str_at(&["key"]) != key && (!key.is_empty() || operator != "Exists") {
        return false;
    }
    if narrow.str_at(&["effect"]) != effect && !effect.is_empty() {
        return false;
    }
    let seconds = |t: &Value| t.get("tolerationSeconds").and_then(Value::as_i64);
    if effect == "NoExecute"
        && let Some(limit) = seconds(wide)
        && seconds(narrow).is_none_or(|wanted| wanted > limit)
    {
        return false;
    }
    match operator {
        "Equal" | "" => narrow.str_at(&["operator"]) == "Equal" && narrow.str_at(&["value"]) == wide.str_at(&["value"]),
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::{Write, tree};
    use triptych_object::json;

    fn plugin() -> RuntimeClass {
        RuntimeClass {
            classes: Fixed::of(&[
                r#"{"metadata":{"name":"plain"}}"#,
                r#"{"metadata":{"name":"heavy"},"overhead":{"podFixed":{"cpu":"100m"}}}"#,
                r#"{"metadata":{"name":"placed"},"scheduling":{"nodeSelector":{"a":"b"},"tolerations":[{"key":"k","operator":"Exists"}]}}"#,
            ]),
        }
    }

    fn pod(spec: &str) -> Write {
        Write::create("pods", &format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#))
    }

    #[tokio::test]
    async fn a_pod_gets_what_its_class_says() {
        for (before, after) in [
            ("{}", "{}"),
            (r#"{"runtimeClassName":"plain"}"#, r#"{"runtimeClassName":"plain"}"#),
            (
                r#"{"runtimeClassName":"heavy"}"#,
                r#"{"runtimeClassName":"heavy","overhead":{"cpu":"100m"}}"#,
            ),
            (
                r#"{"runtimeClassName":"heavy","overhead":{"cpu":"0.1"}}"#,
                r#"{"runtimeClassName":"heavy","overhead":{"cpu":"100m"}}"#,
            ),
            (
                r#"{"runtimeClassName":"placed","nodeSelector":{"c":"d"},"tolerations":[{"key":"k","operator":"Equal","value":"v"}]}"#,
                r#"{"runtimeClassName":"placed","nodeSelector":{"c":"d","a":"b"},"tolerations":[{"key":"k","operator":"Exists"}]}"#,
            ),
        ] {
            let (pod, _) = pod(before).admit(&plugin()).await.unwrap();
            assert_eq!(json::to_string(pod.get("spec").unwrap()), after);
        }
    }

    #[tokio::test]
    async fn a_pod_that_contradicts_its_class_is_refused() {
        let differs = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
        let none = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        for (spec, why) in [
            (
                r#"{"runtimeClassName":"x"}"#,
                "pod rejected: RuntimeClass \"x\" not found",
            ),
            (r#"{"runtimeClassName":"heavy","overhead":{"cpu":"1"}}"#, differs),
            (r#"{"runtimeClassName":"plain","overhead":{"cpu":"1"}}"#, none),
            (r#"{"overhead":{"cpu":"1"}}"#, none),
            (
                r#"{"runtimeClassName":"placed","nodeSelector":{"a":"c"}}"#,
                "conflict: runtimeClass.scheduling.nodeSelector[a] = b; pod.spec.nodeSelector[a] = c",
            ),
        ] {
            let refusal = pod(spec).refusal(&plugin()).await;
            assert_eq!(refusal, format!("pods \"p\" is forbidden: {why}"));
        }
    }

    #[test]
    fn a_toleration_includes_narrower_ones() {
        for (wide, narrow, is) in [
            (
                r#"{"operator":"Exists"}"#,
                r#"{"key":"a","operator":"Equal","value":"b","effect":"NoSchedule"}"#,
                true,
            ),
            (
                r#"{"key":"a","operator":"Exists"}"#,
                r#"{"key":"b","operator":"Exists"}"#,
                false,
            ),
            (
                r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}"#,
                r#"{"key":"a","operator":"Exists","effect":"NoExecute"}"#,
                false,
            ),
            (
                r#"{"key":"a","operator":"Exists","effect":"NoExecute"}"#,
                r#"{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}"#,
                true,
            ),
            (
                r#"{"key":"a","operator":"Equal","value":"b"}"#,
                r#"{"key":"a","operator":"Exists"}"#,
                false,
            ),
        ] {
            assert_eq!(includes(&tree(wide), &tree(narrow)), is, "{wide} {narrow}");
        }
    }
}
