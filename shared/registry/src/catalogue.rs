//! From resource records, code and a store to endpoints: what a tier assembles its built-in kinds with.
//!
//! Contract: two steps, because code may need collections (allocators, reviews): [`Collections::start`] opens a watch
//! cache for everything that is stored, [`build`] makes an endpoint of every resource. What does not fit together (a
//! kind without type, an action nobody runs) is an error that names it; a unit test of each tier runs this.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use triptych_object::{GroupResource, GroupVersion, Gvk, json};
use triptych_schema::managed::set::Filter;
use triptych_schema::resource::{Resource, Subresource, SubresourceForm, Verbs};
use triptych_schema::types::Shape;
use triptych_schema::{default, protobuf};
use triptych_storage::{Cache, CacheConfig, Decoder, FieldPath, Metrics, Store};

use crate::builtin::{BuiltIn, Scheme};
use crate::collection::Collection;
use crate::endpoint::{Backing, Endpoint, Services, Subhandler};
use crate::kinds::Kinds;
use crate::model::Model;
use crate::scale::{Scale, Selector};
use crate::strategy::{Plain, Strategy};
use crate::write::fields::FieldRules;

/// A tier's tables and code do not fit together.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Misfit(String);

/// The stored objects of all built-in resources of a tier.
#[derive(Default)]
pub struct Collections(HashMap<GroupResource, Arc<Collection>>);

/// What collections are opened with.
pub struct Opening<'a> {
    /// The tier's kinds.
    pub scheme: &'a Arc<Scheme>,
    /// Where each resource is stored.
    pub store: &'a dyn Fn(&str, &str) -> Arc<dyn Store>,
    /// Metrics of stores and caches.
    pub metrics: &'a Metrics,
    /// How long objects that expire live (`--event-ttl`).
    pub ttl: Duration,
}

impl Collections {
    /// Opens a collection for every stored resource; several versions (and groups) of one kind share it.
    pub fn start(resources: &[Arc<Resource>], kinds: &Kinds, opening: &Opening<'_>) -> Collections {
        let mut by_key: BTreeMap<&str, Vec<&Arc<Resource>>> = BTreeMap::new();
        for resource in resources.iter().filter(|r| !r.key.is_empty()) {
            by_key.entry(&resource.key).or_default().push(resource);
        }
        let mut all = HashMap::new();
        for (key, versions) in by_key {
            let Some(stored) = versions
                .iter()
                .find(|r| is_stored_version(r))
                .or_else(|| versions.first())
            else {
                continue;
            };
            let collection = Arc::new(open(key, stored, &versions, kinds, opening));
            for version in versions {
                let name = GroupResource::new(&*version.group, &*version.resource);
                all.insert(name, collection.clone());
            }
        }
        Collections(all)
    }

    /// The collection of a resource.
    pub fn get(&self, group: &str, resource: &str) -> Option<&Arc<Collection>> {
        self.0.get(&GroupResource::new(group, resource))
    }

    /// All of them, each once.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.0
            .iter()
            .filter(|(name, c)| **name == c.group_resource)
            .map(|(_, c)| c)
    }
}

fn is_stored_version(resource: &Resource) -> bool {
    resource
        .storage
        .as_ref()
        .is_some_and(|s| s.group == resource.group && s.version == resource.version)
}

fn open(key: &str, stored: &Resource, versions: &[&Arc<Resource>], kinds: &Kinds, opening: &Opening<'_>) -> Collection {
    let (group, resource) = (&*stored.group, &*stored.resource);
    let mut fields: Vec<FieldPath> = Vec::new();
    let labels = versions.iter().flat_map(|r| &r.selectable);
    for label in labels.filter(|l| !matches!(&***l, "metadata.name" | "metadata.namespace")) {
        if fields.iter().any(|f| *f.name == **label) {
            continue;
        }
        fields.push(match kinds.paths_of(group, resource, label) {
            Some(paths) => FieldPath::at(label, paths),
            None => FieldPath::dotted(label),
        });
    }
    let gvk = stored
        .storage
        .as_ref()
        .map(|s| Gvk::new(&*s.group, &*s.version, &*s.kind))
        .unwrap_or_default();
    let absent = fields.iter().map(|f| absent(opening.scheme, &gvk, f)).collect();
    let indexes: Vec<usize> = (0..fields.len())
        .filter(|i| kinds.is_indexed(group, resource, &fields[*i].name))
        .collect();
    let store = (opening.store)(group, resource);
    let config = CacheConfig {
        group: group.into(),
        resource: resource.into(),
        prefix: format!("{key}/").into(),
        decoder: Arc::new(Stored {
            scheme: opening.scheme.clone(),
            fields: fields.clone(),
        }),
        indexes: indexes.clone(),
    };
    Collection {
        group_resource: GroupResource::new(group, resource),
        prefix: key.to_owned(),
        namespaced: stored.namespaced,
        fields,
        absent,
        indexes,
        ttl: stored.ttl.then_some(opening.ttl),
        cache: Cache::start(&store, config, opening.metrics),
        store,
    }
}

/// What a field selector compares with when an object lacks the field: Go's zero value as text.
fn absent(scheme: &Scheme, gvk: &Gvk, field: &FieldPath) -> &'static str {
    let schema = &scheme.schema;
    let find = |path: &[Box<str>]| {
        path.iter().try_fold(scheme.find(gvk)?, |ty, name| {
            Some(schema.get(ty).as_struct()?.field(name)?.ty)
        })
    };
    match field
        .paths
        .first()
        .and_then(|path| find(path))
        .map(|ty| &schema.get(ty).shape)
    {
        Some(Shape::Bool) => "false",
        Some(Shape::Int { .. }) => "0",
        _ => "",
    }
}

/// Reads stored values: JSON as it is, Kubernetes' protobuf by its own type.
struct Stored {
    scheme: Arc<Scheme>,
    fields: Vec<FieldPath>,
}

impl Decoder for Stored {
    fn decode(&self, _key: &str, value: &Bytes) -> Result<Bytes, String> {
        if !value.starts_with(protobuf::MAGIC) {
            return Ok(value.clone());
        }
        let envelope = protobuf::open(value).map_err(|e| e.to_string())?;
        let version: GroupVersion = envelope.api_version.parse()?;
        let gvk = version.kind(envelope.kind.as_str());
        let ty = self.scheme.find(&gvk).ok_or_else(|| self.scheme.not_registered(&gvk))?;
        let mut document = protobuf::decode(&self.scheme.schema, ty, envelope.raw).map_err(|e| e.to_string())?;
        document.set_at(&["kind"], gvk.kind.into());
        document.set_at(&["apiVersion"], version.to_string().into());
        default::apply(&self.scheme.schema, ty, &mut document, &self.scheme.gate);
        Ok(json::to_vec(&document).into())
    }

    fn selectable_fields(&self) -> &[FieldPath] {
        &self.fields
    }
}

/// What endpoints are made with.
pub struct Making<'a> {
    /// The tier's kinds.
    pub scheme: &'a Arc<Scheme>,
    /// Their code.
    pub kinds: &'a Kinds,
    /// Their objects.
    pub collections: &'a Collections,
    /// What all endpoints share.
    pub services: &'a Arc<Services>,
    /// New objects are stored as protobuf.
    pub store_protobuf: bool,
}

/// Makes an endpoint of every resource, and tells what does not fit: a tier's test demands that all does, a running tier
/// serves the rest.
pub fn build(resources: &[Arc<Resource>], making: &Making<'_>) -> (Vec<Arc<Endpoint>>, Vec<Misfit>) {
    let mut made = Vec::with_capacity(resources.len());
    let mut misfits = Vec::new();
    for (i, resource) in resources.iter().enumerate() {
        match endpoint(resource, i as u32, resources, making, &mut misfits) {
            Ok(endpoint) => made.push(Arc::new(endpoint)),
            Err(misfit) => misfits.push(misfit),
        }
    }
    (made, misfits)
}

fn endpoint(
    resource: &Arc<Resource>,
    version_index: u32,
    all: &[Arc<Resource>],
    making: &Making<'_>,
    misfits: &mut Vec<Misfit>,
) -> Result<Endpoint, Misfit> {
    let (group, version, name) = (&*resource.group, &*resource.version, &*resource.resource);
    let misfit = |what: &str| Misfit(format!("{group}/{version} {name}: {what}"));
    let kinds = making.kinds;
    let strategy = kinds.find(group, version, name, "");
    let gvk = Gvk::new(group, version, &*resource.kind);
    let mut model =
        BuiltIn::new(making.scheme, gvk, strategy.clone()).ok_or_else(|| misfit("its kind is in no schema text"))?;
    model.store_protobuf = making.store_protobuf;
    model.conversion = conversion(resource, kinds);
    let versions = all.iter().filter(|r| !r.key.is_empty() && r.key == resource.key);
    model.versions = versions.map(|r| (r.api_version(), conversion(r, kinds))).collect();
    let backing = if let Some(responder) = kinds.find_responder(group, name, "") {
        Backing::Responder(responder)
    } else if let Some(action) = kinds.find_action(group, name, "") {
        Backing::Action(action)
    } else if let Some(collection) = making.collections.get(group, name) {
        Backing::Stored(collection.clone())
    } else {
        return Err(misfit("it is not stored and nobody answers for it"));
    };
    let mut subresources = BTreeMap::new();
    for sub in &resource.subresources {
        match subhandler(resource, sub, all, making) {
            Some(handler) => drop(subresources.insert(sub.name.to_string(), handler)),
            None => misfits.push(misfit(&format!("nobody answers for {}", sub.name))),
        }
    }
    Ok(Endpoint {
        resource: resource.clone(),
        version_index,
        model: Arc::new(model),
        strategy,
        backing,
        field_rules: FieldRules::new(reset_rules(resource, all)),
        subresources,
        services: making.services.clone(),
    })
}

/// What writes through a resource and its subresources do not own, for all versions of the kind.
fn reset_rules(resource: &Resource, all: &[Arc<Resource>]) -> Vec<(String, String, Filter)> {
    let mut rules = Vec::new();
    let filter = |paths: &[triptych_schema::types::Name]| Filter::exclude(paths.iter().map(|p| &**p));
    for version in all
        .iter()
        .filter(|r| r.group == resource.group && r.resource == resource.resource)
    {
        let api_version = version.api_version();
        if !version.reset.is_empty() {
            rules.push((String::new(), api_version.clone(), filter(&version.reset)));
        }
        for sub in version.subresources.iter().filter(|s| !s.reset.is_empty()) {
            rules.push((sub.name.to_string(), api_version.clone(), filter(&sub.reset)));
        }
    }
    rules
}

fn subhandler(
    resource: &Resource,
    sub: &Subresource,
    all: &[Arc<Resource>],
    making: &Making<'_>,
) -> Option<Subhandler> {
    let (group, version, name) = (&*resource.group, &*resource.version, &*resource.resource);
    let kinds = making.kinds;
    let model_of = |gvk: Gvk| -> Option<Arc<dyn Model>> {
        let strategy: Arc<dyn Strategy> = Arc::new(Plain);
        Some(Arc::new(BuiltIn::new(making.scheme, gvk, strategy)?))
    };
    let gvk = Gvk::new(&*sub.kind.group, &*sub.kind.version, &*sub.kind.kind);
    if let Some(responder) = kinds.find_responder(group, name, &sub.name) {
        return Some(match &sub.form {
            SubresourceForm::Connect(_) => {
                Subhandler::Connection(Arc::new(BuiltIn::options(making.scheme, gvk)?), responder)
            }
            _ => Subhandler::Responder(responder),
        });
    }
    if let Some(action) = kinds.find_action(group, name, &sub.name) {
        let mut model = BuiltIn::new(making.scheme, gvk, Arc::new(Plain))?;
        model.also_accepts = action.also_accepts();
        return Some(Subhandler::Action(Arc::new(model), action));
    }
    if sub.form != SubresourceForm::Object {
        return None;
    }
    if gvk.kind == "Scale" {
        return Some(Subhandler::Scale(Arc::new(scale(resource, model_of(gvk)?, all))));
    }
    Some(Subhandler::Object(kinds.find(group, version, name, &sub.name)))
}

/// Where the built-in scalable kinds keep what a Scale shows: all in the same place.
fn scale(resource: &Resource, model: Arc<dyn Model>, all: &[Arc<Resource>]) -> Scale {
    let path = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let versions = all
        .iter()
        .filter(|r| r.group == resource.group && r.resource == resource.resource);
    let selector = path(&["spec", "selector"]);
    Scale {
        model,
        field_rules: FieldRules::default(),
        spec_replicas: path(&["spec", "replicas"]),
        status_replicas: path(&["status", "replicas"]),
        selector: Some(if resource.group.is_empty() {
            Selector::Labels(selector)
        } else {
            Selector::LabelSelector(selector)
        }),
        versions: versions
            .map(|r| (r.api_version(), path(&["spec", "replicas"])))
            .collect(),
        declared: None,
    }
}

/// Between a resource's version and the one in which it is stored, if that is another.
fn conversion(resource: &Resource, kinds: &Kinds) -> Option<Arc<dyn crate::builtin::Conversion>> {
    if resource.key.is_empty() || is_stored_version(resource) {
        return None;
    }
    let own = kinds.find_conversion(&resource.group, &resource.version, &resource.resource);
    Some(own.unwrap_or_else(|| Arc::new(SameShape::between(resource))))
}

/// Versions that differ by their `apiVersion` alone.
struct SameShape {
    own: String,
    stored: String,
}

impl SameShape {
    fn between(resource: &Resource) -> SameShape {
        let stored = resource.storage.as_ref();
        let stored = stored
            .map(|s| GroupVersion::new(&*s.group, &*s.version).to_string())
            .unwrap_or_default();
        SameShape {
            own: resource.api_version(),
            stored,
        }
    }
}

impl crate::builtin::Conversion for SameShape {
    fn from_stored(&self, mut document: triptych_object::Value) -> triptych_object::Value {
        document.set_at(&["apiVersion"], self.own.as_str().into());
        document
    }

    fn to_stored(&self, mut document: triptych_object::Value) -> triptych_object::Value {
        document.set_at(&["apiVersion"], self.stored.as_str().into());
        document
    }
}

/// The resources that are served: those on by default and those that flags turn on, without those turned off.
pub fn served(resources: Vec<Resource>, on: &dyn Fn(&Resource) -> bool) -> Vec<Arc<Resource>> {
    resources
        .into_iter()
        .filter(|r| on(r) && (r.verbs != Verbs::default() || !r.subresources.is_empty()))
        .map(Arc::new)
        .collect()
}
