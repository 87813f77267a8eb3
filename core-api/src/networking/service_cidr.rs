//! ServiceCIDR: a range from which services get their addresses; at most one of each family.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use crate::validation::{Cursor, check};

/// The strategy of `servicecidrs`.
pub struct ServiceCidrs;

/// The strategy of `servicecidrs/status`.
pub struct Status;

impl Strategy for ServiceCidrs {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |range| ranges(range.field("spec")));
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        const IMMUTABLE: &str = "field is immutable";
        let before = old.array_at(&["spec", "cidrs"]);
        check(new, errors, |range| {
            let cidrs = range.field("spec").field("cidrs");
            let changed = |cidr: &Cursor<'_>, before: &Value| cidr.value() != Some(before);
            match (before.len(), cidrs.len()) {
                (had, have) if had == have => {
                    let pairs = cidrs.items().zip(before);
                    pairs
                        .filter(|(c, b)| changed(c, b))
                        .for_each(|(c, _)| c.invalid(c.str(), IMMUTABLE));
                }
                (1, 2) => {
                    let first = cidrs.index(0);
                    if changed(&first, &before[0]) {
                        first.invalid(first.str(), IMMUTABLE);
                    }
                    ranges(range.field("spec"));
                }
                _ => cidrs.invalid(cidrs.shown(), IMMUTABLE),
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let cidrs = object.array_at(&["spec", "cidrs"]).iter();
        let cidrs: Vec<&str> = cidrs.filter_map(Value::as_str).collect();
        Some(vec![
            meta::name(object).into(),
            cidrs.join(",").into(),
            age(object, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }
}

fn ranges(spec: Cursor<'_>) {
    let cidrs = spec.field("cidrs");
    match cidrs.len() {
        0 => return cidrs.required("at least one CIDR required"),
        1 | 2 => {}
        _ => return cidrs.invalid(Value::from([("CIDRs", cidrs.shown())]), "may only hold up to 2 values"),
    }
    for cidr in cidrs.items() {
        cidr.invalid_text(names::cidr(cidr.str()));
    }
    let families: Option<Vec<bool>> = cidrs
        .items()
        .map(|c| names::parse_cidr(c.str()).map(|(a, _)| a.is_ipv6()))
        .collect();
    if families.is_some_and(|f| f.len() == 2 && f[0] == f[1]) {
        let detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        cidrs.invalid(cidrs.shown(), detail);
    }
}
