//! From syntax trees to the model: names to ids, embedded fields flattened, anonymous types interned, attributes read.

use std::collections::{HashMap, HashSet};

use crate::Problem;
use crate::model::*;
use crate::syntax::{self, Attribute, Body, FieldDecl, File, ResourceDecl, ResourceLine, TypeDecl, TypeExpr};

type Result<T> = std::result::Result<T, String>;

/// Resolves all texts together.
pub fn resolve(files: &[File]) -> std::result::Result<Model, Vec<Problem>> {
    let mut resolver = Resolver {
        declared: HashMap::new(),
        decls: Vec::new(),
        interned: HashMap::new(),
        types: Vec::new(),
    };
    let mut problems = Vec::new();
    for file in files {
        for decl in &file.types {
            let name = format!("{}.{}", file.package, decl.name);
            let id = resolver.decls.len() as Id;
            if resolver.declared.insert(name.clone(), id).is_some() {
                problems.push(problem(file, decl.line, format!("{name} is declared twice")));
            }
            resolver.decls.push((file, decl));
            resolver.types.push(Type {
                name: Some(name),
                ..Type::default()
            });
        }
    }
    let mut kinds = HashSet::new();
    for id in 0..resolver.decls.len() {
        let (file, decl) = resolver.decls[id];
        if let Err((line, message)) = resolver.fill(id as Id, file, decl) {
            problems.push(problem(file, line, message));
        }
        // Kinds that only requests carry (PodAttachOptions) have no group-version-kind in OpenAPI.
        kinds.extend(local_kind(file, &decl.name));
    }
    let mut resources = Vec::new();
    for file in files {
        for decl in &file.resources {
            match resource(file, decl, &kinds) {
                Ok(resource) => resources.push(resource),
                Err((line, message)) => problems.push(problem(file, line, message)),
            }
        }
    }
    if problems.is_empty() {
        Ok(Model {
            types: resolver.types,
            resources,
        })
    } else {
        Err(problems)
    }
}

fn problem(file: &File, line: usize, message: String) -> Problem {
    Problem {
        path: file.path.clone(),
        line,
        message,
    }
}

struct Resolver<'a> {
    declared: HashMap<String, Id>,
    decls: Vec<(&'a File, &'a TypeDecl)>,
    interned: HashMap<Shape, Id>,
    types: Vec<Type>,
}

impl<'a> Resolver<'a> {
    fn intern(&mut self, shape: Shape) -> Id {
        if let Some(id) = self.interned.get(&shape) {
            return *id;
        }
        let id = self.types.len() as Id;
        self.types.push(Type {
            shape: shape.clone(),
            ..Type::default()
        });
        self.interned.insert(shape, id);
        id
    }

    fn named(&mut self, file: &File, name: &str) -> Result<Id> {
        if let Some(code) = PLAIN[..SCALARS].iter().position(|p| *p == name) {
            return Ok(self.intern(Shape::Plain(code as u8)));
        }
        let full = match name.split_once('.') {
            Some((alias, name)) => {
                let package = file.uses.iter().find(|(a, _)| a == alias);
                let (_, package) = package.ok_or_else(|| format!("no `use {alias} = …`"))?;
                format!("{package}.{name}")
            }
            None => format!("{}.{name}", file.package),
        };
        self.declared
            .get(&full)
            .copied()
            .ok_or_else(|| format!("there is no type {full}"))
    }

    /// The id of a type as written; `attributes` say what list or map it is.
    fn expr(&mut self, file: &File, expr: &TypeExpr, kind: ListKind, topology: Topology) -> Result<Id> {
        Ok(match expr {
            TypeExpr::Named(name) => self.named(file, name)?,
            TypeExpr::List(item) => {
                let item = self.expr(file, item, ListKind::Unmarked, Topology::Unmarked)?;
                self.intern(Shape::List(item, kind))
            }
            TypeExpr::Map(key, value) => {
                let key = self.expr(file, key, ListKind::Unmarked, Topology::Unmarked)?;
                let value = self.expr(file, value, ListKind::Unmarked, Topology::Unmarked)?;
                self.intern(Shape::Map(key, value, topology))
            }
        })
    }

    fn fill(&mut self, id: Id, file: &'a File, decl: &'a TypeDecl) -> std::result::Result<(), (usize, String)> {
        let at = |message| (decl.line, message);
        let mut ty = Type {
            name: self.types[id as usize].name.take(),
            ..Type::default()
        };
        match &decl.body {
            Body::Constants { closed, values } => {
                ty.shape = Shape::Plain(STRING);
                ty.constants = Some((*closed, values.clone()));
            }
            Body::Slice(item) => {
                let item = self
                    .expr(file, item, ListKind::Unmarked, Topology::Unmarked)
                    .map_err(at)?;
                ty.shape = Shape::List(item, ListKind::Unmarked);
                ty.message = Some(Message {
                    wraps_list: true,
                    ..Message::default()
                });
            }
            Body::Special(form) => {
                ty.shape = match SCHEMA_OR.iter().position(|s| s == form) {
                    Some(i) => Shape::SchemaOr(
                        (PLAIN.len() + i) as u8,
                        self.named(file, "JSONSchemaProps").map_err(at)?,
                    ),
                    None => match PLAIN[SCALARS..].iter().position(|p| p == form) {
                        Some(i) => Shape::Plain((SCALARS + i) as u8),
                        None => return Err(at(format!("there is no form `{form}`"))),
                    },
                };
                let mut message = Message {
                    published: true,
                    ..Message::default()
                };
                for attribute in &decl.attributes {
                    match attribute.name.as_str() {
                        "hidden" => message.published = false,
                        other => return Err(at(format!("`{other}` says nothing about a special form"))),
                    }
                }
                ty.message = Some(message);
            }
            Body::Struct(_) => {
                let (mut message, topology, check) = header(file, decl).map_err(at)?;
                (message.fields, message.embedded) = self.flatten(file, decl, 0)?;
                ty.shape = Shape::Struct(topology);
                ty.check = check;
                ty.message = Some(message);
            }
        }
        self.types[id as usize] = ty;
        Ok(())
    }

    /// A struct's fields with those of embedded structs in their place.
    fn flatten(
        &mut self,
        file: &'a File,
        decl: &'a TypeDecl,
        depth: usize,
    ) -> std::result::Result<(Vec<Field>, Vec<Embedded>), (usize, String)> {
        let Body::Struct(decls) = &decl.body else {
            return Err((decl.line, "only structs can be embedded".into()));
        };
        if depth > 8 {
            return Err((decl.line, "it embeds itself".into()));
        }
        let (mut fields, mut embedded) = (Vec::new(), Vec::new());
        for field in decls {
            let at = |message| (field.line, message);
            if field.inline {
                let ty = self
                    .expr(file, &field.ty, ListKind::Unmarked, Topology::Unmarked)
                    .map_err(at)?;
                let (file, decl) = *self
                    .decls
                    .get(ty as usize)
                    .ok_or_else(|| at("scalars cannot be embedded".into()))?;
                let (mut inner, _) = self.flatten(file, decl, depth + 1)?;
                inner.iter_mut().for_each(|f| f.tag = 0);
                let start = fields.len();
                fields.append(&mut inner);
                if field.tag != 0 {
                    embedded.push(Embedded {
                        tag: field.tag,
                        ty,
                        start,
                        end: fields.len(),
                    });
                }
            } else {
                fields.push(self.field(file, field).map_err(at)?);
            }
        }
        let mut seen = HashSet::new();
        match fields.iter().find(|f| !seen.insert(f.name.as_str())) {
            Some(twice) => Err((decl.line, format!("two fields are called {}", twice.name))),
            None => Ok((fields, embedded)),
        }
    }

    fn field(&mut self, file: &File, decl: &FieldDecl) -> Result<Field> {
        let mut field = Field {
            name: decl.name.clone(),
            tag: decl.tag,
            pointer: decl.pointer,
            required: decl.required,
            omit_empty: !decl.always,
            default: decl.default.clone(),
            ..Field::default()
        };
        let (mut kind, mut topology) = (ListKind::Unmarked, Topology::Unmarked);
        let list = matches!(decl.ty, TypeExpr::List(_));
        for attribute in &decl.attributes {
            let words = attribute.words();
            match (attribute.name.as_str(), words.as_slice()) {
                ("atomic", []) if list => kind = ListKind::Atomic,
                ("atomic", []) => topology = Topology::Atomic,
                ("granular", []) if !list => topology = Topology::Granular,
                ("set", []) if list => kind = ListKind::Set,
                ("map", [_, ..]) if list => kind = ListKind::Map(words),
                ("patch", [strategy, key @ ..]) if key.len() < 2 => {
                    let code = STRATEGIES.iter().position(|s| s == strategy && !s.is_empty());
                    let code = code.ok_or_else(|| format!("there is no patch strategy `{strategy}`"))?;
                    field.patch = (code as u8, key.first().cloned());
                }
                ("published", _) => {
                    field.published = Some(match attribute.arguments.as_deref() {
                        None if field.default.is_none() => return Err("there is no default to publish".into()),
                        None => field.default.clone(),
                        Some("") => None,
                        Some(text) => Some(syntax::literal(text)?),
                    });
                }
                ("required", []) => field.required = true,
                ("omitzero", []) => field.omit_zero = true,
                ("gate", [_, ..]) => field.gates = words,
                ("check", [rule]) => field.check = Some(rule.clone()),
                (name, _) => return Err(format!("`{name}` with these arguments says nothing about this field")),
            }
        }
        if matches!(decl.ty, TypeExpr::Named(_)) {
            field.topology = topology;
        }
        field.ty = self.expr(file, &decl.ty, kind, topology)?;
        Ok(field)
    }
}

fn header(file: &File, decl: &TypeDecl) -> Result<(Message, Topology, Option<String>)> {
    let mut message = Message {
        published: true,
        ..Message::default()
    };
    let (mut topology, mut check) = (Topology::Unmarked, None);
    for attribute in &decl.attributes {
        let words = attribute.words();
        match (attribute.name.as_str(), words.as_slice()) {
            ("kind", []) => message.kinds.push(local_kind(file, &decl.name)?),
            ("atomic", []) => topology = Topology::Atomic,
            ("hidden", []) => message.published = false,
            ("json", []) => message.json_only = true,
            ("cluster", []) => message.cluster = true,
            ("since", [release]) => message.releases[0] = Some(release.clone()),
            ("deprecated", [release]) => message.releases[1] = Some(release.clone()),
            ("removed", [release]) => message.releases[2] = Some(release.clone()),
            ("instead", [kind]) => message.instead = Some(kind_of(file, kind)?),
            ("check", [rule]) => check = Some(rule.clone()),
            ("union", _) => message.unions.push(union(attribute)?),
            (name, _) => return Err(format!("`{name}` with these arguments says nothing about a struct")),
        }
    }
    Ok((message, topology, check))
}

fn union(attribute: &Attribute) -> Result<Union> {
    let text = attribute.arguments.as_deref().unwrap_or_default();
    let (discriminator, members) = text.split_once(';').ok_or("a union is `discriminator; field=Value`")?;
    let pair = |word: String| match word.split_once('=') {
        Some((field, value)) => Ok((field.to_owned(), value.to_owned())),
        None => Err(format!("`{word}` is no `field=Value`")),
    };
    let members = syntax::words(members).into_iter().map(pair).collect::<Result<_>>()?;
    let discriminator = discriminator.trim();
    Ok(Union {
        discriminator: (!discriminator.is_empty()).then(|| discriminator.to_owned()),
        members,
    })
}

fn local_kind(file: &File, kind: &str) -> Result<Kind> {
    let (group, version) = file.group.clone().ok_or("the text has no `group` line")?;
    Ok(Kind {
        group,
        version,
        kind: kind.to_owned(),
    })
}

/// `Pod`, or `policy/v1:Eviction` of another group.
fn kind_of(file: &File, text: &str) -> Result<Kind> {
    match text.split_once(':') {
        Some((gv, kind)) => {
            let (group, version) = syntax::group_version(gv)?;
            Ok(Kind {
                group,
                version,
                kind: kind.to_owned(),
            })
        }
        None => local_kind(file, text),
    }
}

fn resource(file: &File, decl: &ResourceDecl, kinds: &HashSet<Kind>) -> std::result::Result<Resource, (usize, String)> {
    let known = |kind: Kind| {
        if kinds.contains(&kind) {
            Ok(kind)
        } else {
            Err(format!("there is no kind {}", kind.kind))
        }
    };
    let kind = local_kind(file, &decl.kind)
        .and_then(known)
        .map_err(|m| (decl.line, m))?;
    let mut resource = Resource {
        stored: Some(kind.clone()),
        kind,
        plural: decl.plural.clone(),
        namespaced: decl.namespaced,
        ..Resource::default()
    };
    for line in &decl.lines {
        resource_line(file, &mut resource, line, &known).map_err(|m| (line.line, m))?;
    }
    if resource.key.is_empty() {
        resource.stored = None;
    }
    Ok(resource)
}

fn resource_line(
    file: &File,
    resource: &mut Resource,
    line: &ResourceLine,
    known: &dyn Fn(Kind) -> Result<Kind>,
) -> Result<()> {
    let words = line.words.clone();
    match (line.keyword.as_str(), words.as_slice()) {
        ("names", [singular, short @ ..]) => {
            resource.singular = singular.clone();
            resource.short_names = short.to_vec();
        }
        ("categories", _) => resource.categories = words,
        ("verbs", _) => resource.verbs = verbs(&words)?,
        ("key", [key]) => resource.key = key.clone(),
        // A stored form may be one that this server does not serve, and so has no type.
        ("stored", [kind]) => resource.stored = Some(kind_of(file, kind)?),
        ("needs", needs) => {
            for need in needs {
                let attribute = Attribute::parse(need);
                match attribute.name.as_str() {
                    "config" => resource.needs_config = true,
                    "gate" => resource.gates.extend(attribute.words()),
                    other => return Err(format!("`{other}` cannot be needed")),
                }
            }
        }
        ("release", [introduced, removed @ ..]) if removed.len() < 2 => {
            resource.introduced = Some(introduced.clone());
            resource.removed = removed.first().cloned();
        }
        ("columns", _) => resource.columns = words.iter().map(|w| column(w)).collect(),
        ("select", _) => resource.select = words,
        ("neverset", _) => resource.never_set = words,
        ("generation", [first, on @ ..]) if first == "0" || first == "1" => {
            resource.first_generation = u8::from(first == "1");
            resource.generation = on.to_vec();
        }
        ("name", [rule, limit @ ..]) if limit.len() < 2 => {
            resource.name_rule = position(&NAME_RULES, rule)?;
            let limit = limit
                .first()
                .map(|l| l.parse().map_err(|_| format!("`{l}` is no length")));
            resource.name_limit = limit.transpose()?;
        }
        ("flags", flags) => {
            for flag in flags {
                resource.flags |= 1 << position(&FLAGS, flag)?;
            }
        }
        ("reset", _) => resource.reset = words,
        (phase @ ("create" | "update"), changes) => {
            for change in changes {
                let change = Attribute::parse(change);
                let paths = match (phase, change.name.as_str()) {
                    ("create", "clear") => &mut resource.clear_on_create,
                    ("update", "clear") => &mut resource.clear_on_update,
                    ("update", "keep") => &mut resource.keep_on_update,
                    (_, other) => return Err(format!("there is no `{other}` on {phase}")),
                };
                paths.extend(change.words());
            }
        }
        (keyword, [kind, rest @ ..]) if keyword.starts_with('/') => {
            let kind = known(kind_of(file, kind)?)?;
            resource
                .subresources
                .push(subresource(file, &keyword[1..], kind, rest, known)?);
        }
        (keyword, _) => return Err(format!("`{keyword}` with these words says nothing about a resource")),
    }
    Ok(())
}

fn subresource(
    file: &File,
    name: &str,
    kind: Kind,
    words: &[String],
    known: &dyn Fn(Kind) -> Result<Kind>,
) -> Result<Subresource> {
    let mut sub = Subresource {
        name: name.to_owned(),
        kind,
        ..Subresource::default()
    };
    let mut plain = Vec::new();
    for word in words {
        let attribute = Attribute::parse(word);
        let arguments = attribute.words();
        match (attribute.name.as_str(), arguments.as_slice()) {
            ("stream", []) => sub.form = Form::Stream,
            ("action", [kind]) => sub.form = Form::Action(known(kind_of(file, kind)?)?),
            ("connect", [_, ..]) => sub.form = Form::Connect(arguments),
            ("keep", [_, ..]) => sub.keep = arguments,
            ("except", [_, ..]) => sub.except = arguments,
            ("reset", [_, ..]) => sub.reset = arguments,
            ("generation", [_, ..]) => sub.generation = arguments,
            (_, []) => plain.push(word.clone()),
            (other, _) => return Err(format!("`{other}` says nothing about a subresource")),
        }
    }
    sub.verbs = verbs(&plain)?;
    Ok(sub)
}

fn verbs(words: &[String]) -> Result<u8> {
    if words == ["all"] {
        return Ok(0xff);
    }
    words
        .iter()
        .try_fold(0, |set, verb| Ok(set | 1 << position(&VERBS, verb)?))
}

fn position(names: &[&str], name: &str) -> Result<u8> {
    let at = names.iter().position(|n| *n == name);
    at.map(|i| i as u8)
        .ok_or_else(|| format!("`{name}` is none of {}", names.join(" ")))
}

/// `Name`, `"Two words"`, `Count:integer`, `X:string:name`, each with `*` when wide.
fn column(word: &str) -> Column {
    let (word, priority) = word.strip_suffix('*').map_or((word, 0), |w| (w, 1));
    let mut parts = word.splitn(3, ':');
    let name = syntax::unquote(parts.next().unwrap_or_default());
    match (parts.next(), parts.next()) {
        (None, _) if name == "Name" => Column {
            name,
            kind: "string".into(),
            format: "name".into(),
            priority,
        },
        (kind, format) => {
            let text = |part: Option<&str>, otherwise: &str| part.unwrap_or(otherwise).to_owned();
            Column {
                name,
                kind: text(kind, "string"),
                format: text(format, ""),
                priority,
            }
        }
    }
}
