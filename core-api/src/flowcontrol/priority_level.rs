//! PriorityLevelConfiguration: how many requests of a level run at once, and how others wait.

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::policy::EXEMPT;
use super::{conditions, policy};
use crate::validation::{Cursor, check, names as rules};

const MAX_QUEUES: i64 = 10_000_000;
/// Bits of the hash that deals hands of queues.
const MAX_HASH_BITS: i64 = 60;
const PRESERVES_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

/// The strategy of `prioritylevelconfigurations`.
pub struct PriorityLevels;

/// The strategy of `prioritylevelconfigurations/status`.
pub struct Status;

impl Strategy for PriorityLevels {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |level| {
            if meta::annotation(new, PRESERVES_ZERO).is_some() {
                let detail = format!("annotation '{PRESERVES_ZERO}' is forbidden");
                level.push(Error::forbidden("metadata.annotations", detail));
            }
            spec(level.field("spec"), meta::name(new));
            mandatory(level.field("spec"), meta::name(new));
            conditions(level.field("status"));
        });
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Whole
    }

    fn cells(&self, level: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let limited = |path: &[&str]| {
            let limited = level.at(&["spec", "limited"])?;
            limited.at(path).cloned()
        };
        let or_none = |value: Option<Value>| value.unwrap_or_else(|| "<none>".into());
        let queuing = |member: &str| or_none(limited(&["limitResponse", "queuing", member]));
        Some(vec![
            meta::name(level).into(),
            level.str_at(&["spec", "type"]).into(),
            or_none(limited(&["nominalConcurrencyShares"])),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            age(level, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check(new, errors, |level| conditions(level.field("status")));
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::None
    }

    fn standard_finalizers(&self) -> bool {
        false
    }
}

fn mandatory(spec: Cursor<'_>, name: &str) {
    let Some(fixed) = policy::mandatory_level(name) else {
        return;
    };
    let without_exempt = |value: Option<&Value>| {
        let mut value = value.cloned().unwrap_or_else(Value::object);
        value.remove_at(&["exempt"]);
        value
    };
    let (same, detail) = if name == EXEMPT {
        (
            without_exempt(spec.value()) == without_exempt(fixed.get("spec")),
            format!("spec of '{name}' except the 'spec.exempt' field must equal the fixed value"),
        )
    } else {
        (
            spec.value() == fixed.get("spec"),
            format!("spec of '{name}' must equal the fixed value"),
        )
    };
    if !same {
        spec.invalid(spec.go_struct(), detail);
    }
}

fn spec(spec: Cursor<'_>, name: &str) {
    let kind = spec.field("type");
    if (name == EXEMPT) != (kind.str() == "Exempt") {
        kind.invalid(kind.str(), "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (limit, free) = (spec.given("limited"), spec.given("exempt"));
    match kind.str() {
        "Exempt" => {
            if let Some(limit) = limit {
                limit.forbidden("must be nil if the type is not Limited");
            }
            if let Some(free) = free {
                shares(free.field("nominalConcurrencyShares"));
                lendable(free.field("lendablePercent"));
            }
        }
        "Limited" => {
            if let Some(free) = free {
                free.forbidden("must be nil if the type is Limited");
            }
            match limit {
                Some(limit) => limited(limit),
                None => spec.field("limited").required("must not be empty when type is Limited"),
            }
        }
        _ => kind.not_supported(&["Exempt", "Limited"]),
    }
}

fn shares(shares: Cursor<'_>) {
    if shares.int() < 0 {
        shares.invalid(shares.int(), "must be a non-negative integer");
    }
}

fn lendable(percent: Cursor<'_>) {
    if !(0..=100).contains(&percent.int()) {
        percent.invalid(percent.int(), "must be between 0 and 100, inclusive");
    }
}

fn limited(limited: Cursor<'_>) {
    shares(limited.field("nominalConcurrencyShares"));
    let response = limited.field("limitResponse");
    let kind = response.field("type");
    match (kind.str(), response.given("queuing")) {
        ("Reject", Some(queuing)) => queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"),
        ("Reject", None) => {}
        ("Queue", Some(given)) => queuing(given),
        ("Queue", None) => response
            .field("queuing")
            .required("must not be empty if limited.limitResponse.type is Limited"),
        _ => rules::one_of(kind, &["Queue", "Reject"]),
    }
    lendable(limited.field("lendablePercent"));
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.int() < 0 {
        borrowing.invalid(borrowing.int(), "if specified, must be a non-negative integer");
    }
}

fn queuing(queuing: Cursor<'_>) {
    let [length, queues, hand] = ["queueLengthLimit", "queues", "handSize"].map(|member| queuing.field(member));
    if length.int() <= 0 {
        length.invalid(length.int(), "must be positive");
    }
    if queues.int() <= 0 {
        queues.invalid(queues.int(), "must be positive");
    } else if queues.int() > MAX_QUEUES {
        queues.invalid(queues.int(), format!("must not be greater than {MAX_QUEUES}"));
    }
    let (deck, dealt) = (queues.int(), hand.int());
    if dealt <= 0 {
        hand.invalid(dealt, "must be positive");
    } else if dealt > deck {
        hand.invalid(dealt, format!("should not be greater than queues ({deck})"));
    } else if entropy_bits(deck, dealt) > MAX_HASH_BITS {
        hand.invalid(dealt, format!("required entropy bits of deckSize {deck} and handSize {dealt} should not be greater than {MAX_HASH_BITS}"));
    }
}

/// How many bits it takes to deal a hand from a deck.
fn entropy_bits(deck: i64, hand: i64) -> i64 {
    ((deck as f64).log2() * hand as f64).ceil() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_bits_deal_eight_of_128_but_not_of_512() {
        assert_eq!(entropy_bits(128, 8), 56);
        assert!(entropy_bits(512, 8) > MAX_HASH_BITS);
    }
}
