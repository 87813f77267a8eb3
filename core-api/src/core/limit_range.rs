//! LimitRange: limits, requests and defaults of pods, containers and claims, and how they must agree.

use std::collections::BTreeSet;

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::quantity::{Format, Quantity};
use triptych_object::{Value, meta, names};
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::defaults;
use crate::validation::{Cursor, check, resource_names};

/// The strategy of `limitranges`.
pub struct LimitRanges;

impl Strategy for LimitRanges {
    fn default(&self, range: &mut Value) {
        let limits = range.at_mut(&["spec", "limits"]).and_then(Value::as_array_mut);
        for item in limits.into_iter().flatten() {
            const LISTS: [&[&str]; 5] = [
                &["max"],
                &["min"],
                &["default"],
                &["defaultRequest"],
                &["maxLimitRequestRatio"],
            ];
            defaults::resource_lists(item, &LISTS);
            if item.str_at(&["type"]) == "Container" {
                fill(item, "default", "max");
                fill(item, "defaultRequest", "default");
                fill(item, "defaultRequest", "min");
            }
        }
    }

    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        if meta::name(new).is_empty() {
            meta::set_text(new, "name", uuid::Uuid::new_v4().to_string());
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |range| {
            let mut types = BTreeSet::new();
            for item in range.field("spec").field("limits").items() {
                limit(item, &mut types);
            }
        });
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(object).into(),
            meta::text(object, "creationTimestamp").into(),
        ])
    }
}

/// Gives `target` what it lacks of `source`.
fn fill(item: &mut Value, target: &str, source: &str) {
    let Some(from) = item.get(source).and_then(Value::as_object).cloned() else {
        return;
    };
    for (name, quantity) in from {
        if item.at(&[target, &name]).is_none() {
            item.set_at(&[target, &name], quantity);
        }
    }
    if let Some(map) = item.get_mut(target).and_then(Value::as_object_mut) {
        map.sort();
    }
}

fn limit<'a>(item: Cursor<'a>, types: &mut BTreeSet<&'a str>) {
    let kind = item.field("type");
    let messages = names::qualified_name(kind.str());
    let well_formed = messages.is_empty();
    kind.invalid_text(messages);
    if well_formed && !kind.str().contains('/') && !matches!(kind.str(), "Pod" | "Container" | "PersistentVolumeClaim")
    {
        kind.invalid(kind.str(), "must be a standard limit type or fully qualified");
    }
    if !types.insert(kind.str()) {
        kind.duplicate(kind.str());
    }
    let of_containers = matches!(kind.str(), "Pod" | "Container");
    let mut keys = BTreeSet::new();
    let mut members = |member: &'static str| {
        for (name, quantity) in item.field(member).entries() {
            if of_containers {
                resource_names::container_name(quantity, name);
            } else {
                resource_names::name(quantity, name);
            }
            keys.insert(name);
        }
    };
    members("max");
    members("min");
    let of_pods = kind.str() == "Pod";
    for member in ["default", "defaultRequest"] {
        if !of_pods {
            members(member);
        } else if !item.field(member).is_empty() {
            item.field(member)
                .forbidden("may not be specified when `type` is 'Pod'");
        }
    }
    if kind.str() == "PersistentVolumeClaim" {
        let has = |member: &'static str| item.field(member).key("storage").exists();
        if !has("min") && !has("max") {
            item.push(triptych_object::field::Error::required(
                format!("{}.limits", item.path()),
                "either minimum or maximum storage value is required, but neither was provided",
            ));
        }
    }
    members("maxLimitRequestRatio");
    for key in keys {
        Bounds::of(item, key, of_pods).check(item, key);
    }
}

/// What a limit says about one resource.
struct Bounds {
    min: Option<Quantity>,
    max: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Bounds {
    fn of(item: Cursor<'_>, key: &str, of_pods: bool) -> Bounds {
        let read = |member: &str| item.value()?.at(&[member, key]).and_then(resource_names::of);
        Bounds {
            min: read("min"),
            max: read("max"),
            default: read("default").filter(|_| !of_pods),
            request: read("defaultRequest").filter(|_| !of_pods),
            ratio: read("maxLimitRequestRatio"),
        }
    }

    fn check<'a>(&self, item: Cursor<'a>, key: &'a str) {
        let report = |member: &'static str, shown: &Quantity, detail: String| {
            item.field(member).key(key).invalid(shown.to_string(), detail);
        };
        if let (Some(min), Some(max)) = (&self.min, &self.max)
            && min > max
        {
            report("min", min, format!("min value {min} is greater than max value {max}"));
        }
        if let (Some(request), Some(min)) = (&self.request, &self.min)
            && min > request
        {
            let detail = format!("min value {min} is greater than default request value {request}");
            report("defaultRequest", request, detail);
        }
        if let (Some(request), Some(max)) = (&self.request, &self.max)
            && request > max
        {
            let detail = format!("default request value {request} is greater than max value {max}");
            report("defaultRequest", request, detail);
        }
        if let (Some(request), Some(default)) = (&self.request, &self.default)
            && request > default
        {
            let detail = format!("default request value {request} is greater than default limit value {default}");
            report("defaultRequest", request, detail);
        }
        if let (Some(default), Some(min)) = (&self.default, &self.min)
            && min > default
        {
            report(
                "default",
                min,
                format!("min value {min} is greater than default value {default}"),
            );
        }
        if let (Some(default), Some(max)) = (&self.default, &self.max)
            && default > max
        {
            report(
                "default",
                max,
                format!("default value {default} is greater than max value {max}"),
            );
        }
        if let Some(ratio) = &self.ratio {
            if *ratio < Quantity::new(1, Format::DecimalSi) {
                report("maxLimitRequestRatio", ratio, format!("ratio {ratio} is less than 1"));
            }
            if let (Some(min), Some(max)) = (&self.min, &self.max) {
                let most = max_over_min(ratio, min, max);
                if most.0 > most.1 {
                    let detail = format!("ratio {ratio} is greater than max/min = {:.6}", most.1);
                    report("maxLimitRequestRatio", ratio, detail);
                }
            }
        }
        if let (Some(default), Some(request)) = (&self.default, &self.request)
            && !resource_names::is_overcommit_allowed(key)
            && default != request
        {
            let detail = format!("default value {default} must equal to defaultRequest value {request} in {key}");
            report("defaultRequest", request, detail);
        }
    }
}

/// The ratio and `max/min`, in thousandths where all three are small enough.
fn max_over_min(ratio: &Quantity, min: &Quantity, max: &Quantity) -> (f64, f64) {
    const MAX_MILLI: i64 = i64::MAX / 1000;
    if [ratio, min, max].iter().all(|q| q.value() < MAX_MILLI) {
        return (
            ratio.milli_value() as f64 / 1000.0,
            max.milli_value() as f64 / min.milli_value() as f64,
        );
    }
    (ratio.value() as f64, max.value() as f64 / min.value() as f64)
}
