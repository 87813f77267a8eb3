//! Documents of custom resources: one per group-version, made of every CRD that serves it.

use std::sync::Arc;

use bytes::Bytes;
use triptych_object::{Value, json};
use triptych_schema::openapi::custom::{self, CustomVersion};
use triptych_schema::openapi::definition::{Definitions, Dialect};
use triptych_schema::openapi::v2::Swagger;
use triptych_schema::openapi::v3;
use triptych_schema::openapi::{Describe, Scope};
use triptych_schema::types::Schema;

use super::{Document, Source};

/// A CRD as it is cached: its JSON is shared with the cache and parsed only while a document is made.
#[derive(Clone, Debug)]
pub struct Crd {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.generation`.
    pub generation: i64,
    /// The object, apiextensions.k8s.io/v1.
    pub object: Bytes,
}

/// What the documents of custom resources are made of besides their CRDs.
#[derive(Clone)]
pub struct Custom {
    /// Has the types that every custom resource refers to.
    pub schema: Arc<Schema>,
    /// Stands for everything that is compiled in: the build id.
    pub build: Arc<str>,
}

struct Made {
    of: Custom,
    version: String,
    crds: Vec<Crd>,
}

impl Custom {
    /// The document of a group-version that these CRDs serve.
    pub fn version(&self, group: &str, version: &str, mut crds: Vec<Crd>) -> Document {
        crds.sort_by(|a, b| a.uid.cmp(&b.uid));
        let mut ingredients = self.build.to_string();
        for crd in &crds {
            ingredients.push_str(&format!(" {},{}", crd.uid, crd.generation));
        }
        Document::new(
            &format!("apis/{group}/{version}"),
            ingredients.as_bytes(),
            Made {
                of: self.clone(),
                version: version.to_owned(),
                crds,
            },
        )
    }
}

impl Made {
    /// Calls `each` with every CRD's part.
    fn parts(&self, mut each: impl FnMut(&CustomVersion<'_>)) {
        for crd in &self.crds {
            let Ok(object) = json::from_slice(&crd.object) else {
                continue;
            };
            let versions = object.array_at(&["spec", "versions"]);
            let Some(version) = versions.iter().find(|v| v.str_at(&["name"]) == self.version) else {
                continue;
            };
            let selectable: Vec<&str> = version
                .array_at(&["selectableFields"])
                .iter()
                .map(|f| f.str_at(&["jsonPath"]))
                .collect();
            let has = |name| version.at(&["subresources", name]).is_some_and(|s| !s.is_null());
            each(&CustomVersion {
                group: object.str_at(&["spec", "group"]),
                version: &self.version,
                kind: object.str_at(&["spec", "names", "kind"]),
                list_kind: object.str_at(&["spec", "names", "listKind"]),
                plural: object.str_at(&["spec", "names", "plural"]),
                namespaced: object.str_at(&["spec", "scope"]) == "Namespaced",
                schema: version.at(&["schema", "openAPIV3Schema"]),
                preserve_unknown: object.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true),
                status: has("status"),
                scale: has("scale"),
                selectable: &selectable,
            });
        }
    }
}

impl Source for Made {
    fn v3(&self, texts: &dyn Describe) -> Vec<u8> {
        let definitions = Definitions {
            schema: &self.of.schema,
            texts,
            dialect: Dialect::V3,
            scope: Scope::Clients,
        };
        let (mut routes, mut own) = (Vec::new(), Vec::new());
        self.parts(|part| {
            routes.extend(part.routes());
            own.extend(part.definitions(Dialect::V3, texts));
        });
        v3::document(custom::INFO, &definitions, &routes, &own)
    }

    fn add_to(&self, whole: &mut Swagger, texts: &dyn Describe) {
        let definitions = Definitions {
            schema: &self.of.schema,
            texts,
            dialect: Dialect::V2,
            scope: Scope::Everything,
        };
        self.parts(|part| {
            let own = part.definitions(Dialect::V2, texts);
            whole.add(&definitions, &part.routes(), &own);
            whole.add_types(&definitions, [OBJECT_META, LIST_META]);
        });
    }
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_changes_its_hash_with_the_generation_of_its_crds() {
        let custom = Custom {
            schema: Arc::new(Schema::new()),
            build: "test".into(),
        };
        let crd = |generation| {
            Crd {
            uid: "a".into(),
            generation,
            object: Bytes::from_static(
                br#"{"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Widget","listKind":"WidgetList","plural":"widgets"},"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#,
            ),
        }
        };
        let first = custom.version("example.com", "v1", vec![crd(1)]);
        assert_eq!(first.hash, custom.version("example.com", "v1", vec![crd(1)]).hash);
        assert_ne!(first.hash, custom.version("example.com", "v1", vec![crd(2)]).hash);
        assert_eq!(&*first.path, "apis/example.com/v1");
        let document = json::from_slice(&first.source.v3(&())).unwrap();
        assert!(
            document
                .at(&["paths", "/apis/example.com/v1/widgets/{name}", "get"])
                .is_some()
        );
        assert!(
            document
                .at(&["components", "schemas", "com.example.v1.WidgetList"])
                .is_some()
        );
    }
}
