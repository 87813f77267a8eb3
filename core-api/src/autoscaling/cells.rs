//! A HorizontalPodAutoscaler's row in a Table, from its v2 form.

use jiff::Timestamp;
use triptych_object::{Value, meta};
use triptych_registry::age::age;

use crate::apps::workload::number;

/// The cells of a row.
pub fn cells(autoscaler: &Value, now: Timestamp) -> Vec<Value> {
    let target = |member: &str| autoscaler.str_at(&["spec", "scaleTargetRef", member]);
    let min = autoscaler.at(&["spec", "minReplicas"]).and_then(Value::as_i64);
    vec![
        meta::name(autoscaler).into(),
        format!("{}/{}", target("kind"), target("name")).into(),
        metrics(autoscaler).into(),
        min.map_or("<unset>".to_owned(), |n| n.to_string()).into(),
        Value::Int(number(autoscaler, &["spec", "maxReplicas"])),
        Value::Int(number(autoscaler, &["status", "currentReplicas"])),
        age(autoscaler, now).into(),
    ]
}

fn metrics(autoscaler: &Value) -> String {
    const SHOWN: usize = 2;
    let specs = autoscaler.array_at(&["spec", "metrics"]);
    let current = autoscaler.array_at(&["status", "currentMetrics"]);
    if specs.is_empty() {
        return "<none>".into();
    }
    let mut texts: Vec<String> = specs
        .iter()
        .enumerate()
        .map(|(i, spec)| metric(spec, current.get(i)))
        .collect();
    let more = texts.len().saturating_sub(SHOWN);
    texts.truncate(SHOWN);
    let list = texts.join(", ");
    if more > 0 {
        format!("{list} + {more} more...")
    } else {
        list
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(s) => Some(s.clone()),
        Value::Int(n) => Some(n.to_string()),
        _ => None,
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let kind = spec.str_at(&["type"]);
    let member = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".into(),
    };
    let target = |name: &str| text(spec.at(&[member, "target", name]));
    let current = |name: &str| {
        let source = status.and_then(|s| s.get(member));
        source
            .and_then(|s| text(s.at(&["current", name])))
            .unwrap_or_else(|| "<unknown>".into())
    };
    let average = target("averageValue");
    match (kind, average) {
        ("External" | "Object", Some(average)) => format!("{}/{average} (avg)", current("averageValue")),
        ("External" | "Object", None) => format!("{}/{}", current("value"), target("value").unwrap_or_default()),
        ("Pods", average) => format!("{}/{}", current("averageValue"), average.unwrap_or_default()),
        (_, Some(average)) => {
            format!(
                "{}: {}/{average}",
                spec.str_at(&[member, "name"]),
                current("averageValue")
            )
        }
        (_, None) => {
            let percent = |n: String| if n.starts_with('<') { n } else { format!("{n}%") };
            let wanted = target("averageUtilization").map_or("<auto>".to_owned(), percent);
            format!(
                "{}: {}/{wanted}",
                spec.str_at(&[member, "name"]),
                percent(current("averageUtilization"))
            )
        }
    }
}
