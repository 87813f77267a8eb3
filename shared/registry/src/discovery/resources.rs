//! Built-in resources in discovery: entries of APIResourceList and of aggregated discovery.
//!
//! Both come in the order of resource names, a resource before its subresources.

use triptych_object::{Object, Value};
use triptych_schema::resource::Resource;
use triptych_schema::types::Kind;

use super::documents::{text, texts};
use super::storage_version_hash;

/// Entries of an APIResourceList; `resources` must be sorted by name.
pub fn plain<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Vec<Value> {
    let mut entries = Vec::new();
    for resource in resources {
        entries.push(Value::Object(plain_entry(resource)));
        for sub in &resource.subresources {
            let mut entry = Object::with_capacity(7);
            entry.insert("name", text(&format!("{}/{}", resource.resource, sub.name)));
            entry.insert("singularName", text(""));
            entry.insert("namespaced", Value::Bool(resource.namespaced));
            if foreign(resource, &sub.kind) {
                entry.insert("group", text(&sub.kind.group));
                entry.insert("version", text(&sub.kind.version));
            }
            entry.insert("kind", text(&sub.kind.kind));
            entry.insert("verbs", texts(sub.verbs.iter()));
            entries.push(Value::Object(entry));
        }
    }
    entries
}

fn plain_entry(resource: &Resource) -> Object {
    let mut entry = Object::with_capacity(8);
    entry.insert("name", text(&resource.resource));
    entry.insert("singularName", text(&resource.singular));
    entry.insert("namespaced", Value::Bool(resource.namespaced));
    entry.insert("kind", text(&resource.kind));
    entry.insert("verbs", texts(resource.verbs.iter()));
    names(&mut entry, resource);
    if let Some(stored) = &resource.storage {
        entry.insert("storageVersionHash", text(&storage_version_hash(stored)));
    }
    entry
}

/// `resources` of an APIVersionDiscovery; `resources` must be sorted by name.
pub fn aggregated<'a>(resources: impl IntoIterator<Item = &'a Resource>) -> Value {
    Value::Array(resources.into_iter().map(aggregated_entry).collect())
}

fn aggregated_entry(resource: &Resource) -> Value {
    let mut entry = Object::with_capacity(8);
    entry.insert("resource", text(&resource.resource));
    entry.insert("responseKind", response_kind("", "", &resource.kind));
    entry.insert("scope", text(scope(resource.namespaced)));
    entry.insert("singularResource", text(&resource.singular));
    entry.insert("verbs", texts(resource.verbs.iter()));
    names(&mut entry, resource);
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|sub| {
            let kind = match foreign(resource, &sub.kind) {
                true => response_kind(&sub.kind.group, &sub.kind.version, &sub.kind.kind),
                false => response_kind("", "", &sub.kind.kind),
            };
            Value::from([
                ("subresource", text(&sub.name)),
                ("responseKind", kind),
                ("verbs", texts(sub.verbs.iter())),
            ])
        });
        entry.insert("subresources", Value::Array(subresources.collect()));
    }
    Value::Object(entry)
}

/// Kinds of the resource's own group-version are given without it.
fn foreign(resource: &Resource, kind: &Kind) -> bool {
    kind.group != resource.group || kind.version != resource.version
}

fn names(entry: &mut Object, resource: &Resource) {
    if !resource.short_names.is_empty() {
        entry.insert("shortNames", texts(&resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories", texts(&resource.categories));
    }
}

pub(super) fn response_kind(group: &str, version: &str, kind: &str) -> Value {
    Value::from([("group", text(group)), ("version", text(version)), ("kind", text(kind))])
}

pub(super) fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}
