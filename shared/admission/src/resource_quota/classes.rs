//! Device classes by the extended resources that stand for them (KEP-5004).

use std::collections::BTreeMap;
use std::sync::Arc;

use triptych_object::{Value, meta};

use crate::lookup::{Facts, Lookup};

/// What is needed of a DeviceClass.
pub struct DeviceClass {
    name: String,
    extended_resource: String,
}

impl Facts for DeviceClass {
    fn of(object: &Value) -> DeviceClass {
        DeviceClass {
            name: meta::name(object).to_owned(),
            extended_resource: object.str_at(&["spec", "extendedResourceName"]).to_owned(),
        }
    }
}

/// The extended resource of each class that has one.
#[derive(Clone, Debug, Default)]
pub struct Classes(BTreeMap<String, String>);

impl Classes {
    /// All there are; none where they cannot be told.
    pub fn of(lookup: Option<&Arc<dyn Lookup<DeviceClass>>>) -> Classes {
        let known = lookup.and_then(|lookup| lookup.all("").ok()).unwrap_or_default();
        let named = known.iter().filter(|class| !class.extended_resource.is_empty());
        Classes(named.map(|c| (c.name.clone(), c.extended_resource.clone())).collect())
    }

    /// What stands for a class.
    pub fn extended_resource(&self, class: &str) -> Option<&str> {
        self.0.get(class).map(String::as_str)
    }

    /// Whether an extended resource stands for a class.
    pub fn stands_for_one(&self, resource: &str) -> bool {
        self.0.values().any(|name| name == resource)
    }
}
