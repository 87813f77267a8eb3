//! What a call cost, once its values are known.

use super::range::scaled;
use super::{AUTHORIZATION, LIST_CREATE, REGEX_LENGTH, STRING_TRAVERSAL};
use crate::libraries::Extension;
use crate::value::Value;

/// What is known of a call before it is made; the result's size may still matter.
pub(crate) enum Before {
    /// This much.
    Cost(u64),
    /// Twice going through the text that comes out.
    OfResult,
    /// A new list as long as the one that comes out.
    ResultList,
}

/// The size as cel-go's tracker takes it: that of an optional's value, 1 for what has none.
fn size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => size(inner),
        other => other.size().unwrap_or(1),
    }
}

/// The size as Kubernetes' estimator takes it.
fn plain(value: &Value<'_>) -> u64 {
    value.size().unwrap_or(1)
}

fn new_list(factor: f64, size: u64) -> Before {
    let cost = (size as f64 * factor) as u64;
    Before::Cost(cost.saturating_add(1 + LIST_CREATE))
}

impl Before {
    /// Looks at the arguments of a call.
    pub fn of(function: &str, overload: &str, args: &[Value<'_>]) -> Before {
        if let Some(own) = Before::by_overload(overload, args) {
            return own;
        }
        if let Some(own) = Before::by_function(function, overload, args) {
            return own;
        }
        let (first, second) = (args.first().map_or(0, size), args.get(1).map_or(0, size));
        Before::Cost(match overload {
            "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
            | "string_format" => scaled(first, STRING_TRAVERSAL),
            "in_list" => second,
            "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes" => scaled(first.min(second), STRING_TRAVERSAL),
            "add_string" | "add_bytes" => scaled(first.saturating_add(second), STRING_TRAVERSAL),
            "matches_string" => scaled(first.saturating_add(1), STRING_TRAVERSAL) * scaled(second, REGEX_LENGTH),
            "contains_string" => scaled(first, STRING_TRAVERSAL) * scaled(second, STRING_TRAVERSAL),
            _ if matches!(function, "_==_" | "_!=_") => scaled(first.min(second), STRING_TRAVERSAL),
            // A list is copied when it is added to, or gone through by what is in it.
            _ => 1,
        })
    }

    fn by_overload(overload: &str, args: &[Value<'_>]) -> Option<Before> {
        let length = |i: usize| args.get(i).map_or(0, plain);
        let compares = |i: usize| {
            let first = match args.get(i) {
                Some(Value::List(list)) => list.get(0).and_then(Result::ok),
                _ => None,
            };
            let factor = match first {
                Some(Value::String(_) | Value::Bytes(_)) => 2.0 + STRING_TRAVERSAL,
                _ => 2.0,
            };
            new_list(factor, length(i).saturating_mul(length(i)))
        };
        let sets = |factor: u64| {
            let product = length(0).saturating_mul(length(1)).saturating_mul(factor);
            Before::Cost(product.saturating_add(1))
        };
        Some(match overload {
            "list_slice" | "lists_range" | "list_reverse" => Before::ResultList,
            "list_flatten" => new_list(1.0, length(0)),
            "list_flatten_int" => match args.get(1) {
                Some(Value::Int(depth)) => new_list((*depth).max(0) as f64, length(0)),
                _ => new_list(1.0, length(0)),
            },
            "list_distinct" => compares(0),
            _ if overload.ends_with("_sortByAssociatedKeys") => compares(1),
            _ if overload.starts_with("list_") && overload.ends_with("_sort") => compares(0),
            "list_sets_contains_list" | "list_sets_intersects_list" => sets(1),
            "list_sets_equivalent_list" => sets(2),
            _ => return None,
        })
    }

    /// Kubernetes' own costs.
    fn by_function(function: &str, overload: &str, args: &[Value<'_>]) -> Option<Before> {
        let length = |i: usize| args.get(i).map_or(0, plain);
        let text = |factor: f64| scaled(length(0), factor * STRING_TRAVERSAL);
        Some(Before::Cost(match function {
            "check" => AUTHORIZATION,
            "fieldSelector" | "labelSelector" if args.len() >= 2 => super::estimate::selector(length(1)),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => args.first().map_or(0, traversal),
            "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => text(1.0),
            "replace" | "split" | "ip.isCanonical" => text(2.0),
            "join" => return Some(Before::OfResult),
            "find" | "findAll" if args.len() >= 2 => {
                scaled(length(0).saturating_add(1), STRING_TRAVERSAL).saturating_mul(scaled(length(1), REGEX_LENGTH))
            }
            "ip" if overload == "cidr_ip" => 1,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => text(1.0),
            "containsIP" => {
                let cost = text(2.0);
                match overload {
                    "cidr_contains_ip_string" => cost + scaled(length(1), STRING_TRAVERSAL),
                    _ => cost,
                }
            }
            "containsCIDR" => {
                let cost = text(2.0) + text(1.0) + 1;
                match overload {
                    "cidr_contains_cidr_string" => cost + scaled(length(1), STRING_TRAVERSAL),
                    _ => cost,
                }
            }
            "validate" => match args.first() {
                Some(Value::Extension(Extension::Format(format))) => {
                    scaled(length(1).saturating_add(1), STRING_TRAVERSAL)
                        .saturating_mul(scaled(format.regex_size(), REGEX_LENGTH))
                }
                _ => return None,
            },
            "_==_" if matches!(args.first(), Some(Value::Extension(_))) => 1,
            _ => return None,
        }))
    }

    /// The cost, now that the result is known; none if the call failed.
    pub fn cost(&self, result: Option<&Value<'_>>) -> u64 {
        let size = result.map_or(0, plain);
        match self {
            Before::Cost(cost) => *cost,
            Before::OfResult => scaled(size, 2.0 * STRING_TRAVERSAL),
            Before::ResultList => size.saturating_add(1 + LIST_CREATE),
        }
    }
}

fn traversal(value: &Value<'_>) -> u64 {
    let text = |length: usize| (length as f64 * STRING_TRAVERSAL) as u64;
    match value {
        Value::String(s) => text(s.len()),
        Value::Bytes(bytes) => text(bytes.len()),
        Value::List(list) => list.iter().flatten().map(|v| traversal(&v)).sum(),
        Value::Map(map) => map
            .key_values()
            .iter()
            .map(|key| {
                let value = map.find(key).ok().flatten();
                traversal(key) + value.map_or(0, |v| traversal(&v))
            })
            .sum(),
        _ => 1,
    }
}
