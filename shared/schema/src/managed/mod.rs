//! Field management: who owns which field of an object, and server-side apply.
//!
//! Contract: [`FieldManager::update`] runs on every create, update and patch, [`FieldManager::apply`] on apply patches;
//! what they leave in `metadata.managedFields`, and the errors of apply, equal kube-apiserver's
//! (k8s.io/apimachinery/pkg/util/managedfields over structured-merge-diff v6). Objects are trees in the version of the
//! request, built-in kinds normalised and defaulted.
//!
//! - [`element`] and [`set`]: paths and sets of them, FieldsV1;
//! - [`typed`]: a value seen through its type: field set, comparison, merge, removal;
//! - [`updater`]: what a write does to everyone's sets;
//! - [`entries`]: `managedFields` in and out;
//! - here: the chain around it, in upstream's order.

mod conflict;
pub mod element;
pub mod entries;
mod last_applied;
mod scale;
pub mod set;
pub mod typed;
mod updater;

use std::borrow::Cow;
use std::sync::LazyLock;

use triptych_object::{Gvk, Status, StatusResult, Value, meta};

pub use scale::ScaleFields;

use entries::{Entry, Managed, Manager, Operation};
use set::{FieldSet, Filter};
use typed::Typed;
use updater::Failure;

/// More updating managers than this are merged into [`ANCIENT`], oldest first.
const MAX_UPDATERS: usize = 10;

/// Who owns what the oldest updaters owned.
const ANCIENT: &str = "ancient-changes";

/// Who owns what stood before the first apply to an object without managers.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The manager for which the last-applied annotation counts.
const KUBECTL: &str = "kubectl";

/// What field management must know of the kind at hand. Versions are `apiVersion` texts.
pub trait Kind {
    /// The type of the object in a version; `None` if the version is unknown.
    fn typed(&self, api_version: &str) -> Option<Typed<'_>>;

    /// The object in another version.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;

    /// What does not count when writing in a version through this resource or subresource.
    fn reset(&self, api_version: &str) -> Option<&Filter>;

    /// A new object in the version of the request, against which a create is compared: `apiVersion`, `kind` and what a
    /// built-in kind always writes. The error is a whole sentence.
    fn empty(&self) -> Result<Value, String>;

    /// Decodes, normalises and defaults what an apply merged, in the version of the request.
    fn finish(&self, merged: Value) -> Result<Value, String>;
}

/// Manages the fields of one kind, written in one version through one (sub)resource.
#[derive(Clone, Copy)]
pub struct FieldManager<'k> {
    /// The kind.
    pub kind: &'k dyn Kind,
    /// Its name, in the version of the request.
    pub gvk: &'k Gvk,
    /// The same as `apiVersion` says it.
    pub api_version: &'k str,
    /// The subresource written through; empty for none.
    pub subresource: &'k str,
}

impl FieldManager<'_> {
    /// Heeds a create (`live` is [`Kind::empty`]), update or patch by `manager` at `now` (RFC 3339): sets
    /// `metadata.managedFields` of `new`. What a client sent there counts, except through a subresource. If owners cannot
    /// be determined the object is left without any, as upstream does.
    pub fn update(&self, live: &Value, new: &mut Value, manager: &str, now: &str) {
        let reset = self.subresource.is_empty() && entries::asks_for_reset(new);
        let sent = new.remove_at(&["metadata", "managedFields"]).unwrap_or_default();
        let managed = if reset {
            Managed::default()
        } else {
            let sent = match self.subresource {
                "" => Managed::decode(sent.as_array().unwrap_or_default())
                    .ok()
                    .filter(|m| !m.is_empty()),
                _ => None,
            };
            sent.or_else(|| Managed::decode(entries::list_of(live)).ok())
                .unwrap_or_default()
        };
        let list = self
            .updated(live, new, managed, manager, now)
            .ok()
            .and_then(Managed::encode);
        set_list(new, list);
    }

    /// Updates `managed` for a write of `new` over `live`.
    fn updated<'a>(
        &'a self,
        live: &'a Value,
        new: &'a Value,
        mut managed: Managed<'a>,
        manager: &'a str,
        now: &'a str,
    ) -> Result<Managed<'a>, String> {
        // Objects that nobody managed so far stay unmanaged until the first apply.
        if managed.is_empty() && !meta::uid(live).is_empty() {
            return Ok(managed);
        }
        let api_version = self.api_version;
        for object in [new, live] {
            let typed = self.kind.typed(api_version).ok_or("no corresponding type")?;
            typed.validate(object, true).map_err(|problems| problems.to_string())?;
        }
        let changed = updater::update(self.kind, live, new, api_version, &mut managed)?;
        let changed = without_identity(changed);
        if !changed.is_empty() {
            let name = if manager.is_empty() { "unknown" } else { manager };
            let manager = Manager::new(name, Operation::Update, api_version, self.subresource);
            let set = match managed.take(&manager) {
                Some(before) => changed.union(before.set),
                None => changed,
            };
            managed.put(Entry {
                manager,
                api_version: Cow::Borrowed(api_version),
                set,
                time: Some(Cow::Borrowed(now)),
            });
        }
        cap_updaters(&mut managed);
        Ok(managed)
    }

    /// Applies `config` to `live` ([`Kind::empty`] if there is none) for `manager` at `now` (RFC 3339). Gives the new
    /// object, finished, with its `metadata.managedFields`. `config` is as the client sent it.
    pub fn apply(&self, live: &Value, config: &Value, manager: &str, force: bool, now: &str) -> StatusResult<Value> {
        let managed = Managed::decode(entries::list_of(live))
            .map_err(|text| Status::unknown(format!("failed to decode managed fields: {text}")))?;
        let gvk = meta::gvk(config);
        if gvk != *self.gvk {
            return Err(Status::bad_request(format!("invalid object type: {gvk}")));
        }
        if config
            .at(&["metadata", "managedFields"])
            .is_some_and(|v| matches!(v, Value::Array(_)))
        {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let (mut object, list) = self.apply_as(live, config, managed, manager, force, now)?;
        set_list(&mut object, list);
        if manager == KUBECTL {
            last_applied::refresh(&mut object, config);
        }
        Ok(object)
    }

    /// Applies, granting kubectl the conflicts that its own last client-side apply explains.
    fn apply_as(
        &self,
        live: &Value,
        config: &Value,
        managed: Managed<'_>,
        manager: &str,
        force: bool,
        now: &str,
    ) -> StatusResult<(Value, Option<Value>)> {
        let merge = |managed, force| self.merge(live, config, managed, manager, force, now);
        let conflicts = match merge(managed.clone(), force) {
            Ok(merged) => return Ok(merged),
            Err(Refusal::Status(status)) => return Err(status),
            Err(Refusal::Conflicts(conflicts)) => conflicts,
        };
        let refuse = |conflicts: &conflict::Conflicts| Err(conflicts.status());
        if manager != KUBECTL {
            return refuse(&conflicts);
        }
        let Some(typed) = self.kind.typed(self.api_version) else {
            return refuse(&conflicts);
        };
        let Some(explained) = last_applied::explained(typed, live, self.api_version) else {
            return refuse(&conflicts);
        };
        let rest = conflicts.without(&explained);
        if !rest.is_empty() {
            return refuse(&rest);
        }
        match merge(managed, true) {
            Ok(merged) => Ok(merged),
            Err(Refusal::Status(status)) => Err(status),
            Err(Refusal::Conflicts(conflicts)) => Err(conflicts.status()),
        }
    }

    fn merge<'a>(
        &'a self,
        live: &'a Value,
        config: &'a Value,
        managed: Managed<'a>,
        manager: &'a str,
        force: bool,
        now: &'a str,
    ) -> Result<(Value, Option<Value>), Refusal> {
        let unknown = |text: String| Refusal::Status(Status::unknown(text));
        let empty;
        let mut managed = if managed.is_empty() {
            let tracked = |text: String| unknown(format!("failed to create manager for existing fields: {text}"));
            empty = self.kind.empty().map_err(tracked)?;
            self.updated(&empty, live, managed, BEFORE_FIRST_APPLY, now)
                .map_err(tracked)?
        } else {
            managed
        };
        let shown = || format!("{}/{}; {}", meta::namespace(config), meta::name(config), self.gvk);
        let api_version = self.api_version;
        let Some(typed) = self.kind.typed(api_version) else {
            let text = format!(
                "failed to create typed patch object ({}): no corresponding type for {}",
                shown(),
                self.gvk
            );
            return Err(unknown(text));
        };
        typed
            .validate(config, false)
            .map_err(|problems| unknown(format!("failed to create typed patch object ({}): {problems}", shown())))?;
        typed.validate(live, true).map_err(|problems| {
            let live = format!("{}/{}; {}", meta::namespace(live), meta::name(live), self.gvk);
            unknown(format!("failed to create typed live object ({live}): {problems}"))
        })?;
        let name = if manager.is_empty() { "unknown" } else { manager };
        let applier = Manager::new(name, Operation::Apply, api_version, self.subresource);
        let merged =
            updater::merge_and_prune(self.kind, live, config, api_version, &mut managed, &applier).map_err(unknown)?;
        let unchanged = typed::equal(live, &merged);
        // Sets of this version borrow from what they were compared with; `managed` must not outlive `merged`.
        let list = {
            let mut managed = managed;
            updater::take_over(self.kind, live, &merged, api_version, &mut managed, &applier, force).map_err(
                |failure| match failure {
                    Failure::Conflicts(conflicts) => Refusal::Conflicts(conflict::Conflicts::new(conflicts)),
                    Failure::Other(text) => unknown(text),
                },
            )?;
            if let Some(mut entry) = managed.take(&applier) {
                entry.set = without_identity(entry.set);
                if !unchanged {
                    entry.time = Some(Cow::Borrowed(now));
                }
                if !entry.set.is_empty() {
                    managed.put(entry);
                }
            }
            managed.encode()
        };
        if unchanged {
            return Ok((live.clone(), list));
        }
        let object = self.kind.finish(merged).map_err(|text| {
            unknown(format!(
                "failed to convert new object ({}) to proper version: {text}",
                shown()
            ))
        })?;
        Ok((object, list))
    }
}

enum Refusal {
    Conflicts(conflict::Conflicts),
    Status(Box<Status>),
}

fn set_list(object: &mut Value, list: Option<Value>) {
    match list {
        Some(list) => {
            meta::metadata_mut(object).insert("managedFields", list);
        }
        None => {
            object.remove_at(&["metadata", "managedFields"]);
        }
    }
}

/// Nobody owns what identifies an object or what the system alone writes.
fn without_identity(set: FieldSet<'_>) -> FieldSet<'_> {
    const NOBODYS: [&[&str]; 12] = [
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    static SET: LazyLock<FieldSet<'static>> = LazyLock::new(|| FieldSet::of_fields(&NOBODYS));
    set.difference(&SET)
}

/// Merges the oldest updaters of a version into one entry until there are no more than [`MAX_UPDATERS`].
fn cap_updaters(managed: &mut Managed<'_>) {
    let count = managed
        .entries
        .iter()
        .filter(|entry| entry.manager.operation == Operation::Update)
        .count();
    if count > MAX_UPDATERS {
        merge_oldest(managed, count);
    }
}

fn merge_oldest<'a>(managed: &mut Managed<'a>, mut count: usize) {
    let mut oldest: Vec<(i64, Vec<u8>, Manager<'a>)> = managed
        .entries
        .iter()
        .filter(|entry| entry.manager.operation == Operation::Update)
        .map(|entry| (entry.seconds(), entry.manager.sort_key(), entry.manager.clone()))
        .collect();
    oldest.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut first_of_version: Vec<(Cow<'a, str>, Manager<'a>)> = Vec::new();
    for (_, _, manager) in oldest {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(version) = managed.get(&manager).map(|entry| entry.api_version.clone()) else {
            continue;
        };
        let first = first_of_version
            .iter()
            .find(|(known, _)| *known == version)
            .map(|(_, first)| first.clone());
        let Some(first) = first else {
            first_of_version.push((version, manager));
            continue;
        };
        let bucket = Manager {
            name: Cow::Borrowed(ANCIENT),
            operation: Operation::Update,
            api_version: version.clone(),
            subresource: Cow::Borrowed(""),
        };
        if managed.get(&bucket).is_none()
            && let Some(entry) = managed.take(&first)
        {
            managed.put(Entry {
                manager: bucket.clone(),
                ..entry
            });
        }
        if let (Some(entry), Some(collected)) = (managed.take(&manager), managed.take(&bucket)) {
            let set = entry.set.union(collected.set);
            managed.put(Entry {
                manager: bucket,
                api_version: version,
                set,
                time: entry.time,
            });
        }
        count -= 1;
    }
}

/// Longest manager name, in bytes.
pub const MAX_MANAGER_BYTES: usize = 128;

/// The manager of a write: the `fieldManager` parameter or else what the user agent says before its first `/`, without
/// characters that do not print.
pub fn manager_name<'r>(field_manager: &'r str, user_agent: &'r str) -> Cow<'r, str> {
    if !field_manager.is_empty() {
        return Cow::Borrowed(field_manager);
    }
    let prefix = user_agent.split('/').next().unwrap_or_default();
    if prefix.len() <= MAX_MANAGER_BYTES && prefix.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Cow::Borrowed(prefix);
    }
    let mut name = String::new();
    for c in prefix
        .chars()
        .filter(|c| *c == ' ' || !(c.is_control() || c.is_whitespace()))
    {
        if name.len() + c.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        name.push(c);
    }
    Cow::Owned(name)
}

/// Takes back new timestamps if nothing else in the object changed, so that a write that changes nothing is none.
pub fn keep_old_times(old: &Value, new: &mut Value) {
    let (before, after) = (entries::list_of(old), entries::list_of(new));
    if before.len() != after.len() || after.is_empty() {
        return;
    }
    let time = |entry: &Value| entry.str_at(&["time"]).to_owned();
    if before.iter().zip(after).all(|(b, a)| time(b) == time(a)) {
        return;
    }
    let same = before
        .iter()
        .zip(after)
        .all(|(b, a)| same_but(b, a, "time", |_, _| true))
        && same_but(old, new, "metadata", |old, new| {
            same_but(old, new, "managedFields", |_, _| true)
        });
    if same {
        let list = Value::Array(before.to_vec());
        set_list(new, Some(list));
    }
}

/// Whether two maps are equal except for a member, about which `decide` decides.
fn same_but(a: &Value, b: &Value, member: &str, decide: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(a), Value::Object(b)) = (a, b) else {
        return a == b;
    };
    let others = |map: &triptych_object::Object| map.len() - usize::from(map.contains_key(member));
    others(a) == others(b)
        && a.iter().all(|(key, value)| key == member || b.get(key) == Some(value))
        && match (a.get(member), b.get(member)) {
            (Some(a), Some(b)) => decide(a, b),
            (None, None) => true,
            _ => decide(&Value::Null, &Value::Null),
        }
}

#[cfg(test)]
mod tests;
