//! `apiregistration.k8s.io`: APIServices, their rules, who registers them, whether they are available, and the proxy to
//! the servers behind them.

pub mod availability;
pub mod claims;
pub mod condition;
pub mod custom_groups;
pub mod metrics;
pub mod record;
pub mod registration;
pub mod remotes;
pub mod resolve;
pub mod strategy;

use triptych_registry::Kinds;
use triptych_registry::loopback::Target;

/// The API group.
pub const GROUP: &str = "apiregistration.k8s.io";
/// Its resource.
pub const RESOURCE: &str = "apiservices";

/// What their keys begin with, before the name.
pub const KEYS: &str = "/apiregistration.k8s.io/apiservices";

/// Where APIServices are.
pub const TARGET: Target<'static> = Target {
    group: GROUP,
    version: "v1",
    resource: RESOURCE,
    namespace: "",
};

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy(GROUP, RESOURCE, strategy::ApiServices);
    kinds.subresource(GROUP, RESOURCE, "status", strategy::Status);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_registered_is_in_the_schema_text() {
        let table = crate::schema::load().unwrap_or_else(|e| panic!("{e}"));
        let mut kinds = Kinds::new();
        register(&mut kinds);
        assert_eq!(kinds.unknown(&table), Vec::<String>::new());
    }
}
