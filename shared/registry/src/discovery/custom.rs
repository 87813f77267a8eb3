//! Custom resources in discovery. Unlike built-in ones they list their verbs in an order of their own, name their
//! group-version in `responseKind`, and only have the subresources `status` and `scale`, in that order.

use triptych_object::{Object, Value};
use triptych_schema::types::{Kind, Name};

use super::documents::{text, texts};
use super::resources::{response_kind, scope};
use super::storage_version_hash;

/// What discovery tells of one served version of an established CRD; names are the accepted ones.
#[derive(Clone, Debug, Default)]
pub struct CustomResource {
    /// API group.
    pub group: Name,
    /// Plural.
    pub plural: Name,
    /// Singular.
    pub singular: Name,
    /// Kind of its objects.
    pub kind: Name,
    /// Short names.
    pub short_names: Vec<Name>,
    /// Categories.
    pub categories: Vec<Name>,
    /// Lives in a namespace.
    pub namespaced: bool,
    /// The CRD is being deleted: nothing can be created or changed any more.
    pub terminating: bool,
    /// Version in which objects are stored; none when that version is not served.
    pub storage_version: Option<Name>,
    /// Has `/status`.
    pub status: bool,
    /// Has `/scale`.
    pub scale: bool,
}

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
const TERMINATING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

impl CustomResource {
    fn verbs(&self) -> Value {
        match self.terminating {
            true => texts(TERMINATING_VERBS),
            false => texts(VERBS),
        }
    }

    fn names(&self, entry: &mut Object) {
        if !self.short_names.is_empty() {
            entry.insert("shortNames", texts(&self.short_names));
        }
        if !self.categories.is_empty() {
            entry.insert("categories", texts(&self.categories));
        }
    }
}

/// Entries of an APIResourceList.
pub fn plain<'a>(resources: impl IntoIterator<Item = &'a CustomResource>) -> Vec<Value> {
    let mut entries = Vec::new();
    for r in resources {
        let mut entry = Object::with_capacity(8);
        entry.insert("name", text(&r.plural));
        entry.insert("singularName", text(&r.singular));
        entry.insert("namespaced", Value::Bool(r.namespaced));
        entry.insert("kind", text(&r.kind));
        entry.insert("verbs", r.verbs());
        r.names(&mut entry);
        if let Some(version) = &r.storage_version {
            let stored = Kind {
                group: r.group.clone(),
                version: version.clone(),
                kind: r.kind.clone(),
            };
            entry.insert("storageVersionHash", text(&storage_version_hash(&stored)));
        }
        entries.push(Value::Object(entry));
        for (name, kind) in subresources(r) {
            let mut entry = Object::with_capacity(7);
            entry.insert("name", text(&format!("{}/{name}", r.plural)));
            entry.insert("singularName", text(""));
            entry.insert("namespaced", Value::Bool(r.namespaced));
            if let Some(scale) = &kind {
                entry.insert("group", text(&scale.group));
                entry.insert("version", text(&scale.version));
            }
            entry.insert("kind", text(kind.as_ref().map_or(&*r.kind, |k| &*k.kind)));
            entry.insert("verbs", texts(SUBRESOURCE_VERBS));
            entries.push(Value::Object(entry));
        }
    }
    entries
}

/// `resources` of an APIVersionDiscovery of `version`; `resources` must be sorted by name.
pub fn aggregated<'a>(version: &str, resources: impl IntoIterator<Item = &'a CustomResource>) -> Value {
    let entries = resources.into_iter().map(|r| {
        let mut entry = Object::with_capacity(8);
        entry.insert("resource", text(&r.plural));
        entry.insert("responseKind", response_kind(&r.group, version, &r.kind));
        entry.insert("scope", text(scope(r.namespaced)));
        entry.insert("singularResource", text(&r.singular));
        entry.insert("verbs", r.verbs());
        r.names(&mut entry);
        let subs: Vec<Value> = subresources(r)
            .map(|(name, kind)| {
                let kind = match kind {
                    Some(k) => response_kind(&k.group, &k.version, &k.kind),
                    None => response_kind(&r.group, version, &r.kind),
                };
                Value::from([
                    ("subresource", text(name)),
                    ("responseKind", kind),
                    ("verbs", texts(SUBRESOURCE_VERBS)),
                ])
            })
            .collect();
        if !subs.is_empty() {
            entry.insert("subresources", Value::Array(subs));
        }
        Value::Object(entry)
    });
    Value::Array(entries.collect())
}

/// Subresources with their kind where it is not the resource's own.
fn subresources(r: &CustomResource) -> impl Iterator<Item = (&'static str, Option<Kind>)> {
    let scale = r.scale.then(|| {
        let kind = Kind {
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
        };
        ("scale", Some(kind))
    });
    r.status.then_some(("status", None)).into_iter().chain(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn a_custom_resource_lists_status_before_scale_and_its_verbs_in_their_own_order() {
        let widget = CustomResource {
            group: "example.com".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            kind: "Widget".into(),
            namespaced: true,
            storage_version: Some("v1".into()),
            status: true,
            scale: true,
            ..Default::default()
        };
        let plain = json::to_string(&Value::Array(plain([&widget])));
        assert!(plain.starts_with(
            r#"[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"storageVersionHash":""#
        ));
        assert!(plain.ends_with(
            r#"{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]},{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}]"#
        ));
        let aggregated = json::to_string(&aggregated("v1beta1", [&widget]));
        assert!(aggregated.contains(r#""responseKind":{"group":"example.com","version":"v1beta1","kind":"Widget"}"#));
    }

    #[test]
    fn a_terminating_crd_offers_no_changes() {
        let widget = CustomResource {
            terminating: true,
            ..Default::default()
        };
        let entries = json::to_string(&Value::Array(plain([&widget])));
        assert!(entries.contains(r#""verbs":["delete","deletecollection","get","list","watch"]"#));
    }
}
