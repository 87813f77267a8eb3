//! VolumeAttributesClass: what can be changed about volumes while they are used.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::parameters::{driver_name, parameters};
use crate::validation::{Cursor, check};

/// The strategy of `volumeattributesclasses`.
pub struct VolumeAttributesClasses;

impl Strategy for VolumeAttributesClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, whole);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            for member in ["driverName", "parameters"] {
                if class.field(member).value() != old.get(member) {
                    class
                        .field(member)
                        .forbidden(format!("updates to {member} are forbidden."));
                }
            }
            whole(class);
        });
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            meta::name(class).into(),
            class.str_at(&["driverName"]).into(),
            age(class, now).into(),
        ])
    }
}

fn whole(class: Cursor<'_>) {
    driver_name(class.field("driverName"));
    let given = class.field("parameters");
    parameters(given);
    if given.is_empty() {
        given.required("must contain at least one key/value pair");
    }
}
