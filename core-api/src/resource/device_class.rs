//! DeviceClass: devices of a kind, as administrators define it.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta};
use triptych_registry::age::age;
use triptych_registry::object_meta::{self, Naming};
use triptych_registry::strategy::{Context, Strategy};
use triptych_schema::resource::NameRule;

use super::requests::{MAX_CONFIGURATIONS, device_configuration, selectors};
use super::texts::within;
use crate::validation::{check, resource_names};

/// The strategy of `deviceclasses`.
pub struct DeviceClasses;

impl Strategy for DeviceClasses {
    fn meta_checks_on_create(&self) -> bool {
        false
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        // only the name that was made of it is looked at, not the prefix
        let mut metadata = new.get("metadata").cloned().unwrap_or_else(Value::object);
        metadata.remove_at(&["generateName"]);
        let naming = Naming::Kind(NameRule::Subdomain, None);
        object_meta::validate(&Value::from([("metadata", metadata)]), false, naming, errors);
        validate_spec(new, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        validate_spec(new, errors);
    }

    fn cells(&self, class: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![meta::name(class).into(), age(class, now).into()])
    }
}

fn validate_spec(new: &Value, errors: &mut ErrorList) {
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
