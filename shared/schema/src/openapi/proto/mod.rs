//! The protobuf form of OpenAPI documents: gnostic's messages `openapi.v2.Document` and `openapi.v3.Document`.
//!
//! Contract: JSON text in, message out; no tree is built. Messages are tables of JSON name, field number and form. What
//! gnostic keeps as YAML text (`enum`, defaults of v2, `x-` extensions) is given as JSON, which is YAML.

mod messages_v2;
mod messages_v3;

use triptych_object::{Value, json};

use super::members::{NoObject, members};

/// Media types under which clients ask for the v2 form; answers name the first.
pub const MEDIA_V2: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];
/// Media types under which clients ask for the v3 form; answers name the first.
pub const MEDIA_V3: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// A v2 document as protobuf.
pub fn v2(document: &[u8]) -> Result<Vec<u8>, NoObject> {
    let mut out = Vec::with_capacity(document.len() / 2);
    message(&mut out, &messages_v2::DOCUMENT, document, 0)?;
    Ok(out)
}

/// A v3 document as protobuf.
pub fn v3(document: &[u8]) -> Result<Vec<u8>, NoObject> {
    let mut out = Vec::with_capacity(document.len() / 2);
    message(&mut out, &messages_v3::DOCUMENT, document, 0)?;
    Ok(out)
}

/// No document nests deeper.
const MAX_DEPTH: usize = 400;

struct Message {
    /// JSON name, field number, form.
    fields: &'static [(&'static str, u32, Form)],
    /// Members that are no field become `{name = 1, value = 2}` in this field.
    rest: Option<(u32, Form)>,
    /// Field of `x-` members, 0 for none.
    extensions: u32,
    /// It is a choice: the one field the value goes into.
    choose: Option<Choose>,
}

/// The field that a value of a choice goes into.
type Choose = fn(&[u8]) -> (u32, Form);

#[derive(Clone, Copy)]
enum Form {
    Text,
    Bool,
    Int,
    Double,
    /// Repeated text; a single text counts as one.
    Texts,
    /// `{yaml = 2}`.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// v3's `{number = 1 | boolean = 2 | string = 3}`, empty for anything else.
    Default,
}

const NOTHING: Message = Message {
    fields: &[],
    rest: None,
    extensions: 0,
    choose: None,
};

fn message(out: &mut Vec<u8>, of: &Message, text: &[u8], depth: usize) -> Result<(), NoObject> {
    if depth > MAX_DEPTH {
        return Err(NoObject(0));
    }
    if let Some(choose) = of.choose {
        let (tag, form) = choose(text);
        return field(out, tag, form, text, depth + 1);
    }
    for (name, value) in members(text)? {
        if let Some((_, tag, form)) = of.fields.iter().find(|(n, ..)| *n == name) {
            field(out, *tag, *form, value, depth + 1)?;
        } else if of.extensions > 0 && name.starts_with("x-") {
            named(out, of.extensions, name, Form::Any, value, depth)?;
        } else if let Some((tag, form)) = of.rest {
            named(out, tag, name, form, value, depth)?;
        }
    }
    Ok(())
}

fn named(out: &mut Vec<u8>, tag: u32, name: &str, form: Form, value: &[u8], depth: usize) -> Result<(), NoObject> {
    let mut entry = Vec::with_capacity(name.len() + value.len());
    let name = match name.contains('\\') {
        true => text_of(format!("\"{name}\"").as_bytes()),
        false => name.to_owned(),
    };
    bytes(&mut entry, 1, name.as_bytes());
    field(&mut entry, 2, form, value, depth + 1)?;
    bytes(out, tag, &entry);
    Ok(())
}

fn field(out: &mut Vec<u8>, tag: u32, form: Form, value: &[u8], depth: usize) -> Result<(), NoObject> {
    match form {
        Form::Text => {
            let text = text_of(value);
            if !text.is_empty() {
                bytes(out, tag, text.as_bytes());
            }
        }
        Form::Bool => {
            if value == b"true" {
                varint(out, u64::from(tag) << 3);
                out.push(1);
            }
        }
        Form::Int => {
            if let Some(number) = json::from_slice(value).ok().and_then(|v| v.as_i64()) {
                varint(out, u64::from(tag) << 3);
                varint(out, number as u64);
            }
        }
        Form::Double => {
            if let Some(number) = json::from_slice(value).ok().and_then(|v| v.as_f64()) {
                double(out, tag, number);
            }
        }
        Form::Texts => match json::from_slice(value) {
            Ok(Value::Array(list)) => {
                let texts = list.iter().filter_map(Value::as_str);
                texts.for_each(|text| bytes(out, tag, text.as_bytes()));
            }
            _ => bytes(out, tag, text_of(value).as_bytes()),
        },
        Form::Any => any(out, tag, value),
        Form::Anys => elements(value)?.into_iter().for_each(|v| any(out, tag, v)),
        Form::One(of) => one(out, tag, of, value, depth)?,
        Form::Many(of) => {
            for value in elements(value)? {
                one(out, tag, of, value, depth)?;
            }
        }
        Form::Default => {
            let mut inner = Vec::new();
            match json::from_slice(value) {
                Ok(Value::Bool(b)) => inner.extend([2 << 3, u8::from(b)]),
                Ok(Value::String(s)) => bytes(&mut inner, 3, s.as_bytes()),
                Ok(number) => number.as_f64().into_iter().for_each(|n| double(&mut inner, 1, n)),
                Err(_) => {}
            }
            bytes(out, tag, &inner);
        }
    }
    Ok(())
}

fn one(out: &mut Vec<u8>, tag: u32, of: &Message, value: &[u8], depth: usize) -> Result<(), NoObject> {
    let mut inner = Vec::with_capacity(value.len());
    message(&mut inner, of, value, depth)?;
    bytes(out, tag, &inner);
    Ok(())
}

fn any(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    let mut inner = Vec::with_capacity(value.len() + 4);
    bytes(&mut inner, 2, value);
    bytes(out, tag, &inner);
}

fn text_of(value: &[u8]) -> String {
    match json::from_slice(value) {
        Ok(Value::String(text)) => text,
        _ => String::new(),
    }
}

/// The items of a list, as text.
fn elements(value: &[u8]) -> Result<Vec<&[u8]>, NoObject> {
    super::members::items(value)
}

fn has(text: &[u8], name: &str) -> bool {
    members(text).is_ok_and(|m| m.iter().any(|(n, _)| *n == name))
}

fn varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn bytes(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    varint(out, u64::from(tag) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn double(out: &mut Vec<u8>, tag: u32, value: f64) {
    varint(out, u64::from(tag) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a message back as (field, content) pairs; numbers as their bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut n, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                n |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return n;
                }
                shift += 7;
            }
        }
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let content = match key & 7 {
                0 => varint(&mut bytes).to_le_bytes().to_vec(),
                1 => bytes.split_off(..8).unwrap().to_vec(),
                _ => {
                    let length = varint(&mut bytes) as usize;
                    bytes.split_off(..length).unwrap().to_vec()
                }
            };
            out.push((key >> 3, content));
        }
        out
    }

    fn one(bytes: &[u8], path: &[u64]) -> Vec<u8> {
        path.iter().fold(bytes.to_vec(), |message, tag| {
            fields(&message).into_iter().find(|(t, _)| t == tag).unwrap().1
        })
    }

    #[test]
    fn a_parameter_is_found_where_kubectl_looks_for_it() {
        let document = br#"{"openapi":"3.0.0","paths":{"/a/{name}":{"patch":{"parameters":[{"name":"fieldValidation","in":"query"}],"x-kubernetes-group-version-kind":{"group":"","kind":"A","version":"v1"}}}}}"#;
        let message = v3(document).unwrap();
        assert_eq!(one(&message, &[1]), b"3.0.0");
        let path = one(&message, &[4, 1]);
        assert_eq!(one(&path, &[1]), b"/a/{name}");
        let operation = one(&path, &[2, 10]);
        assert_eq!(one(&operation, &[6, 1, 1]), b"fieldValidation");
        assert_eq!(one(&operation, &[13, 1]), b"x-kubernetes-group-version-kind");
        assert_eq!(
            one(&operation, &[13, 2, 2]),
            br#"{"group":"","kind":"A","version":"v1"}"#
        );
    }

    #[test]
    fn defaults_of_v3_keep_their_type_even_when_zero() {
        let document =
            br#"{"components":{"schemas":{"A":{"default":"","properties":{"n":{"default":0},"o":{"default":{}}}}}}}"#;
        let message = v3(document).unwrap();
        let schema = one(&message, &[5, 1, 1, 2, 1]);
        assert_eq!(one(&schema, &[33, 3]), b"");
        let properties = fields(&one(&schema, &[31]));
        assert_eq!(one(&properties[0].1, &[2, 1, 33, 1]), 0f64.to_le_bytes());
        assert_eq!(one(&properties[1].1, &[2, 1, 33]), b"");
    }

    #[test]
    fn v2_types_are_lists_and_references_stay_references() {
        let document = br##"{"swagger":"2.0","definitions":{"A":{"type":"object","properties":{"b":{"description":"d","$ref":"#/definitions/B"}}}},"paths":{"/a":{"parameters":[{"$ref":"#/parameters/p"}]}}}"##;
        let message = v2(document).unwrap();
        let schema = one(&message, &[9, 1, 2]);
        assert_eq!(one(&schema, &[22, 1]), b"object");
        assert_eq!(one(&schema, &[25, 1, 2, 1]), b"#/definitions/B");
        assert_eq!(one(&message, &[8, 2, 2, 9, 2, 1]), b"#/parameters/p");
    }
}
