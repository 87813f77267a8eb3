//! Reads the compact table that `triptych-schema-compiler` makes of the schema texts.
//!
//! Contract: names stay in the table's static bytes, so that loading a tier's few thousand fields costs little more
//! than their array. No text is parsed. A table of another layout version, or a damaged one, is an error, never a panic.

use triptych_object::{Object, Value};

use crate::resource::{Column, Dependents, NameRule, Need, Resource, Subresource, SubresourceForm, Verbs};
use crate::types::*;

const MAGIC: &[u8] = b"TTBL";
const VERSION: u8 = 1;

/// What the schema texts of one tier say.
#[derive(Debug)]
pub struct Table {
    /// Every type.
    pub schema: Schema,
    /// Every resource, those that are off by default included.
    pub resources: Vec<Resource>,
}

/// A table that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Not a table at all.
    #[error("not a schema table")]
    NoTable,
    /// Made by another version of the compiler.
    #[error("schema table has layout version {0}, this program reads {VERSION}")]
    Version(u8),
    /// Bytes that mean nothing, or too few of them.
    #[error("damaged schema table at byte {0}")]
    Damaged(usize),
}

impl Table {
    /// Reads a compiled table.
    pub fn load(bytes: &'static [u8]) -> Result<Self, TableError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TableError::NoTable)?;
        match rest.first() {
            Some(&VERSION) => {}
            Some(&other) => return Err(TableError::Version(other)),
            None => return Err(TableError::Damaged(MAGIC.len())),
        }
        let mut r = Reader {
            bytes,
            at: MAGIC.len() + 1,
            strings: Vec::new(),
            types: u32::MAX,
        };
        r.strings = r.sequence(Reader::text)?;
        let count = r.length()?;
        r.types = count as u32;
        let mut schema = Schema::with_capacity(count);
        for _ in 0..count {
            let ty = r.ty()?;
            schema.push(ty);
        }
        let resources = r.sequence(Reader::resource)?;
        if r.at == bytes.len() {
            Ok(Self { schema, resources })
        } else {
            Err(r.damaged())
        }
    }

    /// The resource of a group-version.
    pub fn resource(&self, group: &str, version: &str, resource: &str) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|r| r.resource == resource && r.group == group && r.version == version)
    }
}

type Read<T> = Result<T, TableError>;

struct Reader {
    bytes: &'static [u8],
    at: usize,
    strings: Vec<&'static str>,
    /// How many types there are: ids are below.
    types: u32,
}

impl Reader {
    fn damaged(&self) -> TableError {
        TableError::Damaged(self.at)
    }

    fn byte(&mut self) -> Read<u8> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.damaged())?;
        self.at += 1;
        Ok(byte)
    }

    fn take(&mut self, length: usize) -> Read<&'static [u8]> {
        let end = self.at.checked_add(length).ok_or_else(|| self.damaged())?;
        let taken = self.bytes.get(self.at..end).ok_or_else(|| self.damaged())?;
        self.at = end;
        Ok(taken)
    }

    fn number(&mut self) -> Read<u64> {
        let (mut n, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            if shift > 63 {
                return Err(self.damaged());
            }
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
            shift += 7;
        }
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Read<T> {
        let n = self.number()?;
        T::try_from(n).map_err(|_| self.damaged())
    }

    /// A count of things that each take at least a byte: more than are left is damage, not an allocation.
    fn length(&mut self) -> Read<usize> {
        let n: usize = self.small()?;
        if n > self.bytes.len() - self.at {
            Err(self.damaged())
        } else {
            Ok(n)
        }
    }

    fn text(&mut self) -> Read<&'static str> {
        let length = self.length()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map_err(|_| self.damaged())
    }

    fn name(&mut self) -> Read<Name> {
        let at: usize = self.small()?;
        self.strings
            .get(at)
            .map(|s| Name::Borrowed(s))
            .ok_or_else(|| self.damaged())
    }

    fn option<T>(&mut self, read: impl Fn(&mut Self) -> Read<T>) -> Read<Option<T>> {
        match self.byte()? {
            0 => Ok(None),
            _ => read(self).map(Some),
        }
    }

    fn sequence<T>(&mut self, read: impl Fn(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let length = self.length()?;
        let mut items = Vec::with_capacity(length);
        for _ in 0..length {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn names(&mut self) -> Read<Vec<Name>> {
        self.sequence(Self::name)
    }

    fn id(&mut self) -> Read<TypeId> {
        let id = self.small()?;
        if id < self.types {
            Ok(TypeId(id))
        } else {
            Err(self.damaged())
        }
    }

    fn value(&mut self) -> Read<Value> {
        Ok(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => {
                let n = self.number()?;
                Value::Int((n >> 1) as i64 ^ -((n & 1) as i64))
            }
            4 => {
                let bytes = self.take(8)?.try_into().map_err(|_| self.damaged())?;
                Value::Float(f64::from_le_bytes(bytes))
            }
            5 => Value::String(self.name()?.into_owned()),
            6 => Value::Array(self.sequence(Self::value)?),
            7 => {
                let mut object = Object::new();
                for _ in 0..self.length()? {
                    let key = self.name()?;
                    object.insert(key.into_owned(), self.value()?);
                }
                Value::Object(object)
            }
            _ => return Err(self.damaged()),
        })
    }

    fn topology(&mut self) -> Read<Topology> {
        Ok(match self.byte()? {
            0 => Topology::Unmarked,
            1 => Topology::Granular,
            2 => Topology::Atomic,
            _ => return Err(self.damaged()),
        })
    }

    fn ty(&mut self) -> Read<Type> {
        Ok(Type {
            name: self.option(Self::name)?,
            shape: self.shape()?,
            message: self.option(Self::message)?.map(Box::new),
            constants: self.option(Self::constants)?.map(Box::new),
            check: self.option(Self::name)?,
            ..Type::default()
        })
    }

    fn shape(&mut self) -> Read<Shape> {
        Ok(match self.byte()? {
            0 => Shape::Bool,
            1 => Shape::Int {
                bits: 32,
                unsigned: false,
            },
            2 => Shape::Int {
                bits: 64,
                unsigned: false,
            },
            3 => Shape::Int {
                bits: 32,
                unsigned: true,
            },
            4 => Shape::Int {
                bits: 64,
                unsigned: true,
            },
            5 => Shape::Float { bits: 32 },
            6 => Shape::Float { bits: 64 },
            7 => Shape::String,
            8 => Shape::Bytes,
            9 => Shape::Quantity,
            10 => Shape::Time,
            11 => Shape::MicroTime,
            12 => Shape::Duration,
            13 => Shape::IntOrString,
            14 => Shape::RawExtension,
            15 => Shape::Json,
            16 => Shape::FieldsV1,
            17 => Shape::SchemaOrArray(self.id()?),
            18 => Shape::SchemaOrBool(self.id()?),
            19 => Shape::SchemaOrStringArray(self.id()?),
            20 => {
                let topology = self.topology()?;
                let fields = self.sequence(Self::field)?;
                {
                    let mut s = Struct::new(fields);
                    s.topology = topology;
                    Shape::Struct(s)
                }
            }
            21 => Shape::List(List {
                item: self.id()?,
                kind: match self.byte()? {
                    0 => ListKind::Unmarked,
                    1 => ListKind::Atomic,
                    2 => ListKind::Set,
                    3 => ListKind::Map(self.names()?.into()),
                    _ => return Err(self.damaged()),
                },
            }),
            22 => Shape::Map(Map {
                key: self.id()?,
                value: self.id()?,
                topology: self.topology()?,
            }),
            _ => return Err(self.damaged()),
        })
    }

    fn field(&mut self) -> Read<Field> {
        let (name, ty, tag) = (self.name()?, self.id()?, self.small()?);
        let flags = self.byte()?;
        Ok(Field {
            name,
            ty,
            tag,
            pointer: flags & 1 != 0,
            required: flags & 2 != 0,
            omit: match (flags & 4 != 0, flags & 8 != 0) {
                (false, false) => Omit::Never,
                (true, false) => Omit::Empty,
                (false, true) => Omit::Zero,
                (true, true) => Omit::EmptyAndZero,
            },
            details: if flags & 16 != 0 {
                Some(Box::new(self.details()?))
            } else {
                None
            },
        })
    }

    fn details(&mut self) -> Read<FieldDetails> {
        Ok(FieldDetails {
            default: self.option(Self::value)?,
            published_default: match self.option(|r| r.option(Self::value))? {
                None => PublishedDefault::Implied,
                Some(None) => PublishedDefault::Nothing,
                Some(Some(value)) => PublishedDefault::Value(value),
            },
            patch: Patch {
                strategy: match self.byte()? {
                    0 => PatchStrategy::Unmarked,
                    1 => PatchStrategy::Replace,
                    2 => PatchStrategy::Merge,
                    3 => PatchStrategy::RetainKeys,
                    4 => PatchStrategy::MergeRetainKeys,
                    _ => return Err(self.damaged()),
                },
                key: self.option(Self::name)?,
            },
            topology: self.topology()?,
            gates: self.names()?,
            check: self.option(Self::name)?,
        })
    }

    fn kind(&mut self) -> Read<Kind> {
        Ok(Kind {
            group: self.name()?,
            version: self.name()?,
            kind: self.name()?,
        })
    }

    fn message(&mut self) -> Read<Message> {
        let flags = self.byte()?;
        let kinds = self.sequence(Self::kind)?;
        let unions = self.sequence(|r| {
            Ok(Union {
                discriminator: r.option(Self::name)?,
                members: r.sequence(|r| Ok((r.name()?, r.name()?)))?,
            })
        })?;
        let embedded = self.sequence(|r| {
            Ok(Embedded {
                tag: r.small()?,
                ty: r.id()?,
                start: r.small()?,
                end: r.small()?,
            })
        })?;
        let lifecycle = Lifecycle {
            introduced: self.option(Self::name)?,
            deprecated: self.option(Self::name)?,
            removed: self.option(Self::name)?,
            replacement: self.option(Self::kind)?,
        };
        Ok(Message {
            json_only: flags & 1 != 0,
            wraps_list: flags & 2 != 0,
            published: flags & 4 != 0,
            non_namespaced: flags & 8 != 0,
            kinds,
            unions,
            embedded,
            lifecycle: (lifecycle != Lifecycle::default()).then(|| Box::new(lifecycle)),
        })
    }

    fn constants(&mut self) -> Read<Constants> {
        Ok(Constants {
            closed: self.byte()? != 0,
            values: self.names()?,
        })
    }

    fn resource(&mut self) -> Read<Resource> {
        let Kind { group, version, kind } = self.kind()?;
        let mut resource = Resource {
            group,
            version,
            kind,
            resource: self.name()?,
            singular: self.name()?,
            short_names: self.names()?,
            categories: self.names()?,
            ..Resource::default()
        };
        let flags = self.byte()?;
        resource.namespaced = flags & 1 != 0;
        if flags & 2 != 0 {
            resource.needs.push(Need::RuntimeConfig);
        }
        resource.verbs = Verbs(self.byte()?);
        resource.key = self.name()?;
        resource.storage = self.option(Self::kind)?;
        resource.needs.extend(self.names()?.into_iter().map(Need::FeatureGate));
        resource.introduced = self.option(Self::name)?;
        resource.removed = self.option(Self::name)?;
        resource.columns = self.sequence(|r| {
            let (name, kind, format) = (r.name()?, r.name()?, r.name()?);
            Ok(Column {
                name,
                kind,
                format,
                priority: i32::from(r.byte()?),
                json_path: None,
            })
        })?;
        resource.selectable = self.names()?;
        resource.never_set = self.names()?;
        resource.first_generation = self.byte()?;
        resource.generation = self.names()?;
        resource.name_rule = match self.byte()? {
            0 => NameRule::Subdomain,
            1 => NameRule::Label,
            2 => NameRule::PathSegment,
            3 => NameRule::Loose,
            4 => NameRule::Ip,
            5 => NameRule::Composed,
            _ => return Err(self.damaged()),
        };
        let limit: u16 = self.small()?;
        resource.name_limit = (limit != 0).then_some(limit);
        let flags = self.byte()?;
        resource.create_on_update = flags & 1 != 0;
        resource.unconditional_update = flags & 2 != 0;
        resource.graceful_delete = flags & 4 != 0;
        resource.delete_returns_object = flags & 8 != 0;
        resource.ttl = flags & 16 != 0;
        resource.dependents = match (flags & 32 != 0, flags & 64 != 0) {
            (false, false) => Dependents::Background,
            (true, false) => Dependents::Orphan,
            (_, true) => Dependents::Unsupported,
        };
        resource.clear_on_create = self.names()?;
        resource.clear_on_update = self.names()?;
        resource.keep_on_update = self.names()?;
        resource.reset = self.names()?;
        resource.subresources = self.sequence(Self::subresource)?;
        Ok(resource)
    }

    fn subresource(&mut self) -> Read<Subresource> {
        Ok(Subresource {
            name: self.name()?,
            kind: self.kind()?,
            verbs: Verbs(self.byte()?),
            form: match self.byte()? {
                0 => SubresourceForm::Object,
                1 => SubresourceForm::Action(self.kind()?),
                2 => SubresourceForm::Connect(self.names()?),
                3 => SubresourceForm::Stream,
                _ => return Err(self.damaged()),
            },
            keep: self.names()?,
            except: self.names()?,
            reset: self.names()?,
            generation: self.names()?,
        })
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
