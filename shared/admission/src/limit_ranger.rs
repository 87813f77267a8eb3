//! LimitRanger: pods and claims keep within the limits of their namespace, and containers that say nothing get its
//! defaults.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use triptych_object::{Gvr, Quantity, StatusResult, Value, field, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::amounts::{self, Amounts};
use crate::chain::{Plugin, forbidden};
use crate::lookup::{Facts, Lookup};
use crate::pods;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Up to this, thousandths can be compared without overflow.
const MAX_MILLI: i64 = i64::MAX / 1000;

/// What matters of a limit range.
#[derive(Debug)]
pub struct LimitRange {
    limits: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    /// `Container`, `Pod` or `PersistentVolumeClaim`.
    kind: String,
    min: Amounts,
    max: Amounts,
    ratio: Amounts,
    default: Amounts,
    default_request: Amounts,
}

impl Facts for LimitRange {
    fn of(object: &Value) -> LimitRange {
        let limit = |limit: &Value| {
            let list = |member: &str| amounts::amounts(limit.get(member));
            Limit {
                kind: limit.str_at(&["type"]).to_owned(),
                min: list("min"),
                max: list("max"),
                ratio: list("maxLimitRequestRatio"),
                default: list("default"),
                default_request: list("defaultRequest"),
            }
        };
        LimitRange {
            limits: object.array_at(&["spec", "limits"]).iter().map(limit).collect(),
        }
    }
}

/// The plugin.
pub struct LimitRanger {
    /// All limit ranges.
    pub ranges: Arc<dyn Lookup<LimitRange>>,
}

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && (pods::is(resource, "", "pods") || pods::is(resource, "", "persistentvolumeclaims"))
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let done = match object.filter(|_| is_pod(attributes.resource)) {
            Some(pod) => self.ranges(attributes, old).map(|ranges| {
                for range in ranges {
                    complete(pod, &range);
                }
            }),
            None => Ok(()),
        };
        Box::pin(std::future::ready(done))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let check = |object: &Value| {
            for range in self.ranges(attributes, old)? {
                let problems = if is_pod(attributes.resource) {
                    of_pod(object, &range)
                } else {
                    of_claim(object, &range)
                };
                if !problems.is_empty() {
                    let why = field::aggregate(problems);
                    return Err(forbidden(attributes, Some(object), why));
                }
            }
            Ok(())
        };
        Box::pin(std::future::ready(object.map_or(Ok(()), check)))
    }
}

fn is_pod(resource: &Gvr) -> bool {
    pods::is(resource, "", "pods")
}

impl LimitRanger {
    /// The limits that count for a write.
    fn ranges(&self, attributes: &Attributes<'_>, old: Option<&Value>) -> StatusResult<Vec<Arc<LimitRange>>> {
        let supported = match (attributes.operation, attributes.subresource) {
            (Operation::Update, "resize") => true,
            // what a pod asks for does not change otherwise
            (Operation::Update, "") => !is_pod(attributes.resource),
            (Operation::Create, "") => true,
            _ => false,
        };
        let leaving = old.is_some_and(|old| meta::deletion_timestamp(old).is_some());
        if supported && !leaving {
            self.ranges.all(attributes.namespace)
        } else {
            Ok(Vec::new())
        }
    }
}

/// Gives a pod's containers what the range has for those that say nothing.
fn complete(pod: &mut Value, range: &LimitRange) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for limit in range.limits.iter().filter(|limit| limit.kind == "Container") {
        requests.extend(limit.default_request.clone());
        limits.extend(limit.default.clone());
    }
    let mut given = Vec::new();
    for (list, kind) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container.str_at(&["name"]).to_owned();
            for (member, noun, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)] {
                let mut names = Vec::new();
                for (resource, amount) in defaults {
                    let path = ["resources", member, resource];
                    if container.at(&path).is_none() {
                        container.set_at(&path, amount.to_string().into());
                        names.push(resource.as_str());
                    }
                }
                if !names.is_empty() {
                    given.push(format!("{} {noun} for {kind} {name}", names.join(", ")));
                }
            }
        }
    }
    if !given.is_empty() {
        let text = format!("LimitRanger plugin set: {}", given.join("; "));
        meta::set_annotation(pod, ANNOTATION, &text);
    }
}

fn of_pod(pod: &Value, range: &LimitRange) -> Vec<String> {
    let Some(spec) = pod.get("spec") else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for limit in &range.limits {
        match limit.kind.as_str() {
            "Container" => {
                for container in ["containers", "initContainers"]
                    .iter()
                    .flat_map(|list| spec.array_at(&[list]))
                {
                    let asked = Asked {
                        requests: amounts::of_container(container, "requests"),
                        limits: amounts::of_container(container, "limits"),
                    };
                    asked.check(limit, &mut problems);
                }
            }
            "Pod" => {
                let whole = |name: &str| matches!(name, "cpu" | "memory");
                let asked = Asked {
                    requests: amounts::of_pod(spec, "requests", whole),
                    limits: amounts::of_pod(spec, "limits", whole),
                };
                asked.check(limit, &mut problems);
            }
            _ => {}
        }
    }
    problems
}

fn of_claim(claim: &Value, range: &LimitRange) -> Vec<String> {
    let asked = Asked {
        requests: amounts::amounts(claim.at(&["spec", "resources", "requests"])),
        limits: BTreeMap::new(),
    };
    let mut problems = Vec::new();
    for limit in range
        .limits
        .iter()
        .filter(|limit| limit.kind == "PersistentVolumeClaim")
    {
        let kind = &limit.kind;
        problems.extend(limit.min.iter().filter_map(|(name, min)| asked.below(kind, name, min)));
        problems.extend(
            limit
                .max
                .iter()
                .filter_map(|(name, max)| asked.request_above(kind, name, max)),
        );
    }
    problems
}

/// What something asks for.
struct Asked {
    requests: Amounts,
    limits: Amounts,
}

/// Amounts as whole numbers, as precise as they can be compared.
fn comparable<const N: usize>(amounts: [Option<&Quantity>; N]) -> [i64; N] {
    let whole = amounts.map(|amount| amount.map_or(0, Quantity::value));
    if whole.iter().all(|value| *value <= MAX_MILLI) {
        amounts.map(|amount| amount.map_or(0, Quantity::milli_value))
    } else {
        whole
    }
}

impl Asked {
    fn check(&self, limit: &Limit, problems: &mut Vec<String>) {
        let kind = &limit.kind;
        problems.extend(limit.min.iter().filter_map(|(name, min)| self.below(kind, name, min)));
        problems.extend(limit.max.iter().filter_map(|(name, max)| self.above(kind, name, max)));
        problems.extend(limit.ratio.iter().filter_map(|(name, max)| self.wider(kind, name, max)));
    }

    fn below(&self, kind: &str, name: &str, min: &Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let text = format!("minimum {name} usage per {kind} is {min}");
        let [asked, limited, enforced] = comparable([request, limit, Some(min)]);
        match (request, limit) {
            (None, _) => Some(format!("{text}.  No request is specified")),
            (Some(request), _) if asked < enforced => Some(format!("{text}, but request is {request}")),
            (_, Some(limit)) if limited < enforced => Some(format!("{text}, but limit is {limit}")),
            _ => None,
        }
    }

    fn above(&self, kind: &str, name: &str, max: &Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let text = format!("maximum {name} usage per {kind} is {max}");
        let [asked, limited, enforced] = comparable([request, limit, Some(max)]);
        match (request, limit) {
            (_, None) => Some(format!("{text}.  No limit is specified")),
            (_, Some(limit)) if limited > enforced => Some(format!("{text}, but limit is {limit}")),
            (Some(request), _) if asked > enforced => Some(format!("{text}, but request is {request}")),
            _ => None,
        }
    }

    fn request_above(&self, kind: &str, name: &str, max: &Quantity) -> Option<String> {
        let request = self.requests.get(name);
        let text = format!("maximum {name} usage per {kind} is {max}");
        let [asked, enforced] = comparable([request, Some(max)]);
        match request {
            None => Some(format!("{text}.  No request is specified")),
            Some(request) if asked > enforced => Some(format!("{text}, but request is {request}")),
            Some(_) => None,
        }
    }

    /// Whether the limit is more often the request than allowed.
    #[allow(clippy::cast_precision_loss)] // as upstream compares
    fn wider(&self, kind: &str, name: &str, max: &Quantity) -> Option<String> {
        let (request, limit) = (self.requests.get(name), self.limits.get(name));
        let text = format!("{name} max limit to request ratio per {kind} is {max}");
        let [asked, limited, _] = comparable([request, limit, Some(max)]);
        if asked == 0 {
            return Some(format!("{text}, but no request is specified or request is 0"));
        }
        if limited == 0 {
            return Some(format!("{text}, but no limit is specified or limit is 0"));
        }
        let ratio = limited as f64 / asked as f64;
        let too_wide = if max.value() <= MAX_MILLI {
            ratio * 1000.0 > max.milli_value() as f64
        } else {
            ratio > max.value() as f64
        };
        too_wide.then(|| format!("{text}, but provided ratio is {ratio:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::fixed::Fixed;
    use crate::testing::Write;
    use triptych_object::json;

    fn plugin(limits: &str) -> LimitRanger {
        let range = format!(r#"{{"metadata":{{"name":"r","namespace":"n"}},"spec":{{"limits":[{limits}]}}}}"#);
        LimitRanger {
            ranges: Fixed::of(&[&range]),
        }
    }

    fn pod(resources: &str) -> Write {
        let pod = format!(
            r#"{{"metadata":{{"name":"p","namespace":"n"}},"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#
        );
        Write::create("pods", &pod)
    }

    #[tokio::test]
    async fn containers_that_say_nothing_get_the_defaults_and_the_pod_says_so() {
        let plugin =
            plugin(r#"{"type":"Container","default":{"cpu":"1","memory":"1Gi"},"defaultRequest":{"cpu":"500m"}}"#);
        let (pod, _) = pod(r#"{"limits":{"cpu":"2"}}"#).admit(&plugin).await.unwrap();
        let resources = pod.array_at(&["spec", "containers"])[0].get("resources").unwrap();
        assert_eq!(
            json::to_string(resources),
            r#"{"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"500m"}}"#
        );
        assert_eq!(
            meta::annotation(&pod, ANNOTATION),
            Some("LimitRanger plugin set: cpu request for container c; memory limit for container c")
        );
    }

    #[tokio::test]
    async fn what_exceeds_a_limit_is_refused() {
        let min = r#"{"type":"Container","min":{"cpu":"100m"}}"#;
        let max = r#"{"type":"Container","max":{"memory":"1Gi"}}"#;
        let ratio = r#"{"type":"Container","maxLimitRequestRatio":{"cpu":"2"}}"#;
        let whole = r#"{"type":"Pod","max":{"cpu":"1"}}"#;
        for (limits, resources, why) in [
            (
                min,
                "{}",
                "minimum cpu usage per Container is 100m.  No request is specified",
            ),
            (
                min,
                r#"{"requests":{"cpu":"50m"}}"#,
                "minimum cpu usage per Container is 100m, but request is 50m",
            ),
            (min, r#"{"requests":{"cpu":"100m"}}"#, ""),
            (
                max,
                "{}",
                "maximum memory usage per Container is 1Gi.  No limit is specified",
            ),
            (
                max,
                r#"{"limits":{"memory":"2Gi"}}"#,
                "maximum memory usage per Container is 1Gi, but limit is 2Gi",
            ),
            (
                ratio,
                r#"{"requests":{"cpu":"1"},"limits":{"cpu":"3"}}"#,
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
            ),
            (
                ratio,
                r#"{"limits":{"cpu":"3"}}"#,
                "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
            (
                whole,
                r#"{"limits":{"cpu":"1500m"}}"#,
                "maximum cpu usage per Pod is 1, but limit is 1500m",
            ),
        ] {
            let refusal = pod(resources).refusal(&plugin(limits)).await;
            let told = refusal.strip_prefix("pods \"p\" is forbidden: ").unwrap_or(&refusal);
            assert_eq!(told, why);
        }
    }

    #[tokio::test]
    async fn several_problems_are_told_together() {
        let limits = r#"{"type":"Container","max":{"cpu":"1","memory":"1Gi"}}"#;
        assert_eq!(
            pod("{}").refusal(&plugin(limits)).await,
            "pods \"p\" is forbidden: [maximum cpu usage per Container is 1.  No limit is specified, maximum memory usage per Container is 1Gi.  No limit is specified]"
        );
    }

    #[tokio::test]
    async fn claims_are_limited_in_what_they_request() {
        let limits = r#"{"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}"#;
        for (size, why) in [
            ("1Gi", ""),
            (
                "500Mi",
                "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi",
            ),
            (
                "3Gi",
                "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi",
            ),
        ] {
            let claim = format!(
                r#"{{"metadata":{{"name":"c","namespace":"n"}},"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#
            );
            let refusal = Write::create("persistentvolumeclaims", &claim)
                .refusal(&plugin(limits))
                .await;
            let told = refusal
                .strip_prefix("persistentvolumeclaims \"c\" is forbidden: ")
                .unwrap_or(&refusal);
            assert_eq!(told, why);
        }
    }

    #[tokio::test]
    async fn updates_count_only_where_they_can_change_what_is_asked_for() {
        let plugin = plugin(r#"{"type":"Container","max":{"cpu":"1"}}"#);
        let object = r#"{"metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c"}]}}"#;
        let update = || Write::update("pods", object, object);
        assert_eq!(update().refusal(&plugin).await, "");
        assert!(
            update()
                .subresource("resize")
                .refusal(&plugin)
                .await
                .contains("maximum cpu")
        );
        let leaving = object.replace(
            "\"namespace\"",
            "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"namespace\"",
        );
        let resize = Write::update("pods", object, &leaving).subresource("resize");
        assert_eq!(resize.refusal(&plugin).await, "");
    }
}
