//! The endpoint of CRDs: the built-in kind with its own stored form.

use std::collections::BTreeMap;
use std::sync::Arc;

use triptych_object::{GroupResource, Gvk};
use triptych_registry::builtin::{BuiltIn, Scheme};
use triptych_registry::collection::Collection;
use triptych_registry::endpoint::{Backing, Endpoint, Services, Subhandler};
use triptych_registry::strategy::Strategy;
use triptych_registry::write::fields::FieldRules;
use triptych_schema::managed::set::Filter;
use triptych_schema::resource::{Dependents, Resource};
use triptych_storage::stores::Stores;
use triptych_storage::{Cache, CacheConfig, Metrics};

use super::model::DefinitionModel;
use super::stored::{SERVED, StoredDefinitions};
use super::strategy::Definitions;
use super::{GROUP, PREFIX, RESOURCE};

/// Opens the collection of CRDs.
pub fn collection(stores: &Stores, metrics: &Metrics) -> Arc<Collection> {
    let store = stores.of(GROUP, RESOURCE).clone();
    let config = CacheConfig {
        group: GROUP.into(),
        resource: RESOURCE.into(),
        prefix: format!("{PREFIX}/").into(),
        decoder: Arc::new(StoredDefinitions),
        indexes: Vec::new(),
    };
    Arc::new(Collection {
        group_resource: GroupResource::new(GROUP, RESOURCE),
        prefix: PREFIX.to_owned(),
        namespaced: false,
        fields: Vec::new(),
        absent: Vec::new(),
        indexes: Vec::new(),
        ttl: None,
        cache: Cache::start(&store, config, metrics),
        store,
    })
}

/// The endpoint of CRDs; `None` if the schema table lacks the kind.
pub fn endpoint(
    resource: &Arc<Resource>,
    scheme: &Arc<Scheme>,
    collection: &Arc<Collection>,
    services: &Arc<Services>,
) -> Option<Endpoint> {
    let strategy: Arc<dyn Strategy> = Arc::new(Definitions {
        base: scheme.schema.clone(),
    });
    let kind = BuiltIn::new(
        scheme,
        Gvk::new(GROUP, "v1", "CustomResourceDefinition"),
        strategy.clone(),
    )?;
    // nothing is done with dependents when a CRD is first deleted: it is marked, and that is all
    let resource = Resource {
        dependents: Dependents::Unsupported,
        ..Resource::clone(resource)
    };
    let rule = |sub: &str, path: &'static str| (sub.to_owned(), SERVED.to_owned(), Filter::exclude([path]));
    Some(Endpoint {
        resource: Arc::new(resource),
        version_index: 0,
        model: Arc::new(DefinitionModel(kind)),
        strategy: strategy.clone(),
        backing: Backing::Stored(collection.clone()),
        field_rules: FieldRules::new(vec![rule("", "status"), rule("status", "spec")]),
        subresources: BTreeMap::from([("status".to_owned(), Subhandler::Object(strategy))]),
        services: services.clone(),
    })
}
