//! Values as Go's `fmt` prints them, for the error texts that leak Go's `%v`, `%#v` and type names to clients.
//!
//! Contract: a tree stands for what Go decodes JSON into (`map[string]interface {}`, `[]interface {}`, strings, bools,
//! numbers). Whether a whole number is an `int64` or a `float64` there depends on the decoder: [`Numbers`] says which.

use triptych_object::Value;
use triptych_object::field::quote;

/// What Go's decoder made of whole numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// `int64`, as the JSON decoder of sigs.k8s.io/json.
    Integers,
    /// `float64`, as encoding/json (apply patches, managedFields).
    Floats,
}

/// `%v`: `map[a:1 b:[x y]]`, map keys sorted.
pub fn plain(value: &Value, numbers: Numbers) -> String {
    let mut out = String::new();
    write_plain(&mut out, value, numbers);
    out
}

fn write_plain(out: &mut String, value: &Value, numbers: Numbers) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Int(i) => out.push_str(&number(*i, numbers)),
        Value::Float(f) => out.push_str(&float(*f)),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => write_list(out, items, numbers),
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            out.push_str("map[");
            for (i, (key, member)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_plain(out, member, numbers);
            }
            out.push(']');
        }
    }
}

fn write_list(out: &mut String, items: &[Value], numbers: Numbers) {
    out.push('[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(' ');
        }
        write_plain(out, item, numbers);
    }
    out.push(']');
}

/// `%v` of a list.
pub fn plain_list(items: &[Value], numbers: Numbers) -> String {
    let mut out = String::new();
    write_list(&mut out, items, numbers);
    out
}

/// `%#v`: `map[string]interface {}{"a":1}`.
pub fn literal(value: &Value, numbers: Numbers) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => number(*i, numbers),
        Value::Float(f) => float(*f),
        Value::String(s) => quote(s),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| literal(item, numbers)).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members: Vec<_> = members
                .into_iter()
                .map(|(key, member)| format!("{}:{}", quote(key), literal(member, numbers)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

/// `%T`, or `reflect.TypeOf(v).String()`.
pub fn type_name(value: &Value, numbers: Numbers) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) if numbers == Numbers::Integers => "int64",
        Value::Int(_) | Value::Float(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A whole number as the decoder's type prints.
pub fn number(i: i64, numbers: Numbers) -> String {
    match numbers {
        Numbers::Integers => i.to_string(),
        Numbers::Floats => float(i as f64),
    }
}

/// `%v` of a float64: the shortest digits that read back, in exponent form below 1e-04 and from 1e+06 on.
pub fn float(f: f64) -> String {
    let scientific = format!("{f:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return if f.is_nan() {
            "NaN".into()
        } else if f > 0.0 {
            "+Inf".into()
        } else {
            "-Inf".into()
        };
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if f == 0.0 || (-4..6).contains(&exponent) {
        return format!("{f}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn trees_print_as_go_prints_them() {
        let v = json::from_slice(br#"{"b":[1,"x",null],"a":{"c":true}}"#).unwrap();
        assert_eq!(plain(&v, Numbers::Integers), "map[a:map[c:true] b:[1 x <nil>]]");
        assert_eq!(
            literal(&v, Numbers::Integers),
            r#"map[string]interface {}{"a":map[string]interface {}{"c":true}, "b":[]interface {}{1, "x", interface {}(nil)}}"#
        );
        assert_eq!(type_name(&v, Numbers::Floats), "map[string]interface {}");
        let floats: Vec<_> = [0.0, 1.0, 2.5, 100_000.0, 1e6, 123_456_789.0, 0.00001]
            .map(float)
            .into();
        assert_eq!(floats, ["0", "1", "2.5", "100000", "1e+06", "1.23456789e+08", "1e-05"]);
    }
}
