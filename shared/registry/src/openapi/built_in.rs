//! Documents of built-in group-versions, groups and paths.

use std::sync::Arc;

use triptych_schema::openapi::definition::{Definitions, Dialect};
use triptych_schema::openapi::operation::{self, Route};
use triptych_schema::openapi::v2::Swagger;
use triptych_schema::openapi::v3::{self, Info};
use triptych_schema::openapi::{Describe, Scope};
use triptych_schema::resource::Resource;
use triptych_schema::types::Schema;

use super::{Document, Source};

/// What the documents of a tier's built-in groups are made of.
#[derive(Clone)]
pub struct BuiltIn {
    /// The tier's types.
    pub schema: Arc<Schema>,
    /// Stands for everything that is compiled in: the build id.
    pub build: Arc<str>,
}

enum Subject {
    Version(String, String, Vec<Arc<Resource>>),
    Group(String),
    Root(&'static str),
}

struct Made {
    of: BuiltIn,
    subject: Subject,
}

impl BuiltIn {
    /// The document of a group-version that has these resources.
    pub fn version(&self, group: &str, version: &str, resources: Vec<Arc<Resource>>) -> Document {
        let names: Vec<&str> = resources.iter().map(|r| &*r.resource).collect();
        let ingredients = names.join(" ");
        let path = &operation::root(group, version)[1..];
        self.document(
            path,
            &ingredients,
            Subject::Version(group.into(), version.into(), resources),
        )
    }

    /// The document of a group.
    pub fn group(&self, group: &str) -> Document {
        self.document(&format!("apis/{group}"), "", Subject::Group(group.into()))
    }

    /// The documents of paths that belong to no group: `api`, `apis`, `version` and the issuer's.
    pub fn roots(&self) -> Vec<Document> {
        let document = |name: &&'static str| self.document(name, "", Subject::Root(name));
        operation::ROOTS.iter().map(document).collect()
    }

    fn document(&self, path: &str, ingredients: &str, subject: Subject) -> Document {
        let ingredients = format!("{} {ingredients}", self.build);
        Document::new(
            path,
            ingredients.as_bytes(),
            Made {
                of: self.clone(),
                subject,
            },
        )
    }
}

impl Made {
    fn routes(&self) -> Vec<Route> {
        match &self.subject {
            Subject::Version(group, version, resources) => {
                operation::of_version(&self.of.schema, group, version, resources.iter().map(|r| &**r))
            }
            Subject::Group(group) => operation::of_group(group),
            Subject::Root(name) => operation::of_root(name).into_iter().collect(),
        }
    }
}

impl Source for Made {
    fn v3(&self, texts: &dyn Describe) -> Vec<u8> {
        let scope = match &self.subject {
            Subject::Version(group, version, _) => Scope::Version(group, version),
            _ => Scope::Version("", "v1"),
        };
        let definitions = Definitions {
            schema: &self.of.schema,
            texts,
            dialect: Dialect::V3,
            scope,
        };
        v3::document(Info::KUBERNETES, &definitions, &self.routes(), &[])
    }

    fn add_to(&self, whole: &mut Swagger, texts: &dyn Describe) {
        let definitions = Definitions {
            schema: &self.of.schema,
            texts,
            dialect: Dialect::V2,
            scope: Scope::Everything,
        };
        whole.add(&definitions, &self.routes(), &[]);
    }
}
