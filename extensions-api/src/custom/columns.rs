//! The columns a table of custom resources shows: the name, and what `additionalPrinterColumns` finds.

use jiff::Timestamp;
use triptych_object::{Value, json, meta, time};
use triptych_registry::age;
use triptych_schema::resource::Column;

use super::json_path::JsonPath;

/// The columns of one version.
pub struct Columns {
    /// As a table describes them, `Name` first.
    pub described: Vec<Column>,
    paths: Vec<JsonPath>,
}

impl Columns {
    /// Reads `additionalPrinterColumns`; without any the age is shown. A path that does not parse ends the list, as it
    /// does in kube-apiserver.
    pub fn read(columns: &[Value]) -> Columns {
        let mut read = Columns {
            described: vec![Column {
                name: "Name".into(),
                kind: "string".into(),
                format: "name".into(),
                ..Column::default()
            }],
            paths: Vec::new(),
        };
        if columns.is_empty() {
            read.push("Age", "date", "", 0, ".metadata.creationTimestamp");
        }
        for column in columns {
            let text = |name: &str| column.str_at(&[name]);
            let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
            let priority = i32::try_from(priority).unwrap_or(0);
            if !read.push(text("name"), text("type"), text("format"), priority, text("jsonPath")) {
                break;
            }
        }
        read
    }

    fn push(&mut self, name: &str, kind: &str, format: &str, priority: i32, path: &str) -> bool {
        let Ok(parsed) = JsonPath::parse(path) else {
            return false;
        };
        self.paths.push(parsed);
        self.described.push(Column {
            name: name.to_owned().into(),
            kind: kind.to_owned().into(),
            format: format.to_owned().into(),
            priority,
            json_path: Some(path.to_owned().into()),
        });
        true
    }

    /// The cells of an object's row.
    pub fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![meta::name(object).into()];
        for (path, column) in self.paths.iter().zip(&self.described[1..]) {
            let found = path.find(object).ok().and_then(|found| found.into_iter().next());
            cells.push(match found {
                None => Value::Null,
                Some(value) if column.kind == "string" => text(&value).into(),
                Some(value) => cell(&column.kind, &value, now),
            });
        }
        cells
    }
}

/// A value as Go prints it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) => json::general_float(*f),
        Value::String(s) => s.clone(),
        Value::Array(_) | Value::Object(_) => json::to_string(&sorted(value)),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(map) => {
            let mut members: Vec<(String, Value)> = map.iter().map(|(k, v)| (k.to_owned(), sorted(v))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// A value in a column that is no string; null where it does not fit.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Int(i)) => Value::Int(*i),
        ("integer", Value::Float(f)) => Value::Int(*f as i64),
        ("number", Value::Int(i)) => Value::Float(*i as f64),
        ("number", Value::Float(f)) => Value::Float(*f),
        ("boolean", Value::Bool(b)) => Value::Bool(*b),
        ("date", Value::String(s)) if s.is_empty() || s == "null" => "<unknown>".into(),
        ("date", Value::String(s)) => match time::parse_rfc3339(s) {
            Some(_) => age::since(s, now).into(),
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_what_fits_their_columns_type() {
        let columns = json::from_slice(
            br#"[{"name":"S","type":"string","jsonPath":".spec"},{"name":"I","type":"integer","jsonPath":".spec.f"},
                 {"name":"B","type":"boolean","jsonPath":".spec.f"},{"name":"D","type":"date","jsonPath":".spec.d"},
                 {"name":"X","type":"string","jsonPath":".nothing"}]"#,
        )
        .unwrap();
        let columns = Columns::read(columns.as_array().unwrap());
        let object = json::from_slice(br#"{"metadata":{"name":"n"},"spec":{"f":2.5,"d":"soon"}}"#).unwrap();
        let cells = columns.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(
            json::to_string(&Value::Array(cells)),
            r#"["n","{\"d\":\"soon\",\"f\":2.5}",2,null,"\u003cinvalid\u003e",null]"#
        );
    }
}
