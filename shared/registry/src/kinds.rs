//! Which kind has code of its own: strategies, actions, conversions and the rest, by group and resource.
//!
//! Each group of a tier has `register(kinds: &mut Kinds, …)`. A resource nobody registered is [`Plain`]. A name that the
//! schema texts lack is found by [`Kinds::unknown`], which a test of each tier runs over everything registered.

use std::collections::BTreeMap;
use std::sync::Arc;

use triptych_schema::Table;

use crate::builtin::Conversion;
use crate::endpoint::{Action, Responder};
use crate::strategy::{Plain, Strategy};

/// Group, resource, version (empty: all), subresource (empty: the resource itself).
type Key = (&'static str, &'static str, &'static str, &'static str);

/// A field label whose value lies elsewhere than at the path of the same name.
type Alias = (&'static str, &'static [&'static str]);

/// The kinds with code.
#[derive(Default)]
pub struct Kinds {
    strategies: BTreeMap<Key, Arc<dyn Strategy>>,
    actions: BTreeMap<Key, Arc<dyn Action>>,
    responders: BTreeMap<Key, Arc<dyn Responder>>,
    conversions: BTreeMap<Key, Arc<dyn Conversion>>,
    aliases: BTreeMap<(&'static str, &'static str), Vec<Alias>>,
    indexes: BTreeMap<(&'static str, &'static str), Vec<&'static str>>,
}

fn find<T: ?Sized>(
    map: &BTreeMap<Key, Arc<T>>,
    group: &str,
    version: &str,
    resource: &str,
    subresource: &str,
) -> Option<Arc<T>> {
    let at = |v| map.get(&(group, resource, v, subresource) as &(&str, &str, &str, &str));
    at(version).or_else(|| at("")).cloned()
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

    /// What is posted to a subresource (or, with an empty one, to the resource) is not stored but done.
    pub fn action(
        &mut self,
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        action: impl Action,
    ) {
        self.actions
            .insert((group, resource, "", subresource), Arc::new(action));
    }

    /// A subresource (or, with an empty one, a resource) that answers in its own way.
    pub fn responder(
        &mut self,
        group: &'static str,
        resource: &'static str,
        subresource: &'static str,
        responder: impl Responder,
    ) {
        self.responders
            .insert((group, resource, "", subresource), Arc::new(responder));
    }

    /// How a version that is not the stored one is converted.
    pub fn conversion(
        &mut self,
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        conversion: impl Conversion,
    ) {
        self.conversions
            .insert((group, resource, version, ""), Arc::new(conversion));
    }

    /// A field label of a collection (named as it is stored) whose value is the first of `paths` that is set.
    pub fn field(
        &mut self,
        group: &'static str,
        resource: &'static str,
        label: &'static str,
        paths: &'static [&'static str],
    ) {
        self.aliases.entry((group, resource)).or_default().push((label, paths));
    }

    /// A field label that the watch cache indexes, for lists and watches that ask for one value.
    pub fn index(&mut self, group: &'static str, resource: &'static str, label: &'static str) {
        self.indexes.entry((group, resource)).or_default().push(label);
    }

    /// The strategy of a resource (empty `subresource`) or subresource. A version's own is preferred; a subresource
    /// without one has that of its resource's place: none.
    pub fn find(&self, group: &str, version: &str, resource: &str, subresource: &str) -> Arc<dyn Strategy> {
        find(&self.strategies, group, version, resource, subresource).unwrap_or_else(|| Arc::new(Plain))
    }

    pub(crate) fn find_action(&self, group: &str, resource: &str, subresource: &str) -> Option<Arc<dyn Action>> {
        find(&self.actions, group, "", resource, subresource)
    }

    pub(crate) fn find_responder(&self, group: &str, resource: &str, subresource: &str) -> Option<Arc<dyn Responder>> {
        find(&self.responders, group, "", resource, subresource)
    }

    pub(crate) fn find_conversion(&self, group: &str, version: &str, resource: &str) -> Option<Arc<dyn Conversion>> {
        find(&self.conversions, group, version, resource, "")
    }

    pub(crate) fn paths_of(&self, group: &str, resource: &str, label: &str) -> Option<&'static [&'static str]> {
        let aliases = self.aliases.get(&(group, resource) as &(&str, &str))?;
        aliases.iter().find(|(l, _)| *l == label).map(|(_, paths)| *paths)
    }

    pub(crate) fn is_indexed(&self, group: &str, resource: &str, label: &str) -> bool {
        self.indexes
            .get(&(group, resource) as &(&str, &str))
            .is_some_and(|labels| labels.contains(&label))
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
        let keys = self
            .strategies
            .keys()
            .chain(self.actions.keys())
            .chain(self.responders.keys())
            .chain(self.conversions.keys());
        keys.filter(|key| !known(key))
            .map(|(group, resource, version, subresource)| format!("{group}/{version} {resource}/{subresource}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_without_code_is_plain() {
        let kinds = Kinds::new();
        let plain = kinds.find("", "v1", "configmaps", "");
        assert!(
            plain
                .cells(&triptych_object::Value::Null, jiff::Timestamp::UNIX_EPOCH)
                .is_none()
        );
    }
}
