//! Where a custom resource keeps what its `/scale` shows, and what must be there.

use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, json};

/// `subresources.scale` of a version; paths as in the CRD, beginning with a dot.
#[derive(Clone, Debug, Default)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec: String,
    /// `statusReplicasPath`.
    pub status: String,
    /// `labelSelectorPath`, if given.
    pub selector: Option<String>,
}

/// The members a simple path names.
pub fn members(path: &str) -> Vec<String> {
    path.strip_prefix('.')
        .unwrap_or(path)
        .split('.')
        .map(str::to_owned)
        .collect()
}

impl ScalePaths {
    /// Reads `subresources.scale`.
    pub fn read(scale: &Value) -> ScalePaths {
        ScalePaths {
            spec: scale.str_at(&["specReplicasPath"]).to_owned(),
            status: scale.str_at(&["statusReplicasPath"]).to_owned(),
            selector: scale
                .get("labelSelectorPath")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }

    /// The wanted replicas are a count.
    pub fn check_spec(&self, object: &Value, errors: &mut ErrorList) {
        check_count(object, &self.spec, errors);
    }

    /// The observed replicas are a count, the selector a text.
    pub fn check_status(&self, object: &Value, errors: &mut ErrorList) {
        check_count(object, &self.status, errors);
        if let Some(path) = &self.selector
            && let Err(why) = nested(object, path, "string", |v| v.as_str().map(|_| ()))
        {
            errors.push(Error::invalid(path, "", why));
        }
    }
}

fn check_count(object: &Value, path: &str, errors: &mut ErrorList) {
    let count = nested(object, path, "int64", |v| match v {
        Value::Int(i) => Some(*i),
        _ => None,
    });
    match count {
        Err(why) => errors.push(Error::invalid(path, Value::Int(0), why)),
        Ok(Some(n)) if n < 0 => errors.push(Error::invalid(path, n, "should be a non-negative integer")),
        Ok(Some(n)) if n > i64::from(i32::MAX) => {
            let detail = format!("should be less than or equal to {}", i32::MAX);
            errors.push(Error::invalid(path, n, detail));
        }
        Ok(_) => {}
    }
}

/// The value at a path, in Go's words if it is of another type.
fn nested<T>(
    object: &Value,
    path: &str,
    wanted: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let steps = members(path);
    let mut value = object;
    for (i, step) in steps.iter().enumerate() {
        let Value::Object(map) = value else {
            let at = steps[..i.min(steps.len())].join(".");
            return match value {
                Value::Null => Ok(None),
                other => Err(wrong(&format!(".{at}"), other, "map[string]interface{}")),
            };
        };
        match map.get(step) {
            Some(member) => value = member,
            None => return Ok(None),
        }
    }
    match read(value) {
        Some(found) => Ok(Some(found)),
        None => Err(wrong(&format!(".{}", steps.join(".")), value, wanted)),
    }
}

fn wrong(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, kind) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(b) => (b.to_string(), "bool"),
        Value::Int(i) => (i.to_string(), "int64"),
        Value::Float(f) => (json::general_float(*f), "float64"),
        Value::String(s) => (s.clone(), "string"),
        Value::Array(_) => (json::to_string(value), "[]interface {}"),
        Value::Object(_) => (json::to_string(value), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_must_be_a_count() {
        let scale = ScalePaths {
            spec: ".spec.replicas".into(),
            status: ".status.replicas".into(),
            selector: None,
        };
        let check = |replicas: Value| {
            let object = Value::from([("spec", Value::from([("replicas", replicas)]))]);
            let mut errors = ErrorList::new();
            scale.check_spec(&object, &mut errors);
            errors.aggregate()
        };
        assert_eq!(check(Value::Int(3)), "");
        assert_eq!(
            check(Value::Int(-1)),
            ".spec.replicas: Invalid value: -1: should be a non-negative integer"
        );
        assert_eq!(
            check("x".into()),
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: x is of the type string, expected int64"
        );
    }
}
