//! The capacity of a device, and what can be requested of it when it is shared.

use std::collections::HashSet;

use triptych_object::quantity::Quantity;

use super::texts::{qualified, within};
use crate::validation::Cursor;
use crate::validation::resource_names::quantity;

const MAX_VALID_VALUES: usize = 10;

/// The capacities of a device, which can be `shared`.
pub fn capacities(capacities: Cursor<'_>, shared: bool) {
    for (name, capacity) in capacities.entries() {
        qualified(capacities, name);
        let Some(policy) = capacity.given("requestPolicy") else {
            continue;
        };
        if shared {
            request_policy(policy, &quantity(capacity.field("value")));
        } else {
            policy.forbidden("allowMultipleAllocations must be true");
        }
    }
}

fn request_policy(policy: Cursor<'_>, whole: &Quantity) {
    let (values, range) = (policy.field("validValues"), policy.given("validRange"));
    let default = policy.given("default");
    match (values.is_empty(), range, default) {
        (false, Some(_), _) => policy.forbidden(
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
        ),
        (false, None, None) => policy.field("default").required("required when validValues is defined"),
        (true, Some(_), None) => policy.field("default").required("required when validRange is defined"),
        (false, None, Some(default)) => valid_values(values, default, whole),
        (true, Some(range), Some(default)) => valid_range(range, default, whole),
        (true, None, _) => {}
    }
}

fn valid_values(values: Cursor<'_>, default: Cursor<'_>, whole: &Quantity) {
    let items: Vec<Cursor<'_>> = values.items().collect();
    for pair in items.windows(2) {
        if quantity(pair[0]) > quantity(pair[1]) {
            pair[1].invalid(pair[1].str(), "values must be sorted in ascending order");
        }
    }
    let wanted = quantity(default);
    let mut found = false;
    if within(values, MAX_VALID_VALUES) {
        let mut seen = HashSet::new();
        for item in &items {
            let value = quantity(*item);
            if value > *whole {
                item.invalid(item.str(), format!("option is larger than capacity value: {whole}"));
            }
            found |= value == wanted;
        }
        for item in &items {
            let value = quantity(*item).value();
            if !seen.insert(value) {
                item.duplicate(value.to_string());
            }
        }
    }
    if !found {
        values.invalid(
            default.str(),
            "default value is not valid according to the requestPolicy",
        );
    }
}

fn valid_range(range: Cursor<'_>, default: Cursor<'_>, whole: &Quantity) {
    let [min, max, step] = ["min", "max", "step"].map(|member| range.field(member));
    if !min.exists() {
        return min.required("required when validRange is defined");
    }
    let (low, wanted) = (quantity(min), quantity(default));
    if low > *whole {
        min.invalid(min.str(), format!("min is larger than capacity value: {whole}"));
    }
    if wanted < low {
        min.invalid(default.str(), format!("default is less than min: {}", min.str()));
    }
    if max.exists() {
        let high = quantity(max);
        if low > high {
            max.invalid(min.str(), format!("min is larger than max: {}", max.str()));
        }
        if high > *whole {
            max.invalid(max.str(), format!("max is larger than capacity value: {whole}"));
        }
        if wanted > high {
            max.invalid(default.str(), format!("default is more than max: {}", max.str()));
        }
    }
    if step.exists() {
        let mut one_step = low.clone();
        one_step.add(&quantity(step));
        if one_step > *whole {
            let detail = format!("one step {one_step} is larger than capacity value: {whole}");
            step.invalid(step.str(), detail);
        }
        on_a_step(default, min, step);
        if max.exists() {
            on_a_step(max, min, step);
        }
    }
}

fn on_a_step(value: Cursor<'_>, min: Cursor<'_>, step: Cursor<'_>) {
    let from_min = quantity(value).value().wrapping_sub(quantity(min).value());
    // a step of nothing is reached never; kube-apiserver fails on it
    let reached = from_min.checked_rem(quantity(step).value()) == Some(0);
    if !reached {
        let detail = format!(
            "value is not a multiple of a given step ({}) from ({})",
            step.str(),
            min.str()
        );
        step.invalid(value.str(), detail);
    }
}
