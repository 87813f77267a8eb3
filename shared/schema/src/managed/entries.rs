//! `metadata.managedFields`: reading it into sets and writing it back in Kubernetes' order.

use std::borrow::Cow;
use std::collections::HashSet;

use triptych_object::value::Object;
use triptych_object::{Value, json, time};

use super::set::FieldSet;

/// How an entry came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }
    }
}

/// Who owns fields. Appliers are told apart without their API version, so that each has one entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Manager<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// How it writes.
    pub operation: Operation,
    /// The version it writes in; empty for [`Operation::Apply`].
    pub api_version: Cow<'a, str>,
    /// The subresource it writes through; empty for none.
    pub subresource: Cow<'a, str>,
}

impl<'a> Manager<'a> {
    /// The identity of a writer.
    pub fn new(name: &'a str, operation: Operation, api_version: &'a str, subresource: &'a str) -> Manager<'a> {
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Manager {
            name: Cow::Borrowed(name),
            operation,
            api_version: Cow::Borrowed(api_version),
            subresource: Cow::Borrowed(subresource),
        }
    }

    /// The JSON text by which Kubernetes sorts managers.
    pub fn sort_key(&self) -> Vec<u8> {
        let mut out = Object::new();
        let mut set = |key: &str, text: &str| {
            if !text.is_empty() {
                out.insert(key, text.into());
            }
        };
        set("manager", &self.name);
        set("operation", self.operation.text());
        set("apiVersion", &self.api_version);
        set("subresource", &self.subresource);
        json::to_vec(&Value::Object(out))
    }
}

/// One manager and the fields it owns.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Who.
    pub manager: Manager<'a>,
    /// The version the paths are of.
    pub api_version: Cow<'a, str>,
    /// What.
    pub set: FieldSet<'a>,
    /// When it last changed (RFC 3339).
    pub time: Option<Cow<'a, str>>,
}

impl Entry<'_> {
    /// The time in seconds, 0 if there is none.
    pub fn seconds(&self) -> i64 {
        self.time
            .as_deref()
            .and_then(time::parse_rfc3339)
            .map_or(0, |t| t.as_second())
    }
}

/// Everyone who owns fields of an object.
#[derive(Clone, Debug, Default)]
pub struct Managed<'a> {
    /// In no particular order; no two have the same manager.
    pub entries: Vec<Entry<'a>>,
}

impl<'a> Managed<'a> {
    /// Reads a `managedFields` list; the error text is Kubernetes'.
    pub fn decode(list: &'a [Value]) -> Result<Managed<'a>, String> {
        let mut managed = Managed {
            entries: Vec::with_capacity(list.len() + 1),
        };
        for (i, entry) in list.iter().enumerate() {
            let operation = match entry.str_at(&["operation"]) {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = entry.str_at(&["apiVersion"]);
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            match entry.str_at(&["fieldsType"]) {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {i}")),
                odd => {
                    let odd = triptych_object::field::quote(odd);
                    return Err(format!("invalid fieldsType {odd} in managed fields entry {i}"));
                }
            }
            let set = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::new(),
                Some(fields) => FieldSet::from_value(fields).map_err(|e| {
                    format!(
                        "error decoding versioned set from {}: error decoding set: {e}",
                        shown(entry)
                    )
                })?,
            };
            let manager = Manager::new(
                entry.str_at(&["manager"]),
                operation,
                api_version,
                entry.str_at(&["subresource"]),
            );
            let time = entry.get("time").and_then(Value::as_str).map(Cow::Borrowed);
            managed.entries.push(Entry {
                manager,
                api_version: Cow::Borrowed(api_version),
                set,
                time,
            });
        }
        managed.keep_last();
        Ok(managed)
    }

    /// Of entries with the same manager only the last counts.
    fn keep_last(&mut self) {
        let mut seen = HashSet::with_capacity(self.entries.len());
        let mut last: Vec<bool> = self
            .entries
            .iter()
            .rev()
            .map(|entry| seen.insert(&entry.manager))
            .collect();
        self.entries.retain(|_| last.pop().unwrap_or(true));
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of a manager.
    pub fn get(&self, manager: &Manager<'_>) -> Option<&Entry<'a>> {
        self.entries.iter().find(|entry| entry.manager == *manager)
    }

    /// Takes a manager's entry out.
    pub fn take(&mut self, manager: &Manager<'_>) -> Option<Entry<'a>> {
        let at = self.entries.iter().position(|entry| entry.manager == *manager)?;
        Some(self.entries.swap_remove(at))
    }

    /// Adds an entry, in the place of one with the same manager.
    pub fn put(&mut self, entry: Entry<'a>) {
        match self.entries.iter_mut().find(|known| known.manager == entry.manager) {
            Some(known) => *known = entry,
            None => self.entries.push(entry),
        }
    }

    /// The list as it is stored; `None` if nobody owns anything.
    pub fn encode(mut self) -> Option<Value> {
        if self.entries.is_empty() {
            return None;
        }
        if self.entries.len() > 1 {
            self.entries.sort_by(|a, b| {
                (a.manager.operation.cmp(&b.manager.operation))
                    .then_with(|| a.seconds().cmp(&b.seconds()))
                    .then_with(|| a.manager.name.cmp(&b.manager.name))
                    .then_with(|| a.api_version.cmp(&b.api_version))
                    .then_with(|| a.manager.subresource.cmp(&b.manager.subresource))
            });
        }
        Some(Value::Array(self.entries.iter().map(encode_entry).collect()))
    }
}

fn encode_entry(entry: &Entry<'_>) -> Value {
    let mut out = Object::with_capacity(7);
    if !entry.manager.name.is_empty() {
        out.insert("manager", (*entry.manager.name).into());
    }
    out.insert("operation", entry.manager.operation.text().into());
    out.insert("apiVersion", (*entry.api_version).into());
    if let Some(time) = &entry.time {
        out.insert("time", (**time).into());
    }
    out.insert("fieldsType", "FieldsV1".into());
    out.insert("fieldsV1", entry.set.to_value());
    if !entry.manager.subresource.is_empty() {
        out.insert("subresource", (*entry.manager.subresource).into());
    }
    Value::Object(out)
}

/// An entry as Go's `%v` prints it, without its fields.
fn shown(entry: &Value) -> String {
    let text = |member: &str| entry.str_at(&[member]).to_owned();
    format!(
        "{{{} {} {} {} {} {}}}",
        text("manager"),
        text("operation"),
        text("apiVersion"),
        text("time"),
        text("fieldsType"),
        text("subresource")
    )
}

/// The list in `metadata.managedFields`, empty if there is none.
pub fn list_of(object: &Value) -> &[Value] {
    object.array_at(&["metadata", "managedFields"])
}

/// Whether a `managedFields` list can be read: what mutating admission may leave behind. The error text is Kubernetes'.
pub fn check(list: &[Value]) -> Result<(), String> {
    Managed::decode(list).map(drop)
}

/// Whether a request asks to forget all owners: `[]` or `[{}]`.
pub fn asks_for_reset(object: &Value) -> bool {
    match object.at(&["metadata", "managedFields"]).and_then(Value::as_array) {
        Some([]) => true,
        Some([Value::Object(only)]) => only.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Value {
        json::from_slice(text.as_bytes()).unwrap()
    }

    #[test]
    fn entries_are_written_appliers_first_then_by_time_and_name() {
        let v = list(
            r#"[{"manager":"b","operation":"Update","apiVersion":"v1","time":"2026-01-02T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:a":{}}},
                {"manager":"a","operation":"Update","apiVersion":"v1","time":"2026-01-02T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}},"subresource":"status"},
                {"manager":"c","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:c":{}}},
                {"manager":"z","operation":"Apply","apiVersion":"v1","time":"2026-01-03T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:d":{}}}]"#,
        );
        let out = Managed::decode(v.as_array().unwrap()).unwrap().encode().unwrap();
        let names: Vec<_> = out.as_array().unwrap().iter().map(|e| e.str_at(&["manager"])).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
        assert_eq!(
            json::to_string(&out.as_array().unwrap()[2]),
            r#"{"manager":"a","operation":"Update","apiVersion":"v1","time":"2026-01-02T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:b":{}},"subresource":"status"}"#
        );
    }

    #[test]
    fn bad_entries_are_refused() {
        for (text, want) in [
            (r#"[{"manager":"a"}]"#, "operation must be `Apply` or `Update`"),
            (r#"[{"operation":"Apply"}]"#, "apiVersion must not be empty"),
            (
                r#"[{"operation":"Apply","apiVersion":"v1"}]"#,
                "missing fieldsType in managed fields entry 0",
            ),
            (
                r#"[{"operation":"Apply","apiVersion":"v1","fieldsType":"X"}]"#,
                "invalid fieldsType \"X\" in managed fields entry 0",
            ),
        ] {
            assert_eq!(check(list(text).as_array().unwrap()).unwrap_err(), want);
        }
    }

    #[test]
    fn of_a_managers_entries_the_last_counts() {
        let entry = |field: &str| {
            format!(
                r#"{{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{"f:{field}":{{}}}}}}"#
            )
        };
        let v = list(&format!(
            "[{},{},{}]",
            entry("x"),
            entry("y").replace("\"a\"", "\"b\""),
            entry("z")
        ));
        let managed = Managed::decode(v.as_array().unwrap()).unwrap();
        let sets: Vec<_> = managed
            .entries
            .iter()
            .map(|e| json::to_string(&e.set.to_value()))
            .collect();
        assert_eq!(sets, [r#"{"f:y":{}}"#, r#"{"f:z":{}}"#]);
    }

    #[test]
    fn an_empty_list_or_entry_asks_for_a_reset() {
        for (text, want) in [
            (r#"{"metadata":{"managedFields":[]}}"#, true),
            (r#"{"metadata":{"managedFields":[{}]}}"#, true),
            (r#"{"metadata":{"managedFields":[{},{}]}}"#, false),
            (r#"{"metadata":{}}"#, false),
        ] {
            assert_eq!(asks_for_reset(&list(text)), want, "{text}");
        }
    }
}
