//! A CRD in service: its schemas imported, its collection open, an endpoint for every version that is served.
//!
//! Contract: a [`Serving`] is of one generation of a CRD, one set of accepted names and of stored versions; whatever else changes in the CRD
//! (conditions, deletion) changes nothing here but [`Serving::terminating`]. Closing it ends its watches.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use triptych_client::hook::Calls;
use triptych_object::{GroupResource, Gvk, Value, json};
use triptych_registry::builtin::{BuiltIn, Scheme};
use triptych_registry::collection::Collection;
use triptych_registry::endpoint::{Backing, Endpoint, Services, Subhandler};
use triptych_registry::scale::{Scale, Selector};
use triptych_registry::strategy::{Plain, Strategy};
use triptych_registry::write::fields::FieldRules;
use triptych_registry::{Handler, Model};
use triptych_schema::managed::set::Filter;
use triptych_schema::resource::{NameRule, Resource, Subresource, Verbs};
use triptych_schema::types::{Kind, Name};
use triptych_storage::stores::Stores;
use triptych_storage::{Cache, CacheConfig, FieldPath, Metrics, Store};

use super::columns::Columns;
use super::conversion::Converter;
use super::converting::Converting;
use super::handler::VersionHandler;
use super::kind::{CustomKind, StoredObjects};
use super::model::CustomModel;
use super::scale_paths::{ScalePaths, members};
use super::strategy::CustomStrategy;
use crate::definition::summary::{Names, Summary};
use crate::definition::warnings::deprecation_warning;

/// No object carries more selectable fields.
const MAX_FIELDS: usize = 60;

/// What every CRD's endpoints are made with.
pub struct Maker {
    /// Where objects are stored.
    pub stores: Arc<Stores>,
    /// Metrics of stores and caches.
    pub metrics: Metrics,
    /// The types of this tier, on which those of CRDs stand.
    pub scheme: Arc<Scheme>,
    /// What all endpoints share.
    pub services: Arc<Services>,
    /// How conversion webhooks are called.
    pub calls: Arc<Calls>,
}

/// A CRD in service.
pub struct Serving {
    /// Of this CRD.
    pub uid: String,
    /// In this generation.
    pub generation: i64,
    /// Under these names.
    pub names: Names,
    /// With objects stored in these versions.
    stored_versions: Vec<String>,
    /// Its objects, as they are stored.
    pub collection: Arc<Collection>,
    /// Its objects in the other versions, where a webhook converts.
    converted: Vec<Arc<Collection>>,
    /// Nothing may be created any more.
    pub terminating: Arc<AtomicBool>,
    endpoints: HashMap<String, Arc<Endpoint>>,
    handlers: HashMap<String, Arc<dyn Handler>>,
}

impl Serving {
    /// Whether it still serves what the CRD says.
    pub fn is_of(&self, crd: &Summary) -> bool {
        self.uid == crd.uid
            && self.generation == crd.generation
            && self.names == crd.accepted
            && self.stored_versions == crd.stored_versions
    }

    /// Who answers for a version.
    pub fn handler(&self, version: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.get(version)
    }

    /// The endpoint of the version in which objects are stored.
    pub fn storage_endpoint(&self, crd: &Summary) -> Option<&Arc<Endpoint>> {
        self.endpoints.get(&crd.storage_version()?.name)
    }

    /// Ends its watches.
    pub fn close(&self) {
        self.collection.cache.close();
        self.converted.iter().for_each(|collection| collection.cache.close());
    }
}

fn owned(text: &str) -> Name {
    Name::Owned(text.to_owned())
}

fn owned_all(texts: &[String]) -> Vec<Name> {
    texts.iter().map(|t| owned(t)).collect()
}

/// The labels by which a version's objects can be selected.
fn labels(version: &Value) -> impl Iterator<Item = &str> {
    let fields = version.array_at(&["selectableFields"]).iter();
    fields
        .map(|f| f.str_at(&["jsonPath"]))
        .map(|path| path.strip_prefix('.').unwrap_or(path))
}

impl Maker {
    /// Puts a CRD into service; `None` if it cannot be (no stored version, no accepted names).
    pub fn make(&self, summary: &Summary) -> Option<Serving> {
        let crd = json::from_slice(&summary.object).ok()?;
        let names = &summary.accepted;
        if [&names.plural, &names.singular, &names.kind, &names.list_kind]
            .iter()
            .any(|n| n.is_empty())
        {
            return None;
        }
        let kind = Arc::new(CustomKind::of(&crd, &self.scheme.schema)?);
        let versions = crd.array_at(&["spec", "versions"]);
        let converter = Converter::of(&crd, &self.calls).map(Arc::new);
        let terminating = Arc::new(AtomicBool::new(summary.terminating));
        let (mut stored, mut converted) = (None, Vec::new());
        let (mut endpoints, mut handlers) = (HashMap::new(), HashMap::<String, Arc<dyn Handler>>::new());
        let whole = match &converter {
            Some(_) => None,
            None => Some(Arc::new(self.collection(summary, &kind, versions, None))),
        };
        for (i, version) in versions.iter().enumerate() {
            let name = version.str_at(&["name"]).to_owned();
            let served = version.get("served").and_then(Value::as_bool) == Some(true);
            if !served && i != kind.storage {
                continue;
            }
            let (own, collection) = match &converter {
                Some(converter) => {
                    let own = Arc::new(CustomKind::storing(&crd, &self.scheme.schema, i)?);
                    let store = self.stores.of(&summary.group, &names.plural).clone();
                    let store = Converting::new(store, own.clone(), i, kind.storage, converter.clone());
                    let collection = self.collection(summary, &own, versions, Some(Arc::new(store)));
                    (own, Arc::new(collection))
                }
                None => (kind.clone(), whole.clone()?),
            };
            let endpoint = Arc::new(self.endpoint(summary, &own, i, &crd, &collection, &terminating)?);
            if i == kind.storage {
                stored = Some(collection);
            } else if converter.is_some() {
                converted.push(collection);
            }
            endpoints.insert(name.clone(), endpoint.clone());
            handlers.insert(name, Arc::new(VersionHandler { endpoint }));
        }
        Some(Serving {
            uid: summary.uid.clone(),
            generation: summary.generation,
            names: names.clone(),
            stored_versions: summary.stored_versions.clone(),
            collection: stored?,
            converted,
            terminating,
            endpoints,
            handlers,
        })
    }

    /// The objects as `converting` shows them, or as the tier's store does.
    fn collection(
        &self,
        crd: &Summary,
        kind: &Arc<CustomKind>,
        versions: &[Value],
        converting: Option<Arc<dyn Store>>,
    ) -> Collection {
        let plural = &crd.accepted.plural;
        let mut fields: Vec<FieldPath> = Vec::new();
        for label in versions.iter().flat_map(labels) {
            if fields.len() < MAX_FIELDS && !fields.iter().any(|f| *f.name == *label) {
                fields.push(FieldPath::dotted(label));
            }
        }
        let prefix = format!("/{}/{plural}", crd.group);
        let complete = converting.is_some();
        let store = converting.unwrap_or_else(|| self.stores.of(&crd.group, plural).clone());
        let config = CacheConfig {
            group: crd.group.as_str().into(),
            resource: plural.as_str().into(),
            prefix: format!("{prefix}/").into(),
            decoder: Arc::new(StoredObjects {
                kind: kind.clone(),
                fields: fields.clone(),
                complete,
            }),
            indexes: Vec::new(),
        };
        Collection {
            group_resource: GroupResource::new(crd.group.as_str(), plural.as_str()),
            prefix,
            namespaced: crd.namespaced,
            absent: vec![""; fields.len()],
            fields,
            indexes: Vec::new(),
            ttl: None,
            cache: Cache::start(&store, config, &self.metrics),
            store,
        }
    }

    fn endpoint(
        &self,
        crd: &Summary,
        kind: &Arc<CustomKind>,
        index: usize,
        definition: &Value,
        collection: &Arc<Collection>,
        terminating: &Arc<AtomicBool>,
    ) -> Option<Endpoint> {
        let versions = definition.array_at(&["spec", "versions"]);
        let version = versions.get(index)?;
        let deprecation = deprecation_warning(definition, version);
        let own = kind.versions.get(index)?;
        let scale = version
            .at(&["subresources", "scale"])
            .filter(|s| !s.is_null())
            .map(ScalePaths::read);
        let status = version.at(&["subresources", "status"]).is_some_and(|s| !s.is_null());
        let columns = Columns::read(version.array_at(&["additionalPrinterColumns"]));
        let resource = Resource {
            group: owned(&crd.group),
            version: owned(&own.name),
            resource: owned(&crd.accepted.plural),
            kind: owned(&crd.accepted.kind),
            singular: owned(&crd.accepted.singular),
            short_names: owned_all(&crd.accepted.short_names),
            categories: owned_all(&crd.accepted.categories),
            namespaced: crd.namespaced,
            verbs: Verbs::ALL,
            subresources: subresources(crd, &own.name, status, scale.is_some()),
            columns: columns.described.clone(),
            selectable: ["metadata.name", "metadata.namespace"]
                .into_iter()
                .chain(labels(version))
                .map(owned)
                .collect(),
            name_rule: NameRule::Subdomain,
            first_generation: 1,
            ..Resource::default()
        };
        let strategy: Arc<dyn Strategy> = Arc::new(CustomStrategy {
            resource: collection.group_resource.clone(),
            kind: kind.clone(),
            version: index,
            namespaced: crd.namespaced,
            status,
            scale: scale.clone(),
            columns,
            terminating: terminating.clone(),
        });
        let mut handlers = BTreeMap::new();
        if status {
            handlers.insert("status".to_owned(), Subhandler::Object(strategy.clone()));
        }
        if let Some(paths) = &scale {
            handlers.insert(
                "scale".to_owned(),
                Subhandler::Scale(Arc::new(self.scale(paths, kind, versions)?)),
            );
        }
        Some(Endpoint {
            resource: Arc::new(resource),
            version_index: index as u32,
            model: Arc::new(CustomModel::new(kind.clone(), index, deprecation)?) as Arc<dyn Model>,
            strategy,
            backing: Backing::Stored(collection.clone()),
            field_rules: field_rules(kind, index, status, versions),
            subresources: handlers,
            services: self.services.clone(),
        })
    }

    fn scale(&self, paths: &ScalePaths, kind: &CustomKind, versions: &[Value]) -> Option<Scale> {
        let plain: Arc<dyn Strategy> = Arc::new(Plain);
        let model = BuiltIn::new(&self.scheme, Gvk::new("autoscaling", "v1", "Scale"), plain)?;
        let replicas = versions.iter().map(|v| {
            let scale = v.at(&["subresources", "scale"]).filter(|s| !s.is_null());
            scale.map(|s| members(s.str_at(&["specReplicasPath"])))
        });
        let versions = kind.versions.iter().zip(replicas);
        Some(Scale {
            model: Arc::new(model),
            field_rules: FieldRules::default(),
            spec_replicas: members(&paths.spec),
            status_replicas: members(&paths.status),
            selector: paths.selector.as_deref().map(|path| Selector::Text(members(path))),
            versions: versions
                .filter_map(|(v, path)| Some((v.api_version.clone(), path?)))
                .collect(),
            declared: Some(paths.spec.clone()),
        })
    }
}

fn subresources(crd: &Summary, version: &str, status: bool, scale: bool) -> Vec<Subresource> {
    let verbs = ["get", "patch", "update"]
        .iter()
        .fold(Verbs::default(), |v, name| v.with(name).unwrap_or(v));
    let make = |name: &str, kind: Kind| Subresource {
        name: owned(name),
        verbs,
        kind,
        ..Subresource::default()
    };
    let kind = |group: &str, version: &str, kind: &str| Kind {
        group: owned(group),
        version: owned(version),
        kind: owned(kind),
    };
    let mut subresources = Vec::new();
    if scale {
        subresources.push(make("scale", kind("autoscaling", "v1", "Scale")));
    }
    if status {
        subresources.push(make("status", kind(&crd.group, version, &crd.accepted.kind)));
    }
    subresources
}

/// Writes through the resource own no status where that is a subresource; writes through `/status` own nothing else.
fn field_rules(kind: &CustomKind, index: usize, status: bool, versions: &[Value]) -> FieldRules {
    let mut rules = Vec::new();
    if let (true, Some(own)) = (status, kind.versions.get(index)) {
        rules.push((String::new(), own.api_version.clone(), Filter::exclude(["status"])));
    }
    for (own, version) in kind.versions.iter().zip(versions) {
        if version.at(&["subresources", "status"]).is_some_and(|s| !s.is_null()) {
            let filter = Filter::exclude(["metadata", "spec"]);
            rules.push(("status".to_owned(), own.api_version.clone(), filter));
        }
    }
    FieldRules::new(rules)
}
