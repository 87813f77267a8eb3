//! Compiles the schema texts of built-in kinds into one compact table. Build-time only: build scripts call
//! [`build`], `triptych_schema::table` reads what it writes.
//!
//! # The grammar
//!
//! A text holds facts only. Lines count, indentation nests, `#` starts a comment, parentheses, brackets and braces may
//! contain blanks. One text describes (part of) one Go package:
//!
//! ```text
//! package io.k8s.api.core.v1                            prefix of the OpenAPI names of its types
//! group   -/v1                                          API group and version, `-` for the core group; needed by `kind` and `resource`
//! use     meta = io.k8s.apimachinery.pkg.apis.meta.v1   meta.Time means that package's Time
//! ```
//!
//! **Structs**: a name and attributes, then fields in Go order (which is the order of JSON).
//!
//! ```text
//! PodSpec
//!   volumes        1  [Volume]      map(name) patch(merge+retainKeys name)
//!   containers     2  [Container]!  map(name) patch(merge name)
//!   restartPolicy  3  RestartPolicy = Always
//!   replicas       4  int32?        gate(SomeGate)
//!   embedded       5  inline VolumeSource
//! ```
//!
//! A field is its JSON name, its protobuf number (`-`: not in protobuf) and its type: `bool`, `string`, `bytes`, `int32`, `int64`,
//! `uint32`, `uint64`, `float`, `double`, a named type, `[item]`, `{value}` (a map with string keys) or `{Key:value}`. `inline` embeds a
//! struct: its fields become the parent's; with a number, protobuf keeps it as a nested message (its name counts for nothing).
//! How it is written: unmarked omitted when zero (`omitempty`), `?` a pointer, `!` required and always written, `+` always written, `?!` and `?+` accordingly.
//!
//! | field attribute | meaning |
//! |---|---|
//! | `= v` | default when absent (for what is no pointer: zero); a bare word or JSON. Conditional defaults are code |
//! | `published`, `published(v)`, `published()` | OpenAPI shows that default, this one, none; unmarked: `{}` for structs, zero for scalars that are always written |
//! | `atomic` `set` `map(k k)` | list type and its keys; `atomic` and `granular` also for maps and, overriding the type, structs |
//! | `patch(merge key)` | patch strategy `replace`, `merge`, `retainKeys`, `merge+retainKeys`, and merge key |
//! | `required` | required although omitted when zero |
//! | `omitzero` | Go's `omitzero` beside `omitempty` |
//! | `gate(G G)` | feature gates it belongs to; a default applies only while they are on |
//! | `check(rule)` | validated by this shared rule; also an attribute of types |
//!
//! | struct attribute | meaning |
//! |---|---|
//! | `kind` | the API kind of that name in the text's group |
//! | `since(1.0)` `deprecated(1.19)` `removed(1.22)` `instead(policy/v1:Kind)` | its life |
//! | `cluster` | has no namespace |
//! | `hidden` | not in the OpenAPI documents |
//! | `json` | no protobuf message |
//! | `atomic` | owned as a whole |
//! | `union(discriminator; field=Value)` | `x-kubernetes-unions` |
//!
//! **Other types**
//!
//! ```text
//! PullPolicy = Always IfNotPresent Never    a string with these values only
//! ConditionStatus ~ False True Unknown      a string with (among others) these constants, perhaps none
//! ExtraValue : [string]                     a Go slice type
//! Time : time                               one of the special forms: time microTime duration quantity intOrString rawExtension json
//!                                           fieldsV1 schemaOrBool schemaOrArray schemaOrStringArray
//! ```
//!
//! **Resources**: plural, kind, `namespaced` if so; what is not said is not so.
//!
//! ```text
//! resource pods Pod namespaced
//!   names       pod po                 singular, short names
//!   categories  all
//!   verbs       all                    create delete deletecollection get list patch update watch; or some of them
//!   key         /pods                  below the store's prefix; then namespace and name
//!   stored      apps/v1:Kind           when stored as something else than this version
//!   needs       config gate(G)         --runtime-config, a feature gate
//!   release     1.0 1.37               introduced, removed
//!   columns     Name Ready IP* Count:integer "Two words" X:string:name      `*`: wide only
//!   select      metadata.name spec.nodeName
//!   neverset    status.podIPs          selectable, but no object has it
//!   generation  1 spec                 on create; raised when these change
//!   name        subdomain 52           subdomain label path loose ip composed; limit
//!   flags       createOnUpdate unconditionalUpdate graceful returnsObject ttl orphan nodependents
//!   create      clear(status)
//!   update      clear(x) keep(status)
//!   reset       status                 ignored by apply
//!   /status     Pod get patch update  keep(metadata.ownerReferences spec) reset(spec) generation(spec)
//!   /binding    Binding create  action(-/v1:Status)      a kind of another group: with its group and version
//!   /exec       PodExecOptions create get  connect(GET POST)
//!   /log        Pod get  stream
//! ```

mod encode;
mod model;
mod resolve;
mod syntax;

use std::fmt;
use std::path::{Path, PathBuf};

/// A schema text and the name errors give it.
#[derive(Clone, Debug)]
pub struct Source {
    /// File name, for messages.
    pub path: String,
    /// Content.
    pub text: String,
}

/// A mistake in a text, shown as `file:line: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}: {message}")]
pub struct Problem {
    /// File name.
    pub path: String,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// Every mistake found, one a line.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            writeln!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Compiles texts that together name everything they use.
pub fn compile(sources: &[Source]) -> Result<Vec<u8>, Problems> {
    let mut problems = Vec::new();
    let files: Vec<_> = sources.iter().map(|s| syntax::parse(s, &mut problems)).collect();
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let model = resolve::resolve(&files).map_err(Problems)?;
    Ok(encode::encode(&model))
}

/// Reads every `*.schema` text of the directories, in name order.
pub fn read(directories: &[PathBuf]) -> std::io::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for directory in directories {
        let mut paths: Vec<_> = std::fs::read_dir(directory)?
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|p| p.extension().is_some_and(|e| e == "schema"));
        paths.sort();
        for path in paths {
            sources.push(Source {
                text: std::fs::read_to_string(&path)?,
                path: path.display().to_string(),
            });
        }
    }
    Ok(sources)
}

/// For build scripts: compiles the texts of the directories into `$OUT_DIR/schema.bin` and has cargo watch them.
pub fn build<P: AsRef<Path>>(directories: &[P]) -> Result<(), Box<dyn std::error::Error>> {
    let directories: Vec<PathBuf> = directories.iter().map(|d| d.as_ref().to_owned()).collect();
    for directory in &directories {
        println!("cargo::rerun-if-changed={}", directory.display());
    }
    let table = compile(&read(&directories)?)?;
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?;
    std::fs::write(Path::new(&out).join("schema.bin"), table)?;
    Ok(())
}
