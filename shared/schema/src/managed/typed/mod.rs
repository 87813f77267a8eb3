//! Values seen through their type as server-side apply sees them: what is owned as a whole, and what tells list items
//! apart.
//!
//! Contract: [`Typed`] gives for every type of a [`Schema`] what kube-openapi's conversion of the *published* OpenAPI
//! gives to structured-merge-diff: a scalar, a list, a map, or (for untyped values) any of them, decided by the value
//! at hand. Unknown members of a struct are an error unless the struct, or one around it, preserves unknown fields.

mod atomics;
mod compare;
mod merge;
mod remove;
mod sets;
mod validate;

use std::borrow::Cow;
use std::fmt;

use triptych_object::Value;

pub use compare::Comparison;

use super::element::{KeyField, PathElement, Scalar};
use crate::go_text::{Numbers, type_name};
use crate::types::{Field, List, ListKind, Omit, PublishedDefault, Schema, Shape, Struct, Topology, Type, TypeId};

/// OpenAPI name of the type of every object's `metadata`.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A place in a schema.
#[derive(Clone, Copy)]
pub struct Typed<'s> {
    schema: &'s Schema,
    at: Place<'s>,
    /// A struct further out preserves unknown fields.
    preserve: bool,
}

#[derive(Clone, Copy)]
enum Place<'s> {
    Known {
        ty: &'s Type,
        topology: Topology,
        whole: bool,
    },
    /// `apiVersion` and `kind` of an object whose schema does not list them.
    Text,
    /// Nothing known: maps are merged member by member, lists are atomic.
    Deduced,
    /// Nothing known and owned as a whole.
    Untyped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScalarKind {
    Numeric,
    Text,
    Boolean,
    Untyped,
}

/// What a value of a type may be. `Any` stands for a type that takes scalars, lists and maps.
#[derive(Clone, Copy)]
enum Atom<'s> {
    Scalar(ScalarKind),
    List(ListAtom<'s>),
    Map(MapAtom<'s>),
    Any(MapAtom<'s>, ListAtom<'s>),
}

#[derive(Clone, Copy)]
struct ListAtom<'s> {
    item: Typed<'s>,
    kind: &'s ListKind,
}

#[derive(Clone, Copy)]
struct MapAtom<'s> {
    schema: &'s Schema,
    fields: Option<&'s Struct>,
    /// An object of its own: it has `apiVersion`, `kind` and `metadata` whatever its schema says.
    whole: bool,
    element: Element<'s>,
    atomic: bool,
    preserve: bool,
}

/// Type of the members that are no declared fields.
#[derive(Clone, Copy)]
enum Element<'s> {
    Undeclared,
    Deduced,
    Untyped,
    Type(&'s Type),
}

static ATOMIC: ListKind = ListKind::Atomic;

impl<'s> Typed<'s> {
    /// The type of a whole object.
    pub fn object(schema: &'s Schema, ty: TypeId) -> Typed<'s> {
        let at = Place::Known {
            ty: schema.get(ty),
            topology: Topology::Unmarked,
            whole: true,
        };
        Typed {
            schema,
            at,
            preserve: false,
        }
    }

    fn with(self, at: Place<'s>) -> Typed<'s> {
        Typed { at, ..self }
    }

    fn atom(self) -> Atom<'s> {
        match self.at {
            Place::Text => Atom::Scalar(ScalarKind::Text),
            Place::Deduced => self.deduced(),
            Place::Untyped => self.untyped(),
            Place::Known { ty, topology, whole } => self.atom_of(ty, topology, whole),
        }
    }

    fn deduced(self) -> Atom<'s> {
        self.any(MapAtom {
            element: Element::Deduced,
            ..self.map(None, false)
        })
    }

    fn untyped(self) -> Atom<'s> {
        self.any(MapAtom {
            element: Element::Untyped,
            atomic: true,
            ..self.map(None, false)
        })
    }

    fn any(self, map: MapAtom<'s>) -> Atom<'s> {
        Atom::Any(
            map,
            ListAtom {
                item: self.with(Place::Untyped),
                kind: &ATOMIC,
            },
        )
    }

    fn map(self, fields: Option<&'s Struct>, whole: bool) -> MapAtom<'s> {
        let preserve = self.preserve || fields.is_some_and(|s| s.preserve_unknown);
        let open = preserve || fields.is_some_and(|s| s.fields.is_empty() && !whole);
        MapAtom {
            schema: self.schema,
            fields,
            whole,
            element: if open { Element::Deduced } else { Element::Undeclared },
            atomic: false,
            preserve,
        }
    }

    fn atom_of(self, ty: &'s Type, topology: Topology, whole: bool) -> Atom<'s> {
        let atomic = |own: Topology| {
            let topology = if topology == Topology::Unmarked { own } else { topology };
            topology == Topology::Atomic
        };
        match &ty.shape {
            Shape::Bool => Atom::Scalar(ScalarKind::Boolean),
            Shape::Int { .. } | Shape::Float { .. } => Atom::Scalar(ScalarKind::Numeric),
            Shape::String => {
                let format = ty.validation.as_ref().and_then(|v| v.format.as_deref());
                let free = format.is_some_and(|format| !format.is_empty() && format != "byte");
                Atom::Scalar(if free { ScalarKind::Untyped } else { ScalarKind::Text })
            }
            Shape::Bytes | Shape::Duration => Atom::Scalar(ScalarKind::Text),
            Shape::Quantity | Shape::Time | Shape::MicroTime => Atom::Scalar(ScalarKind::Untyped),
            // Custom resources publish it without a type.
            Shape::IntOrString if ty.name.is_none() => self.deduced(),
            Shape::IntOrString => Atom::Scalar(ScalarKind::Untyped),
            Shape::RawExtension => self.untyped(),
            Shape::Json | Shape::SchemaOrArray(_) | Shape::SchemaOrBool(_) | Shape::SchemaOrStringArray(_) => {
                self.deduced()
            }
            Shape::FieldsV1 => Atom::Map(MapAtom {
                element: Element::Deduced,
                ..self.map(None, false)
            }),
            Shape::Struct(fields) => {
                let whole = whole || fields.embedded_resource;
                let map = MapAtom {
                    atomic: atomic(fields.topology),
                    ..self.map(Some(fields), whole)
                };
                if fields.untyped { self.any(map) } else { Atom::Map(map) }
            }
            Shape::List(list) => Atom::List(self.list(list)),
            Shape::Map(map) => Atom::Map(MapAtom {
                element: Element::Type(self.schema.get(map.value)),
                atomic: atomic(map.topology),
                ..self.map(None, false)
            }),
        }
    }

    fn list(self, list: &'s List) -> ListAtom<'s> {
        let item = Place::Known {
            ty: self.schema.get(list.item),
            topology: Topology::Unmarked,
            whole: false,
        };
        ListAtom {
            item: self.with(item),
            kind: &list.kind,
        }
    }
}

impl<'s> Atom<'s> {
    /// What the type is given the value at hand; a value that fits none leaves it open.
    fn deduce(self, value: Option<&Value>) -> Atom<'s> {
        let Atom::Any(map, list) = self else { return self };
        match value {
            None | Some(Value::Null) => self,
            Some(Value::Array(_)) => Atom::List(list),
            Some(Value::Object(_)) => Atom::Map(map),
            Some(_) => Atom::Scalar(ScalarKind::Untyped),
        }
    }

    /// As a map, if it may be one (which comes first when the value does not decide).
    fn as_map(self) -> Option<MapAtom<'s>> {
        match self {
            Atom::Map(map) | Atom::Any(map, _) => Some(map),
            _ => None,
        }
    }

    fn as_list(self) -> Option<ListAtom<'s>> {
        match self {
            Atom::List(list) | Atom::Any(_, list) => Some(list),
            _ => None,
        }
    }

    fn same_kind(&self, other: &Atom<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> MapAtom<'s> {
    /// The type of a declared field.
    fn field(&self, name: &str) -> Option<Typed<'s>> {
        let typed = |at, preserve| {
            Some(Typed {
                schema: self.schema,
                at,
                preserve,
            })
        };
        if self.whole {
            match name {
                "metadata" if self.fields.is_none_or(|s| !has_object_meta(self.schema, s)) => {
                    let ty = self.schema.find(OBJECT_META)?;
                    // A type of its own: what preserves unknown fields around it does not reach into it.
                    return typed(
                        Place::Known {
                            ty,
                            topology: Topology::Unmarked,
                            whole: false,
                        },
                        false,
                    );
                }
                "apiVersion" | "kind" => return typed(Place::Text, false),
                _ => {}
            }
        }
        let field = self.fields?.field(name)?;
        let (ty, topology) = (self.schema.get(field.ty), field.details().topology);
        typed(
            Place::Known {
                ty,
                topology,
                whole: false,
            },
            self.preserve && ty.name.is_none(),
        )
    }

    /// The type of a member that is no declared field; none if there may be none.
    fn other(&self) -> Option<Typed<'s>> {
        let at = match self.element {
            Element::Undeclared => return None,
            Element::Deduced => Place::Deduced,
            Element::Untyped => Place::Untyped,
            Element::Type(ty) => Place::Known {
                ty,
                topology: Topology::Unmarked,
                whole: false,
            },
        };
        Some(Typed {
            schema: self.schema,
            at,
            preserve: self.preserve,
        })
    }

    /// The type of a member.
    fn member(&self, name: &str) -> Option<Typed<'s>> {
        self.field(name).or_else(|| self.other())
    }

    /// A map about whose members nothing at all is declared.
    fn is_deduced(&self) -> bool {
        matches!(self.element, Element::Deduced) && self.fields.is_none_or(|s| s.fields.is_empty()) && !self.whole
    }
}

fn has_object_meta(schema: &Schema, fields: &Struct) -> bool {
    fields
        .field("metadata")
        .is_some_and(|field| schema.get(field.ty).name.is_some())
}

impl<'s> ListAtom<'s> {
    /// What tells this item from the others; an error if nothing does.
    fn element<'v>(&self, item: &'v Value) -> Result<PathElement<'v>, String>
    where
        's: 'v,
    {
        self.check(item)?;
        let ListKind::Map(keys) = self.kind else {
            return Ok(PathElement::Value(Scalar::of(item)));
        };
        let field = |key: &'s str| -> Option<KeyField<'v>> {
            let value = item.get(key).map(Scalar::of).or_else(|| self.default_key(key))?;
            Some((Cow::Borrowed(key), value))
        };
        if let [key] = &**keys
            && let Some(field) = field(key)
        {
            return Ok(PathElement::one_key(field));
        }
        Ok(PathElement::key(keys.iter().filter_map(|key| field(key)).collect()))
    }

    /// An error if nothing tells this item from others.
    fn check(&self, item: &Value) -> Result<(), String> {
        match (self.kind, item) {
            (ListKind::Unmarked | ListKind::Atomic, _) => Err("invalid indexing of non-associative list".into()),
            (ListKind::Set, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            (ListKind::Set, Value::Array(_)) => Err("not supported: associative list with lists as elements".into()),
            (ListKind::Set, Value::Null) => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            (ListKind::Set, _) => Ok(()),
            (ListKind::Map(_), Value::Null) => Err("associative list with keys may not have a null element".into()),
            (ListKind::Map(keys), Value::Object(map)) => {
                if keys.iter().any(|key| map.contains_key(key)) {
                    return Ok(());
                }
                if self.item.atom().as_map().is_none()
                    && let Some(key) = keys.first()
                {
                    return Err(format!(
                        "couldn't find default value for {key}: associative list may not have non-map types"
                    ));
                }
                if keys.iter().any(|key| self.default_key(key).is_some()) {
                    return Ok(());
                }
                let keys: Vec<String> = keys.iter().map(|key| triptych_object::field::quote(key)).collect();
                Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                     default values for any key fields)",
                    keys.join(" ")
                ))
            }
            (ListKind::Map(_), _) => Err("associative list with keys may not have non-map elements".into()),
        }
    }

    /// The default that OpenAPI publishes for a key field.
    fn default_key(&self, key: &str) -> Option<Scalar<'s>> {
        let map = self.item.atom().as_map()?;
        map.fields
            .and_then(|s| s.field(key))
            .and_then(|field| published_default(map.schema, field))
    }
}

fn published_default<'s>(schema: &'s Schema, field: &'s Field) -> Option<Scalar<'s>> {
    let present = |value: &'s Value| if value.is_null() { None } else { Some(Scalar::of(value)) };
    match &field.details().published_default {
        PublishedDefault::Value(value) => present(value),
        PublishedDefault::Nothing => None,
        PublishedDefault::Implied => {
            // The default of a structural schema's property; that of a built-in field is shown only where it says so.
            if let Some(value) = &schema.get(field.ty).default {
                return present(value);
            }
            if field.pointer || field.omit != Omit::Never {
                return None;
            }
            match schema.get(field.ty).shape {
                Shape::String => Some(Scalar::Text(Cow::Borrowed(""))),
                Shape::Int { .. } | Shape::Float { .. } => Some(Scalar::Int(0)),
                Shape::Bool => Some(Scalar::Bool(false)),
                _ => None,
            }
        }
    }
}

/// One way in which a value does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    path: String,
    text: String,
}

/// The ways in which a value does not fit its type, worded as structured-merge-diff words them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// No more than this many are kept.
    const LIMIT: usize = 100;

    fn of(text: impl Into<String>) -> Problems {
        Problems(vec![Problem {
            path: String::new(),
            text: text.into(),
        }])
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn into_result(self) -> Result<(), Problems> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }

    /// Adds those found below `element`.
    fn add_below(&mut self, element: &dyn fmt::Display, below: Problems) {
        for mut problem in below.0 {
            problem.path.insert_str(0, &element.to_string());
            self.push(problem);
        }
    }

    fn add(&mut self, others: Problems) {
        others.0.into_iter().for_each(|problem| self.push(problem));
    }

    fn push(&mut self, problem: Problem) {
        if self.0.len() < Self::LIMIT {
            self.0.push(problem);
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.text)
        } else {
            write!(f, "{}: {}", self.path, self.text)
        }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "{one}"),
            many => {
                f.write_str("errors:")?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

/// A value as `%v` prints structured-merge-diff's wrapper of it.
fn wrapped(value: &Value) -> String {
    format!("&{{{}}}", crate::go_text::plain(value, Numbers::Floats))
}

fn scalar_problem(kind: ScalarKind, value: Option<&Value>, side: &str) -> Option<Problems> {
    let value = value.filter(|value| !value.is_null())?;
    let text = match (kind, value) {
        (ScalarKind::Numeric, Value::Int(_) | Value::Float(_))
        | (ScalarKind::Text, Value::String(_))
        | (ScalarKind::Boolean, Value::Bool(_))
        | (ScalarKind::Untyped, Value::Int(_) | Value::Float(_) | Value::String(_) | Value::Bool(_)) => return None,
        (ScalarKind::Numeric, odd) => {
            format!(
                "{side}expected numeric (int or float), got {}",
                type_name(odd, Numbers::Floats)
            )
        }
        (ScalarKind::Text, odd) => {
            let shown = crate::go_text::literal(odd, Numbers::Floats);
            format!("{side}expected string, got &value.valueUnstructured{{Value:{shown}}}")
        }
        (ScalarKind::Boolean, odd) => format!("{side}expected boolean, got {}", wrapped(odd)),
        (ScalarKind::Untyped, odd) => format!("{side}expected any scalar, got {}", wrapped(odd)),
    };
    Some(Problems::of(text))
}

/// Equality as structured-merge-diff sees it: numbers by value, maps whatever their order.
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(a), Value::Float(b)) => *a as f64 == *b,
        (Value::Float(a), Value::Int(b)) => *a == *b as f64,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}
