//! Writes the model as a table: strings once, numbers as LEB128, everything else a sequence in a fixed order.
//!
//! The reader is `triptych_schema::table`; [`VERSION`] rises with every change of the layout.

use std::collections::HashMap;

use crate::model::*;

/// First bytes of a table.
pub const MAGIC: &[u8; 4] = b"TTBL";
/// Version of the layout.
pub const VERSION: u8 = 1;

/// The table's bytes.
pub fn encode(model: &Model) -> Vec<u8> {
    let mut w = Writer::default();
    w.sequence(&model.types, Writer::ty);
    w.sequence(&model.resources, Writer::resource);
    let mut table = Writer::default();
    table.bytes.extend_from_slice(MAGIC);
    table.bytes.push(VERSION);
    table.number(w.strings.len() as u64);
    for string in &w.strings {
        table.number(string.len() as u64);
        table.bytes.extend_from_slice(string.as_bytes());
    }
    table.bytes.append(&mut w.bytes);
    table.bytes
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    strings: Vec<String>,
    index: HashMap<String, usize>,
}

impl Writer {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    fn flags(&mut self, flags: &[bool]) {
        let bits = flags
            .iter()
            .enumerate()
            .fold(0u64, |bits, (i, on)| bits | u64::from(*on) << i);
        self.number(bits);
    }

    fn string(&mut self, s: &str) {
        let next = self.strings.len();
        let at = *self.index.entry(s.to_owned()).or_insert(next);
        if at == next {
            self.strings.push(s.to_owned());
        }
        self.number(at as u64);
    }

    fn option<T>(&mut self, value: &Option<T>, write: impl Fn(&mut Self, &T)) {
        self.bytes.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn optional(&mut self, value: &Option<String>) {
        self.option(value, |w, s| w.string(s));
    }

    fn sequence<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.number(items.len() as u64);
        items.iter().for_each(|item| write(self, item));
    }

    fn strings(&mut self, items: &[String]) {
        self.sequence(items, |w, s| w.string(s));
    }

    fn value(&mut self, value: &serde_json::Value) {
        use serde_json::Value;
        match value {
            Value::Null => self.bytes.push(0),
            Value::Bool(b) => self.bytes.push(1 + u8::from(*b)),
            Value::Number(n) => match n.as_i64() {
                Some(i) => {
                    self.bytes.push(3);
                    self.number((i << 1 ^ i >> 63) as u64);
                }
                None => {
                    self.bytes.push(4);
                    self.bytes
                        .extend_from_slice(&n.as_f64().unwrap_or_default().to_le_bytes());
                }
            },
            Value::String(s) => {
                self.bytes.push(5);
                self.string(s);
            }
            Value::Array(items) => {
                self.bytes.push(6);
                self.sequence(items, Self::value);
            }
            Value::Object(members) => {
                self.bytes.push(7);
                self.number(members.len() as u64);
                for (key, value) in members {
                    self.string(key);
                    self.value(value);
                }
            }
        }
    }

    fn ty(&mut self, ty: &Type) {
        self.optional(&ty.name);
        match &ty.shape {
            Shape::Plain(code) => self.bytes.push(*code),
            Shape::SchemaOr(code, schema) => {
                self.bytes.push(*code);
                self.number(u64::from(*schema));
            }
            Shape::Struct(topology) => {
                self.bytes.push(20);
                self.bytes.push(*topology as u8);
                let fields = ty.message.as_ref().map_or(&[][..], |m| &m.fields);
                self.sequence(fields, Self::field);
            }
            Shape::List(item, kind) => {
                self.bytes.push(21);
                self.number(u64::from(*item));
                match kind {
                    ListKind::Unmarked => self.bytes.push(0),
                    ListKind::Atomic => self.bytes.push(1),
                    ListKind::Set => self.bytes.push(2),
                    ListKind::Map(keys) => {
                        self.bytes.push(3);
                        self.strings(keys);
                    }
                }
            }
            Shape::Map(key, value, topology) => {
                self.bytes.push(22);
                self.number(u64::from(*key));
                self.number(u64::from(*value));
                self.bytes.push(*topology as u8);
            }
        }
        self.option(&ty.message, Self::message);
        self.option(&ty.constants, |w, (closed, values)| {
            w.bytes.push(u8::from(*closed));
            w.strings(values);
        });
        self.optional(&ty.check);
    }

    fn field(&mut self, f: &Field) {
        let details = f.default.is_some()
            || f.published.is_some()
            || f.patch.0 != 0
            || f.topology != Topology::Unmarked
            || !f.gates.is_empty()
            || f.check.is_some();
        self.string(&f.name);
        self.number(u64::from(f.ty));
        self.number(u64::from(f.tag));
        self.flags(&[f.pointer, f.required, f.omit_empty, f.omit_zero, details]);
        if details {
            self.option(&f.default, Self::value);
            self.option(&f.published, |w, p| w.option(p, Self::value));
            self.bytes.push(f.patch.0);
            self.optional(&f.patch.1);
            self.bytes.push(f.topology as u8);
            self.strings(&f.gates);
            self.optional(&f.check);
        }
    }

    fn message(&mut self, m: &Message) {
        self.flags(&[m.json_only, m.wraps_list, m.published, m.cluster]);
        self.sequence(&m.kinds, Self::kind);
        self.sequence(&m.unions, |w, union| {
            w.optional(&union.discriminator);
            w.sequence(&union.members, |w, (field, value)| {
                w.string(field);
                w.string(value);
            });
        });
        self.sequence(&m.embedded, |w, e| {
            [u64::from(e.tag), u64::from(e.ty), e.start as u64, e.end as u64]
                .into_iter()
                .for_each(|n| w.number(n));
        });
        m.releases.iter().for_each(|release| self.optional(release));
        self.option(&m.instead, Self::kind);
    }

    fn kind(&mut self, kind: &Kind) {
        self.string(&kind.group);
        self.string(&kind.version);
        self.string(&kind.kind);
    }

    fn resource(&mut self, r: &Resource) {
        self.kind(&r.kind);
        self.string(&r.plural);
        self.string(&r.singular);
        self.strings(&r.short_names);
        self.strings(&r.categories);
        self.flags(&[r.namespaced, r.needs_config]);
        self.bytes.push(r.verbs);
        self.string(&r.key);
        self.option(&r.stored, Self::kind);
        self.strings(&r.gates);
        self.optional(&r.introduced);
        self.optional(&r.removed);
        self.sequence(&r.columns, |w, c| {
            w.string(&c.name);
            w.string(&c.kind);
            w.string(&c.format);
            w.bytes.push(c.priority);
        });
        self.strings(&r.select);
        self.strings(&r.never_set);
        self.bytes.push(r.first_generation);
        self.strings(&r.generation);
        self.bytes.push(r.name_rule);
        self.number(u64::from(r.name_limit.unwrap_or(0)));
        self.bytes.push(r.flags);
        self.strings(&r.clear_on_create);
        self.strings(&r.clear_on_update);
        self.strings(&r.keep_on_update);
        self.strings(&r.reset);
        self.sequence(&r.subresources, Self::subresource);
    }

    fn subresource(&mut self, s: &Subresource) {
        self.string(&s.name);
        self.kind(&s.kind);
        self.bytes.push(s.verbs);
        match &s.form {
            Form::Object => self.bytes.push(0),
            Form::Action(answer) => {
                self.bytes.push(1);
                self.kind(answer);
            }
            Form::Connect(methods) => {
                self.bytes.push(2);
                self.strings(methods);
            }
            Form::Stream => self.bytes.push(3),
        }
        self.strings(&s.keep);
        self.strings(&s.except);
        self.strings(&s.reset);
        self.strings(&s.generation);
    }
}
