//! Names of compute resources (`cpu`, `requests.storage`, `example.com/gpu`) and the quantities they may have.

use triptych_object::names;
use triptych_object::quantity::Quantity;
use triptych_object::resource_name::REQUESTS;
pub use triptych_object::resource_name::{is_extended, is_native};

use super::Cursor;

const HUGE_PAGES: &str = "hugepages-";

/// Measured in whole numbers.
const INTEGERS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Known to quota besides [`INTEGERS`].
const QUOTA: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// `hugepages-2Mi`.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

fn is_quota_huge_pages(name: &str) -> bool {
    is_huge_pages(name.strip_prefix(REQUESTS).unwrap_or(name))
}

/// Native and not huge pages: may be limited above what is requested.
pub fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// What a container itself can ask for.
pub fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name)
}

/// What quota can limit.
pub fn is_standard_for_quota(name: &str) -> bool {
    QUOTA.contains(&name) || INTEGERS.contains(&name) || is_quota_huge_pages(name)
}

/// Measured in whole numbers.
pub fn is_integer(name: &str) -> bool {
    INTEGERS.contains(&name) || is_extended(name)
}

/// The name of a resource anywhere; `cursor` is where it is named. True if nothing was found.
pub fn name(cursor: Cursor<'_>, name: &str) -> bool {
    let messages = names::qualified_name(name);
    if !messages.is_empty() {
        for message in messages {
            cursor.invalid(name, message);
        }
        return false;
    }
    if !name.contains('/') && !is_standard_for_quota(name) && name != "storage" {
        cursor.invalid(name, "must be a standard resource type or fully qualified");
        return false;
    }
    true
}

/// The name of a resource of a container.
pub fn container_name(cursor: Cursor<'_>, resource: &str) {
    name(cursor, resource);
    if !resource.contains('/') {
        if !is_standard_for_containers(resource) {
            cursor.invalid(resource, "must be a standard resource for containers");
        }
    } else if !is_native(resource) && !is_extended(resource) {
        cursor.invalid(resource, "doesn't follow extended resource name standard");
    }
}

/// The name of a resource in a quota.
pub fn quota_name(cursor: Cursor<'_>, resource: &str) {
    name(cursor, resource);
    if !resource.contains('/') && !is_standard_for_quota(resource) {
        cursor.invalid(resource, "must be a standard resource for quota");
    }
}

/// The quantity here, zero if absent or unreadable.
pub fn quantity(cursor: Cursor<'_>) -> Quantity {
    cursor.value().and_then(of).unwrap_or_else(Quantity::zero)
}

/// The quantity in a normalised document.
pub fn of(value: &triptych_object::Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

/// A quantity that is not negative.
pub fn non_negative(cursor: Cursor<'_>) {
    if quantity(cursor).sign() < 0 {
        cursor.invalid(cursor.str(), "must be greater than or equal to 0");
    }
}

/// A quantity above zero; true if it is.
pub fn positive(cursor: Cursor<'_>) -> bool {
    if quantity(cursor).sign() <= 0 {
        cursor.invalid(cursor.str(), "must be greater than zero");
        return false;
    }
    true
}

/// A quantity of a resource, whole where the resource is counted.
pub fn quantity_of(cursor: Cursor<'_>, resource: &str) {
    non_negative(cursor);
    if is_integer(resource) && !is_whole(&quantity(cursor)) {
        cursor.invalid(cursor.str(), "must be an integer");
    }
}

/// A whole number; what is too large to be counted in thousandths passes as one, as in Go.
pub fn is_whole(quantity: &Quantity) -> bool {
    quantity.as_f64().abs() >= (i64::MAX / 1000) as f64 || quantity.milli_value() % 1000 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_told_apart_by_their_names() {
        assert!(is_extended("example.com/gpu") && !is_extended("kubernetes.io/gpu") && !is_extended("cpu"));
        assert!(is_standard_for_quota("requests.hugepages-2Mi") && !is_standard_for_quota("storage"));
        assert!(is_integer("pods") && is_integer("example.com/gpu") && !is_integer("memory"));
        assert!(!is_overcommit_allowed("hugepages-2Mi") && is_overcommit_allowed("memory"));
    }
}
