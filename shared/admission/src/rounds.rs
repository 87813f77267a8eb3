//! Mutating twice: what was changed after a plugin had seen the object may have to be shown to it again.
//!
//! Contract (KEP-492): if a webhook or policy changed the object, all plugins mutate once more; of webhooks and
//! policies only those that ask for it (`reinvocationPolicy: IfNeeded`), that ran in the first round, and after which
//! the object was changed by somebody.

use std::collections::{BTreeMap, BTreeSet};

use triptych_object::Value;

/// The rounds of one request.
#[derive(Default)]
pub struct Rounds {
    second: bool,
    wanted: bool,
    memories: BTreeMap<&'static str, Memory>,
}

/// What a plugin remembers of the first round.
#[derive(Default)]
pub struct Memory {
    last: Option<Value>,
    invoked: BTreeSet<String>,
    again: BTreeSet<String>,
}

impl Rounds {
    /// Whether this is the second round.
    pub fn is_second(&self) -> bool {
        self.second
    }

    /// Asks for a second round.
    pub fn want_second(&mut self) {
        self.wanted = true;
    }

    /// Begins the second round, if it is wanted and was not yet.
    pub(crate) fn next(&mut self) -> bool {
        let next = self.wanted && !self.second;
        self.second |= next;
        next
    }

    /// What a plugin remembers.
    pub fn memory(&mut self, plugin: &'static str) -> &mut Memory {
        self.memories.entry(plugin).or_default()
    }
}

impl Memory {
    /// Begins a second round of the plugin: if others changed the object since, all who asked for it see it again.
    pub fn begin_second(&mut self, object: Option<&Value>) {
        if self.last.as_ref() != object {
            self.changed();
        }
    }

    /// Ends a round of the plugin.
    pub fn end(&mut self, object: Option<&Value>) {
        self.last = object.cloned();
    }

    /// The object was changed: who was invoked before and asked for it sees it again.
    pub fn changed(&mut self) {
        self.again.append(&mut self.invoked);
    }

    /// Somebody ran who asks to run again if the object changes afterwards.
    pub fn invoked(&mut self, who: &str) {
        self.invoked.insert(who.to_owned());
    }

    /// Whether somebody runs in the second round.
    pub fn runs_again(&self, who: &str) -> bool {
        self.again.contains(who)
    }
}
