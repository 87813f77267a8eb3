//! What happens to a custom resource between its bytes and its strategy: metadata decoded, the rest pruned.
//!
//! Contract: apiextensions-apiserver's schema coercer. `metadata` (and that of embedded resources) is decoded as
//! ObjectMeta; everything the schema does not know is removed and reported; `null` of what is not nullable goes, unless
//! a default will replace it.

use triptych_object::Value;
use triptych_object::field::Error;

use crate::decode::{DecodeError, Empty, Source, StrictError, decode_with};
use crate::prune::prune;
use crate::structural::prune_nulls;
use crate::types::{Schema, Shape, TypeId};

/// Name of the type that `metadata` is decoded as.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// How to coerce.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coercion {
    /// The version keeps unknown fields (`spec.preserveUnknownFields` of old CRDs).
    pub preserve_unknown: bool,
    /// Malformed metadata is dropped, not refused: for what is read from the store.
    pub drop_malformed: bool,
}

/// Coerces an object in place; gives what strict reading objects to, duplicates aside.
pub fn coerce(
    schema: &Schema,
    root: TypeId,
    value: &mut Value,
    coercion: Coercion,
) -> Result<Vec<StrictError>, DecodeError> {
    let mut strict = metadata(schema, value, "", coercion.drop_malformed).map_err(DecodeError)?;
    if !coercion.preserve_unknown {
        strict.extend(prune(schema, root, value).into_iter().map(StrictError::Unknown));
        prune_nulls(schema, root, value);
    }
    let mut coercer = Embedded {
        schema,
        drop_malformed: coercion.drop_malformed,
        strict: Vec::new(),
    };
    coercer
        .members(root, value, "")
        .map_err(|e| DecodeError(e.to_string()))?;
    coercer.strict.sort();
    strict.extend(coercer.strict.into_iter().map(StrictError::Unknown));
    Ok(strict)
}

/// Coerces `apiVersion`, `kind` and `metadata` of the resources embedded in a value at `path`, and those of the value itself if it is
/// one; what is malformed is told with its place.
pub fn coerce_embedded(
    schema: &Schema,
    ty: TypeId,
    value: &mut Value,
    path: &str,
    is_resource: bool,
) -> Result<(), Error> {
    let mut coercer = Embedded {
        schema,
        drop_malformed: false,
        strict: Vec::new(),
    };
    if is_resource {
        coercer.resource(value, path)?;
    }
    coercer.members(ty, value, path)
}

/// Decodes `metadata` of the object at `path` as ObjectMeta; its error is that of the decoder alone.
fn metadata(schema: &Schema, object: &mut Value, path: &str, drop_malformed: bool) -> Result<Vec<StrictError>, String> {
    let Some(id) = schema.named(OBJECT_META) else {
        return Ok(Vec::new());
    };
    let Some(meta) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    if meta.is_null() {
        *meta = Value::object();
    }
    let prefix = if path.is_empty() {
        "metadata".to_owned()
    } else {
        format!("{path}.metadata")
    };
    let mut decoded = meta.clone();
    match decode_with(schema, id, &mut decoded, Source::default(), &prefix, Empty::Goes) {
        Ok(strict) => {
            *meta = decoded;
            Ok(strict)
        }
        Err(_) if drop_malformed => {
            *meta = field_by_field(schema, id, meta);
            Ok(Vec::new())
        }
        Err(e) => Err(e.0),
    }
}

/// Keeps the fields that decode on their own.
fn field_by_field(schema: &Schema, id: TypeId, meta: &Value) -> Value {
    let mut kept = Value::object();
    for (key, member) in meta.as_object().into_iter().flat_map(|m| m.iter()) {
        let mut single = Value::from([(key, member.clone())]);
        if decode_with(schema, id, &mut single, Source::default(), "", Empty::Goes).is_ok()
            && let Some(member) = single.as_object_mut().and_then(|m| m.remove(key))
        {
            kept.set_at(&[key], member);
        }
    }
    kept
}

/// Walks to embedded resources.
struct Embedded<'s> {
    schema: &'s Schema,
    drop_malformed: bool,
    strict: Vec<String>,
}

impl Embedded<'_> {
    fn members(&mut self, ty: TypeId, value: &mut Value, path: &str) -> Result<(), Error> {
        let schema = self.schema;
        let child = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            }
        };
        match (&schema.get(ty).shape, &mut *value) {
            (Shape::Struct(s), Value::Object(_)) => {
                if s.embedded_resource {
                    self.resource(value, path)?;
                }
                for field in &s.fields {
                    if let Some(member) = value.get_mut(&field.name) {
                        self.members(field.ty, member, &child(&field.name))?;
                    }
                }
            }
            (Shape::Map(map_type), Value::Object(map)) => {
                for (key, member) in map.iter_mut() {
                    self.members(map_type.value, member, &format!("{path}[{key}]"))?;
                }
            }
            (Shape::List(list), Value::Array(items)) => {
                for (i, item) in items.iter_mut().enumerate() {
                    self.members(list.item, item, &format!("{path}[{i}]"))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, value: &mut Value, path: &str) -> Result<(), Error> {
        let child = |key: &str| {
            if path.is_empty() {
                key.to_owned()
            } else {
                format!("{path}.{key}")
            }
        };
        for key in ["apiVersion", "kind"] {
            match value.get(key) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.drop_malformed => drop(value.remove_at(&[key])),
                Some(other) => return Err(Error::invalid(child(key), other.clone(), "must be a string")),
            }
        }
        let before = value.get("metadata").cloned();
        match metadata(self.schema, value, path, self.drop_malformed) {
            Ok(strict) => {
                self.strict.extend(strict.into_iter().filter_map(|e| match e {
                    StrictError::Unknown(path) => Some(path),
                    _ => None,
                }));
                Ok(())
            }
            Err(e) => Err(Error::invalid(child("metadata"), before.unwrap_or_default(), e)),
        }
    }
}
