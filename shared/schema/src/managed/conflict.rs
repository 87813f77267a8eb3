//! What apply answers when fields of others would change.

use triptych_object::field::quote;
use triptych_object::{Cause, Status};

use super::entries::{Manager, Operation};
use super::set::{FieldSet, ShownPath};
use super::updater::Conflict;

/// Conflicts in the order of their managers and, of one manager, of their paths; owned texts.
pub struct Conflicts(Vec<Shown>);

struct Shown {
    manager: String,
    path: String,
    /// The path by itself, to compare it with others.
    set: FieldSet<'static>,
}

impl Conflicts {
    pub fn new(conflicts: Vec<Conflict<'_>>) -> Conflicts {
        Conflicts(
            conflicts
                .into_iter()
                .map(|conflict| {
                    let path = ShownPath(&conflict.path).to_string();
                    let mut set = FieldSet::new();
                    set.insert(&conflict.path);
                    Shown {
                        manager: describe(&conflict.manager),
                        path,
                        set: set.into_owned(),
                    }
                })
                .collect(),
        )
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those whose path is not in `allowed`.
    pub fn without(self, allowed: &FieldSet<'_>) -> Conflicts {
        Conflicts(
            self.0
                .into_iter()
                .filter(|conflict| !conflict.set.clone().difference(allowed).is_empty())
                .collect(),
        )
    }

    /// 409, with a cause for each conflict.
    pub fn status(&self) -> Box<Status> {
        let causes = self
            .0
            .iter()
            .map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: format!("conflict with {}", conflict.manager),
                field: conflict.path.clone(),
            })
            .collect();
        Status::apply_conflict(causes, self.message())
    }

    fn message(&self) -> String {
        if let [only] = self.0.as_slice() {
            return format!(
                "Apply failed with 1 conflict: conflict with {}: {}",
                only.manager, only.path
            );
        }
        let mut lines = Vec::new();
        let mut last = None;
        for conflict in &self.0 {
            if last != Some(&conflict.manager) {
                lines.push(format!("conflicts with {}:", conflict.manager));
                last = Some(&conflict.manager);
            }
            lines.push(format!("- {}", conflict.path));
        }
        format!("Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

/// `"name" with subresource "status" using v1`.
fn describe(manager: &Manager<'_>) -> String {
    let mut out = quote(&manager.name);
    if !manager.subresource.is_empty() {
        out = format!("{out} with subresource {}", quote(&manager.subresource));
    }
    if manager.operation == Operation::Update {
        out = format!("{out} using {}", manager.api_version);
    }
    out
}
