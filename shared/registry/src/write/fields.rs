//! Field management on writes: what the registry knows of a kind, told to `triptych_schema::managed`.

use std::borrow::Cow;
use std::sync::OnceLock;

use http::header::USER_AGENT;
use jiff::Timestamp;
use triptych_object::{Status, StatusResult, Value, time};
use triptych_schema::decode::Reader;
use triptych_schema::managed::set::Filter;
use triptych_schema::managed::typed::Typed;
use triptych_schema::managed::{FieldManager, Kind};

use crate::model::Model;
use crate::options::manager_of_agent;
use crate::request::Request;

/// What field management needs of a kind besides its model, computed once.
#[derive(Default)]
pub struct FieldRules {
    /// For each subresource (empty: the resource itself) and version, what writes through it do not own.
    pub reset: Vec<(String, String, Filter)>,
    empty: OnceLock<Result<Value, String>>,
}

impl FieldRules {
    /// Rules of a kind some of whose fields writes do not own.
    pub fn new(reset: Vec<(String, String, Filter)>) -> FieldRules {
        FieldRules {
            reset,
            empty: OnceLock::new(),
        }
    }
}

/// Whose fields are managed in one request.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// The kind.
    pub model: &'a dyn Model,
    /// Its rules.
    pub rules: &'a FieldRules,
    /// The request that writes.
    pub request: &'a Request,
    /// Its time.
    pub now: Timestamp,
}

impl Kind for Fields<'_> {
    fn typed(&self, api_version: &str) -> Option<Typed<'_>> {
        let (schema, ty) = self.model.schema_of(api_version)?;
        Some(Typed::object(schema, ty))
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        self.model.convert(object, api_version)
    }

    fn reset(&self, api_version: &str) -> Option<&Filter> {
        let sub = &self.request.info.subresource;
        self.rules
            .reset
            .iter()
            .find(|(s, version, _)| s == sub && version == api_version)
            .map(|(_, _, f)| f)
    }

    fn empty(&self) -> Result<Value, String> {
        let make = || {
            let gvk = self.model.gvk();
            let mut empty = Value::from([
                ("apiVersion", gvk.group_version().to_string().into()),
                ("kind", gvk.kind.as_str().into()),
            ]);
            self.model.decode(&mut empty, Reader::Json(&[])).map(|_| empty)
        };
        self.rules.empty.get_or_init(make).clone()
    }

    fn finish(&self, mut merged: Value) -> Result<Value, String> {
        self.model.decode_applied(&mut merged)?;
        self.model.default(&mut merged);
        self.model.settle(&mut merged);
        self.model.through_store(&mut merged);
        Ok(merged)
    }
}

impl Fields<'_> {
    /// The manager of the request: the one it names, else its user agent.
    fn manager(&self, named: &str) -> String {
        if !named.is_empty() {
            return named.to_owned();
        }
        let agent = self
            .request
            .headers
            .get(USER_AGENT)
            .map(|v| String::from_utf8_lossy(v.as_bytes()));
        manager_of_agent(agent.as_deref().unwrap_or(""))
    }

    fn live<'v>(&self, live: Option<&'v Value>) -> StatusResult<Cow<'v, Value>> {
        match live {
            Some(live) => Ok(Cow::Borrowed(live)),
            None => self.empty().map(Cow::Owned).map_err(Status::unknown),
        }
    }

    fn managed<'f>(&'f self, api_version: &'f str) -> FieldManager<'f> {
        FieldManager {
            kind: self,
            gvk: self.model.gvk(),
            api_version,
            subresource: &self.request.info.subresource,
        }
    }

    /// Notes who owns what after a create (no `live`), update or patch.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, named: &str) -> StatusResult<()> {
        let live = self.live(live)?;
        let api_version = self.model.gvk().group_version().to_string();
        self.managed(&api_version)
            .update(&live, new, &self.manager(named), &time::rfc3339(self.now));
        Ok(())
    }

    /// Applies a configuration to the live object (or to nothing).
    pub fn apply(&self, live: Option<&Value>, configuration: &Value, named: &str, force: bool) -> StatusResult<Value> {
        let live = self.live(live)?;
        let api_version = self.model.gvk().group_version().to_string();
        self.managed(&api_version).apply(
            &live,
            configuration,
            &self.manager(named),
            force,
            &time::rfc3339(self.now),
        )
    }
}

/// If nothing but the times of managedFields differs, the old times stay, so that the write is none.
pub fn ignore_timestamps(new: &mut Value, old: &Value) {
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    let (Some(after), Some(before)) = (new.at(&PATH), old.at(&PATH)) else {
        return;
    };
    if after == before || !equal_but_times(after, before) || !equal_elsewhere(new, old) {
        return;
    }
    let before = before.clone();
    new.set_at(&PATH, before);
}

fn equal_but_times(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_array(), b.as_array()) else {
        return false;
    };
    let same = |x: &Value, y: &Value| match (x.as_object(), y.as_object()) {
        (Some(x), Some(y)) => {
            let covers = |p: &triptych_object::Object, q: &triptych_object::Object| {
                p.iter().all(|(k, v)| k == "time" || q.get(k) == Some(v))
            };
            covers(x, y) && covers(y, x)
        }
        _ => false,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| same(x, y))
}

fn equal_elsewhere(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (a.as_object(), b.as_object()) else {
        return false;
    };
    a.len() == b.len()
        && a.iter().all(|(key, value)| match (key, b.get(key)) {
            (_, None) => false,
            ("metadata", Some(other)) => match (value.as_object(), other.as_object()) {
                (Some(m), Some(n)) => {
                    m.len() == n.len() && m.iter().all(|(k, v)| k == "managedFields" || n.get(k) == Some(v))
                }
                _ => false,
            },
            (_, Some(other)) => value == other,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn only_a_write_that_changes_nothing_else_keeps_the_old_times() {
        let parse = |t: &str| json::from_slice(t.as_bytes()).unwrap();
        let old = parse(r#"{"metadata":{"name":"a","managedFields":[{"manager":"m","time":"1"}]},"data":{}}"#);
        let mut same = parse(r#"{"metadata":{"name":"a","managedFields":[{"manager":"m","time":"2"}]},"data":{}}"#);
        ignore_timestamps(&mut same, &old);
        assert_eq!(same, old);
        let mut other =
            parse(r#"{"metadata":{"name":"a","managedFields":[{"manager":"m","time":"2"}]},"data":{"k":"v"}}"#);
        ignore_timestamps(&mut other, &old);
        assert_eq!(other.array_at(&["metadata", "managedFields"])[0].str_at(&["time"]), "2");
    }
}
