//! HorizontalPodAutoscaler between v1 and v2. v1 has one metric, the CPU utilization; other metrics, the behavior and
//! most of the status are in annotations, metrics in a form of their own that no API publishes.

use triptych_object::value::Object;
use triptych_object::{Value, json, meta};
use triptych_registry::builtin::Conversion;

use crate::schema;
use crate::validation::go_struct;

/// Metrics other than the CPU utilization.
pub const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
/// `status.currentMetrics`.
pub const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
/// `status.conditions`.
pub const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
/// `spec.behavior`, as Go writes its internal struct.
pub const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
/// What v1 carries in annotations.
pub const ROUND_TRIP: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    CURRENT_METRICS,
    CONDITIONS,
];

/// The conversion of v1.
pub struct Convert;

impl Conversion for Convert {
    fn from_stored(&self, document: Value) -> Value {
        to_v1(&document)
    }

    fn to_stored(&self, document: Value) -> Value {
        to_v2(&document)
    }
}

/// A value that is left out when it is absent.
fn put(out: &mut Object, name: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|v| !v.is_null()) {
        out.insert(name, value.clone());
    }
}

fn put_or_zero(out: &mut Object, name: &str, value: Option<&Value>) {
    out.insert(name, value.cloned().unwrap_or_else(|| "0".into()));
}

fn normalised(mut document: Value, api_version: &str) -> Value {
    document.set_at(&["apiVersion"], api_version.into());
    let ty = schema::kind_type(api_version, "HorizontalPodAutoscaler");
    if let (Some(types), Some(ty)) = (schema::types(), ty) {
        // what was decoded before stays readable
        let _ = triptych_schema::decode::normalise(types, ty, &mut document);
    }
    document
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric.str_at(&["type"]) == "Resource"
        && metric.str_at(&["resource", "name"]) == "cpu"
        && metric.at(&["resource", "target", "averageUtilization"]).is_some()
}

/// The v1 form of a v2 document.
pub fn to_v1(v2: &Value) -> Value {
    let mut out = base(v2);
    ROUND_TRIP.iter().for_each(|key| meta::remove_annotation(&mut out, key));
    let mut spec = Object::new();
    for member in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        put(&mut spec, member, v2.at(&["spec", member]));
    }
    let metrics = v2.array_at(&["spec", "metrics"]);
    let cpu = metrics.iter().find(|m| is_cpu_utilization(m));
    put(
        &mut spec,
        "targetCPUUtilizationPercentage",
        cpu.and_then(|m| m.at(&["resource", "target", "averageUtilization"])),
    );
    out.set_at(&["spec"], Value::Object(spec));

    let mut status = Object::new();
    for member in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        put(&mut status, member, v2.at(&["status", member]));
    }
    let current = v2.array_at(&["status", "currentMetrics"]);
    let cpu = current.iter().rfind(|m| {
        m.str_at(&["type"]) == "Resource"
            && m.str_at(&["resource", "name"]) == "cpu"
            && m.at(&["resource", "current", "averageUtilization"]).is_some()
    });
    put(
        &mut status,
        "currentCPUUtilizationPercentage",
        cpu.and_then(|m| m.at(&["resource", "current", "averageUtilization"])),
    );
    out.set_at(&["status"], Value::Object(status));

    let others: Vec<Value> = metrics
        .iter()
        .filter(|m| !is_cpu_utilization(m))
        .map(|metric| metric_to_v1(metric, "target"))
        .collect();
    let behavior = v2.at(&["spec", "behavior"]).map(|b| {
        let types = schema::types();
        let ty = types.and_then(|t| {
            t.named("io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior")
                .map(|ty| (t, ty))
        });
        ty.map_or_else(|| b.clone(), |(types, ty)| go_struct::of_type(types, ty, Some(b)))
    });
    let list = |items: Vec<Value>| (!items.is_empty()).then_some(Value::Array(items));
    for (key, value) in [
        (METRICS, list(others)),
        (
            CURRENT_METRICS,
            list(current.iter().map(|m| metric_to_v1(m, "current")).collect()),
        ),
        (BEHAVIOR, behavior),
        (CONDITIONS, list(v2.array_at(&["status", "conditions"]).to_vec())),
    ] {
        if let Some(value) = value {
            meta::set_annotation(&mut out, key, &json::to_string(&value));
        }
    }
    normalised(out, "autoscaling/v1")
}

/// Kind, version and metadata.
fn base(document: &Value) -> Value {
    let mut out = Object::new();
    for member in ["kind", "apiVersion", "metadata"] {
        put(&mut out, member, document.get(member));
    }
    Value::Object(out)
}

fn source<'a>(metric: &'a Value, name: &str) -> Option<&'a Value> {
    metric.get(name).filter(|s| !s.is_null())
}

/// A metric in the form of v2beta1, which annotations of v1 are in. `side` is `target` for a metric of the spec and
/// `current` for one of the status.
fn metric_to_v1(metric: &Value, side: &str) -> Value {
    let [value, average, utilization] = ["Value", "AverageValue", "AverageUtilization"].map(|m| format!("{side}{m}"));
    // what Go always writes in a status
    let written: fn(&mut Object, &str, Option<&Value>) = if side == "current" { put_or_zero } else { put };
    let mut out = Object::new();
    out.insert("type", metric.str_at(&["type"]).into());
    if let Some(s) = source(metric, "object") {
        let mut o = Object::new();
        o.insert("target", reference(s.get("describedObject")));
        o.insert("metricName", s.str_at(&["metric", "name"]).into());
        put_or_zero(&mut o, &value, s.at(&[side, "value"]));
        put(&mut o, "selector", s.at(&["metric", "selector"]));
        put(&mut o, "averageValue", s.at(&[side, "averageValue"]));
        out.insert("object", Value::Object(o));
    }
    if let Some(s) = source(metric, "pods") {
        let mut o = Object::new();
        o.insert("metricName", s.str_at(&["metric", "name"]).into());
        put_or_zero(&mut o, &average, s.at(&[side, "averageValue"]));
        put(&mut o, "selector", s.at(&["metric", "selector"]));
        out.insert("pods", Value::Object(o));
    }
    for name in ["resource", "containerResource"] {
        if let Some(s) = source(metric, name) {
            let mut o = Object::new();
            o.insert("name", s.str_at(&["name"]).into());
            put(&mut o, &utilization, s.at(&[side, "averageUtilization"]));
            written(&mut o, &average, s.at(&[side, "averageValue"]));
            if name == "containerResource" {
                o.insert("container", s.str_at(&["container"]).into());
            }
            out.insert(name, Value::Object(o));
        }
    }
    if let Some(s) = source(metric, "external") {
        let mut o = Object::new();
        o.insert("metricName", s.str_at(&["metric", "name"]).into());
        put(&mut o, "metricSelector", s.at(&["metric", "selector"]));
        written(&mut o, &value, s.at(&[side, "value"]));
        put(&mut o, &average, s.at(&[side, "averageValue"]));
        out.insert("external", Value::Object(o));
    }
    Value::Object(out)
}

fn reference(object: Option<&Value>) -> Value {
    let null = Value::Null;
    let object = object.unwrap_or(&null);
    let mut out = Object::new();
    out.insert("kind", object.str_at(&["kind"]).into());
    out.insert("name", object.str_at(&["name"]).into());
    put(&mut out, "apiVersion", object.get("apiVersion"));
    Value::Object(out)
}

/// The v2 form of a v1 document. An annotation that cannot be read counts as absent.
pub fn to_v2(v1: &Value) -> Value {
    let mut out = base(v1);
    ROUND_TRIP.iter().for_each(|key| meta::remove_annotation(&mut out, key));
    let annotation = |key: &str| {
        let text = meta::annotation(v1, key)?;
        json::from_slice(text.as_bytes()).ok()
    };
    let list = |key: &str| match annotation(key) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    };
    let mut spec = Object::new();
    for member in ["scaleTargetRef", "minReplicas", "maxReplicas"] {
        put(&mut spec, member, v1.at(&["spec", member]));
    }
    let mut metrics: Vec<Value> = list(METRICS).unwrap_or_default().iter().map(spec_to_v2).collect();
    if let Some(percent) = v1.at(&["spec", "targetCPUUtilizationPercentage"]) {
        metrics.push(cpu_utilization(percent.clone()));
    }
    if metrics.is_empty() {
        metrics.push(cpu_utilization(Value::Int(80)));
    }
    spec.insert("metrics", Value::Array(metrics));
    if let Some(behavior @ Value::Object(_)) = annotation(BEHAVIOR) {
        let behavior = lower_first(behavior);
        let given = |member: &str| behavior.get(member).is_some_and(|v| !v.is_null());
        if given("scaleUp") || given("scaleDown") {
            spec.insert("behavior", behavior);
        }
    }
    out.set_at(&["spec"], Value::Object(spec));

    let mut status = Object::new();
    for member in [
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
    ] {
        put(&mut status, member, v1.at(&["status", member]));
    }
    let current = match (
        list(CURRENT_METRICS),
        v1.at(&["status", "currentCPUUtilizationPercentage"]),
    ) {
        (Some(items), _) => items.iter().map(status_to_v2).collect(),
        (None, Some(percent)) => {
            let current = Value::from([("averageUtilization", percent.clone())]);
            let resource = Value::from([("name", "cpu".into()), ("current", current)]);
            vec![Value::from([("type", "Resource".into()), ("resource", resource)])]
        }
        (None, None) => Vec::new(),
    };
    if !current.is_empty() {
        status.insert("currentMetrics", Value::Array(current));
    }
    if let Some(conditions) = list(CONDITIONS) {
        status.insert("conditions", Value::Array(conditions));
    }
    out.set_at(&["status"], Value::Object(status));
    normalised(out, "autoscaling/v2")
}

fn cpu_utilization(percent: Value) -> Value {
    let target = Value::from([("type", "Utilization".into()), ("averageUtilization", percent)]);
    let resource = Value::from([("name", "cpu".into()), ("target", target)]);
    Value::from([("type", "Resource".into()), ("resource", resource)])
}

/// Names of Go's struct fields become those of the API.
fn lower_first(value: Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .into_iter()
                .map(|(name, member)| {
                    let mut chars = name.chars();
                    let lower = chars
                        .next()
                        .map(|c| c.to_ascii_lowercase().to_string() + chars.as_str());
                    (lower.unwrap_or_default(), lower_first(member))
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(lower_first).collect()),
        other => other,
    }
}

fn identifier(name: Option<&Value>, selector: Option<&Value>) -> Value {
    let mut out = Object::new();
    out.insert("name", name.cloned().unwrap_or_else(|| "".into()));
    put(&mut out, "selector", selector);
    Value::Object(out)
}

fn target(kind: &str, members: [(&str, Option<&Value>); 3]) -> Value {
    let mut out = Object::new();
    out.insert("type", kind.into());
    members.into_iter().for_each(|(name, value)| put(&mut out, name, value));
    Value::Object(out)
}

fn is_zero(value: Option<&Value>) -> bool {
    crate::validation::resources::quantity(value).is_zero()
}

fn spec_to_v2(metric: &Value) -> Value {
    let mut out = Object::new();
    out.insert("type", metric.str_at(&["type"]).into());
    let zero: Value = "0".into();
    if let Some(s) = source(metric, "object") {
        let (value, average) = (s.get("targetValue").unwrap_or(&zero), s.get("averageValue"));
        let kind = if average.is_none() { "Value" } else { "AverageValue" };
        let value = Some(value).filter(|v| average.is_none() || !is_zero(Some(v)));
        let mut o = Object::new();
        o.insert("describedObject", reference(s.get("target")));
        o.insert(
            "target",
            target(kind, [("value", value), ("averageValue", average), ("", None)]),
        );
        o.insert("metric", identifier(s.get("metricName"), s.get("selector")));
        out.insert("object", Value::Object(o));
    }
    if let Some(s) = source(metric, "pods") {
        let average = s.get("targetAverageValue").or(Some(&zero));
        let mut o = Object::new();
        o.insert("metric", identifier(s.get("metricName"), s.get("selector")));
        o.insert(
            "target",
            target("AverageValue", [("averageValue", average), ("", None), ("", None)]),
        );
        out.insert("pods", Value::Object(o));
    }
    for name in ["resource", "containerResource"] {
        if let Some(s) = source(metric, name) {
            let utilization = s.get("targetAverageUtilization").filter(|v| !v.is_null());
            let kind = if utilization.is_none() {
                "AverageValue"
            } else {
                "Utilization"
            };
            let mut o = Object::new();
            put(&mut o, "name", s.get("name"));
            let members = [
                ("averageValue", s.get("targetAverageValue")),
                ("averageUtilization", utilization),
                ("", None),
            ];
            o.insert("target", target(kind, members));
            if name == "containerResource" {
                put(&mut o, "container", s.get("container"));
            }
            out.insert(name, Value::Object(o));
        }
    }
    if let Some(s) = source(metric, "external") {
        let value = s.get("targetValue").filter(|v| !v.is_null());
        let kind = if value.is_none() { "AverageValue" } else { "Value" };
        let mut o = Object::new();
        o.insert("metric", identifier(s.get("metricName"), s.get("metricSelector")));
        let members = [
            ("value", value),
            ("averageValue", s.get("targetAverageValue")),
            ("", None),
        ];
        o.insert("target", target(kind, members));
        out.insert("external", Value::Object(o));
    }
    Value::Object(out)
}

fn current(members: [(&str, Option<&Value>); 2]) -> Value {
    let mut out = Object::new();
    members.into_iter().for_each(|(name, value)| put(&mut out, name, value));
    Value::Object(out)
}

fn status_to_v2(metric: &Value) -> Value {
    let mut out = Object::new();
    out.insert("type", metric.str_at(&["type"]).into());
    let zero: Value = "0".into();
    if let Some(s) = source(metric, "object") {
        let value = s.get("currentValue").or(Some(&zero));
        let mut o = Object::new();
        o.insert("metric", identifier(s.get("metricName"), s.get("selector")));
        o.insert(
            "current",
            current([("value", value), ("averageValue", s.get("averageValue"))]),
        );
        o.insert("describedObject", reference(s.get("target")));
        out.insert("object", Value::Object(o));
    }
    if let Some(s) = source(metric, "pods") {
        let average = s.get("currentAverageValue").or(Some(&zero));
        let mut o = Object::new();
        o.insert("metric", identifier(s.get("metricName"), s.get("selector")));
        o.insert("current", current([("averageValue", average), ("", None)]));
        out.insert("pods", Value::Object(o));
    }
    for name in ["resource", "containerResource"] {
        if let Some(s) = source(metric, name) {
            let average = s.get("currentAverageValue").or(Some(&zero));
            let mut o = Object::new();
            put(&mut o, "name", s.get("name"));
            let members = [
                ("averageValue", average),
                ("averageUtilization", s.get("currentAverageUtilization")),
            ];
            o.insert("current", current(members));
            if name == "containerResource" {
                put(&mut o, "container", s.get("container"));
            }
            out.insert(name, Value::Object(o));
        }
    }
    if let Some(s) = source(metric, "external") {
        let value = s.get("currentValue").or(Some(&zero));
        let mut o = Object::new();
        o.insert("metric", identifier(s.get("metricName"), s.get("metricSelector")));
        o.insert(
            "current",
            current([("value", value), ("averageValue", s.get("currentAverageValue"))]),
        );
        out.insert("external", Value::Object(o));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_cannot_say_survives_in_annotations() {
        let v2 = json::from_slice(
            br#"{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"a"},"spec":{
                "scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"minReplicas":1,"maxReplicas":3,
                "metrics":[{"type":"Pods","pods":{"metric":{"name":"m"},"target":{"type":"AverageValue","averageValue":"5"}}},
                    {"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}],
                "behavior":{"scaleDown":{"selectPolicy":"Max","policies":[{"type":"Percent","value":10,"periodSeconds":15}]}}}}"#,
        )
        .unwrap();
        let v1 = to_v1(&v2);
        assert_eq!(
            v1.at(&["spec", "targetCPUUtilizationPercentage"]),
            Some(&Value::Int(50))
        );
        assert_eq!(
            meta::annotation(&v1, METRICS),
            Some(r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5"}}]"#)
        );
        assert_eq!(to_v2(&v1).get("spec"), v2.get("spec"));
    }
}
