//! Rules of a HorizontalPodAutoscaler's specification, in its v2 form.

use triptych_object::field::Error;
use triptych_object::{Value, names};

use crate::validation::{Cursor, names as rules, resource_names, resources};

/// What a reference to another object may leave out.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReferenceOptions {
    /// A version without a group.
    pub no_group: bool,
    /// Anything at all.
    pub any_version: bool,
}

/// What the rules depend on besides the specification.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// 0 once a stored object has it (HPAScaleToZero is off).
    pub least_min_replicas: i64,
    /// `scaleTargetRef`.
    pub target: ReferenceOptions,
    /// `describedObject` of metrics.
    pub objects: ReferenceOptions,
}

impl Options {
    /// For a new specification that may replace `old`, both in any version.
    pub fn of(new: &Value, old: Option<&Value>) -> Options {
        let reference = |object: &Value, member: &str| object.str_at(&["spec", "scaleTargetRef", member]).to_owned();
        let unchanged = |old: &Value| {
            ["apiVersion", "kind"]
                .iter()
                .all(|member| reference(new, member) == reference(old, member))
        };
        let any_version = old.is_some_and(unchanged);
        let had_zero = old.is_some_and(|o| o.at(&["spec", "minReplicas"]).and_then(Value::as_i64) == Some(0));
        let objects = ReferenceOptions {
            no_group: true,
            any_version: false,
        };
        let had_bad_object = old.is_some_and(|old| {
            old.array_at(&["spec", "metrics"]).iter().any(|m| {
                m.str_at(&["type"]) == "Object"
                    && m.at(&["object", "describedObject"])
                        .is_some_and(|r| api_version(r.str_at(&["apiVersion"]), objects).is_err())
            })
        });
        Options {
            least_min_replicas: i64::from(!had_zero),
            target: ReferenceOptions {
                any_version,
                no_group: !any_version && reference(new, "kind") == "ReplicationController",
            },
            objects: ReferenceOptions {
                any_version: had_bad_object,
                ..objects
            },
        }
    }
}

/// Checks `spec`.
pub fn spec(c: Cursor<'_>, options: &Options) {
    let (min, max) = (c.field("minReplicas"), c.field("maxReplicas"));
    if min.i64().is_some_and(|n| n < options.least_min_replicas) {
        min.invalid(
            min.int(),
            format!("must be greater than or equal to {}", options.least_min_replicas),
        );
    }
    match max.int() {
        0 => max.required("must be set and greater than 0"),
        negative if negative < 0 => max.invalid(negative, "must be greater than or equal to 1"),
        _ => {}
    }
    if min.i64().is_some_and(|min| max.int() < min) {
        max.invalid(max.int(), "must be greater than or equal to `minReplicas`");
    }
    reference(c.field("scaleTargetRef"), options.target);
    let metrics = c.field("metrics");
    metrics.items().for_each(|m| metric(m, options.objects));
    let scales_from_zero = metrics
        .items()
        .any(|m| matches!(m.str_of("type"), "Object" | "External"));
    if min.i64() == Some(0) && !scales_from_zero {
        metrics.forbidden("must specify at least one Object or External metric to support scaling to zero replicas");
    }
    let behavior = c.field("behavior");
    scaling_rules(behavior.field("scaleUp"));
    scaling_rules(behavior.field("scaleDown"));
}

fn api_version(text: &str, options: ReferenceOptions) -> Result<(), String> {
    if options.any_version {
        return Ok(());
    }
    match text.matches('/').count() {
        0 | 1 if options.no_group => Ok(()),
        1 if !text.starts_with('/') => Ok(()),
        0 | 1 => Err("apiVersion must specify API group".into()),
        _ => Err(format!("unexpected GroupVersion string: {text}")),
    }
}

fn reference(c: Cursor<'_>, options: ReferenceOptions) {
    for member in ["kind", "name"].map(|member| c.field(member)) {
        path_segment(member, "");
    }
    let version = c.field("apiVersion");
    if let Err(e) = api_version(version.str(), options) {
        version.invalid(version.str(), e);
    }
}

fn path_segment(c: Cursor<'_>, required: &str) {
    if c.str().is_empty() {
        c.required(required);
    } else {
        c.invalid_text(names::path_segment_name(c.str()));
    }
}

/// A metric's `type`, its member, and the member's rule.
type Source = (&'static str, &'static str, fn(Cursor<'_>, ReferenceOptions));

fn metric(c: Cursor<'_>, objects: ReferenceOptions) {
    const SOURCES: [Source; 5] = [
        ("Object", "object", object),
        ("External", "external", |c, _| external(c)),
        ("Pods", "pods", |c, _| pods(c)),
        ("Resource", "resource", |c, _| resource(c)),
        ("ContainerResource", "containerResource", |c, _| container_resource(c)),
    ];
    const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
    let kind = c.field("type");
    if kind.str().is_empty() {
        kind.required("must specify a metric source type");
    }
    // kube-apiserver looks twice
    for _ in 0..2 {
        rules::one_of(kind, &TYPES);
    }
    let mut present = 0;
    for (_, member, rule) in SOURCES {
        if let Some(source) = c.given(member) {
            present += 1;
            if present == 1 {
                rule(source, objects);
            }
        }
    }
    let expected = SOURCES
        .iter()
        .find(|(name, ..)| *name == kind.str())
        .map_or("", |(_, member, _)| *member);
    if !expected.is_empty() && !c.has(expected) {
        c.field(expected)
            .required("must populate information for the given metric source");
    }
    if present != 1 {
        for (_, member, _) in SOURCES.iter().filter(|(_, member, _)| *member != expected) {
            if let Some(source) = c.given(member) {
                source.forbidden("must populate the given metric source only");
            }
        }
    }
}

fn identifier(c: Cursor<'_>) {
    path_segment(c.field("metric").field("name"), "must specify a metric name");
}

fn target(c: Cursor<'_>) -> Cursor<'_> {
    let target = c.field("target");
    let kind = target.field("type");
    if kind.str().is_empty() {
        kind.required("must specify a metric target type");
    }
    if !matches!(kind.str(), "Utilization" | "Value" | "AverageValue") {
        kind.invalid(kind.str(), "must be either Utilization, Value, or AverageValue");
    }
    for member in ["value", "averageValue"] {
        if let Some(value) = target.given(member)
            && resources::quantity(value.value()).sign() != 1
        {
            value.invalid(value.shown(), "must be positive");
        }
    }
    let utilization = target.field("averageUtilization");
    if utilization.i64().is_some_and(|n| n < 1) {
        utilization.invalid(utilization.int(), "must be greater than 0");
    }
    target
}

fn object(c: Cursor<'_>, options: ReferenceOptions) {
    reference(c.field("describedObject"), options);
    identifier(c);
    let target = target(c);
    if !target.has("value") && !target.has("averageValue") {
        target
            .field("averageValue")
            .required("must set either a target value or averageValue");
    }
}

fn external(c: Cursor<'_>) {
    identifier(c);
    let target = target(c);
    match (target.has("value"), target.has("averageValue")) {
        (false, false) => {
            let detail = "must set either a target value for metric or a per-pod target";
            target.field("averageValue").required(detail);
        }
        (true, true) => {
            let detail = "may not set both a target value for metric and a per-pod target";
            target.field("value").forbidden(detail);
        }
        _ => {}
    }
}

fn pods(c: Cursor<'_>) {
    identifier(c);
    let target = target(c);
    if !target.has("averageValue") {
        target
            .field("averageValue")
            .required("must specify a positive target averageValue");
    }
}

fn resource(c: Cursor<'_>) {
    let name = c.field("name");
    if name.str().is_empty() {
        name.required("must specify a resource name");
    }
    resource_target(c);
}

fn container_resource(c: Cursor<'_>) {
    let (name, container) = (c.field("name"), c.field("container"));
    if name.str().is_empty() {
        name.required("must specify a resource name");
    } else {
        resource_names::container_name(name, name.str());
    }
    if container.str().is_empty() {
        container.required("must specify a container");
    } else {
        rules::label(container);
    }
    resource_target(c);
}

fn resource_target(c: Cursor<'_>) {
    let target = target(c);
    match (target.has("averageUtilization"), target.has("averageValue")) {
        (false, false) => {
            let detail = "must set either a target raw value or a target utilization";
            target.field("averageUtilization").required(detail);
        }
        (true, true) => {
            let detail = "may not set both a target raw value and a target utilization";
            target.field("averageValue").forbidden(detail);
        }
        _ => {}
    }
}

fn scaling_rules(c: Cursor<'_>) {
    const LONGEST_WINDOW: i64 = 3600;
    if !c.exists() {
        return;
    }
    let window = c.field("stabilizationWindowSeconds");
    if window.int() < 0 {
        window.invalid(window.int(), "must be greater than or equal to zero");
    }
    if window.int() > LONGEST_WINDOW {
        window.invalid(window.int(), format!("must be less than or equal to {LONGEST_WINDOW}"));
    }
    rules::optional_one_of(c.field("selectPolicy"), &["Disabled", "Max", "Min"]);
    let policies = c.field("policies");
    if policies.is_empty() {
        policies.required("must specify at least one Policy");
    }
    policies.items().for_each(policy);
    if let Some(tolerance) = c.given("tolerance") {
        resource_names::non_negative(tolerance);
    }
}

fn policy(c: Cursor<'_>) {
    const LONGEST_PERIOD: i64 = 1800;
    let (kind, value, period) = (c.field("type"), c.field("value"), c.field("periodSeconds"));
    if !matches!(kind.str(), "Pods" | "Percent") {
        kind.push(Error::not_supported(kind.path(), kind.str(), &["Percent", "Pods"]));
    }
    rules::positive(value);
    rules::positive(period);
    if period.int() > LONGEST_PERIOD {
        period.invalid(period.int(), format!("must be less than or equal to {LONGEST_PERIOD}"));
    }
}
