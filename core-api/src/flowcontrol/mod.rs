//! `flowcontrol.apiserver.k8s.io`: which requests are served first when there are many.

mod flow_schema;
pub mod policy;
mod priority_level;

use triptych_object::Value;

use crate::kinds::Kinds;
use crate::validation::Cursor;

/// The group.
pub const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Gives the kinds of this group their strategies.
pub fn register(kinds: &mut Kinds) {
    kinds.strategy(GROUP, "flowschemas", flow_schema::FlowSchemas);
    kinds.subresource(GROUP, "flowschemas", "status", flow_schema::Status);
    kinds.strategy(GROUP, "prioritylevelconfigurations", priority_level::PriorityLevels);
    kinds.subresource(GROUP, "prioritylevelconfigurations", "status", priority_level::Status);
}

/// Conditions have types, each once.
fn conditions(status: Cursor<'_>) {
    let mut seen = std::collections::HashSet::new();
    for condition in status.field("conditions").items() {
        let kind = condition.field("type");
        if !seen.insert(kind.str()) {
            kind.duplicate(kind.str());
        }
        if kind.is_empty() {
            kind.required("");
        }
    }
}

/// The list as it stands has `*`.
fn has_wildcard(list: Cursor<'_>) -> bool {
    list.value()
        .and_then(Value::as_array)
        .is_some_and(|items| items.iter().any(|i| i.as_str() == Some("*")))
}
