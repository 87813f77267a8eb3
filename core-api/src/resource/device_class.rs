//! DeviceClass: devices of a kind, as administrators define it.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::requests::{MAX_CONFIGURATIONS, device_configuration, selectors};
use super::texts::within;
use crate::validation::{check, resource_names};

/// The strategy of `deviceclasses`.
pub struct DeviceClasses;

impl Strategy for DeviceClasses {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |class| {
            let spec = class.field("spec");
            selectors(spec.field("selectors"));
            let configurations = spec.field("config");
            if within(configurations, MAX_CONFIGURATIONS) {
                configurations.items().for_each(device_configuration);
            }
            if let Some(name) = spec.given("extendedResourceName")
                && !resource_names::is_extended(name.str())
            {
                name.invalid(name.str(), "must be a valid extended resource name");
            }
        });
    }

    fn validate_update(&self, cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        self.validate_create(cx, new, errors);
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![meta::name(class).into(), age(class, now).into()])
    }
}
