//! Which kind has code of its own: strategies by group, resource and, where it matters, version and subresource.
//!
//! Each group's `mod.rs` has `register(kinds: &mut Kinds)`. A resource nobody registered is [`Plain`]. A name that the
//! schema texts lack is found by [`Kinds::unknown`], which a test runs over everything registered.

use std::collections::BTreeMap;
use std::sync::Arc;

use triptych_registry::Strategy;
use triptych_registry::strategy::Plain;
use triptych_schema::Table;

/// Group, resource, version (empty: all), subresource (empty: the resource itself).
type Key = (&'static str, &'static str, &'static str, &'static str);

/// The kinds with code.
#[derive(Default)]
pub struct Kinds {
    strategies: BTreeMap<Key, Arc<dyn Strategy>>,
}

impl Kinds {
    /// None yet.
    pub fn new() -> Kinds {
        Kinds::default()
    }

    /// Gives a resource its strategy in all versions.
    pub fn strategy(&mut self, group: &'static str, resource: &'static str, strategy: impl Strategy) {
        self.strategies.insert((group, resource, "", ""), Arc::new(strategy));
    }

    /// Gives a resource its strategy in one version.
    pub fn versioned(
        &mut self,
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        strategy: impl Strategy,
    ) {
        self.strategies
            .insert((group, resource, version, ""), Arc::new(strategy));
    }

    /// Gives a subresource that stores the kind (status, resize, approval …) its strategy in all versions.
    pub fn subresource(
        &mut self,
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        strategy: impl Strategy,
    ) {
        self.strategies
            .insert((group, resource, "", subresource), Arc::new(strategy));
    }

    /// Gives a subresource its strategy in one version.
    pub fn versioned_subresource(
        &mut self,
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        subresource: &'static str,
        strategy: impl Strategy,
    ) {
        self.strategies
            .insert((group, resource, version, subresource), Arc::new(strategy));
    }

    /// The strategy of a resource (empty `subresource`) or subresource. A version's own is preferred.
    pub fn find(&self, group: &str, version: &str, resource: &str, subresource: &str) -> Arc<dyn Strategy> {
        [version, ""]
            .iter()
            .find_map(|v| {
                self.strategies
                    .get(&(group, resource, *v, subresource) as &(&str, &str, &str, &str))
            })
            .cloned()
            .unwrap_or_else(|| Arc::new(Plain))
    }

    /// What was registered but is not in the schema table.
    pub fn unknown(&self, table: &Table) -> Vec<String> {
        let known = |(group, resource, version, subresource): &Key| {
            table.resources.iter().any(|r| {
                r.group == *group
                    && r.resource == *resource
                    && (version.is_empty() || r.version == *version)
                    && (subresource.is_empty() || r.subresource(subresource).is_some())
            })
        };
        self.strategies
            .keys()
            .filter(|key| !known(key))
            .map(|(group, resource, version, subresource)| format!("{group}/{version} {resource}/{subresource}"))
            .collect()
    }
}

/// Every kind of this tier that has code.
pub fn all() -> Kinds {
    let mut kinds = Kinds::new();
    crate::core::register(&mut kinds);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_registered_is_in_the_schema_texts() {
        let table = crate::schema::load().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(all().unknown(&table), Vec::<String>::new());
    }

    #[test]
    fn a_resource_without_code_is_plain() {
        let kinds = Kinds::new();
        assert!(
            kinds
                .find("", "v1", "configmaps", "")
                .cells(&triptych_object::Value::Null, jiff::Timestamp::UNIX_EPOCH)
                .is_none()
        );
    }
}
