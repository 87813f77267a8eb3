//! What a tier publishes of its CRDs: group-versions and OpenAPI documents, kept up to date CRD by CRD.
//!
//! Contract: a CRD counts while it is established; its names are the accepted ones, its served versions appear. A change
//! costs as much as its group has CRDs, not as there are CRDs. Of a CRD only a summary and its shared bytes are held.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use triptych_object::{Value, json};
use triptych_registry::discovery::custom::{self, CustomResource};
use triptych_registry::openapi::{Crd, Custom, Document};
use triptych_schema::types::Name;

use super::publication::{Own, OwnVersion};

/// A CRD, as discovery sees it.
#[derive(Clone, Debug)]
struct Summary {
    established: bool,
    resource: CustomResource,
    /// Served versions with their subresources: name, status, scale.
    versions: Vec<(Name, bool, bool)>,
    document: Crd,
}

/// One group's part.
#[derive(Default)]
struct Group {
    versions: Vec<OwnVersion>,
    documents: Vec<Document>,
}

/// All CRDs of a tier.
pub struct Crds {
    documents: Custom,
    by_name: BTreeMap<String, Summary>,
    names: HashMap<Name, BTreeSet<String>>,
    groups: BTreeMap<Name, Group>,
}

impl Crds {
    /// None yet.
    pub fn new(documents: Custom) -> Crds {
        Crds {
            documents,
            by_name: BTreeMap::new(),
            names: HashMap::new(),
            groups: BTreeMap::new(),
        }
    }

    /// Takes in a CRD (apiextensions.k8s.io/v1, JSON) that was added or changed. What is no CRD is as one removed.
    pub fn set(&mut self, name: &str, object: &Bytes) {
        let summary = json::from_slice(object).ok().and_then(|v| Summary::read(&v, object));
        match summary {
            Some(summary) => {
                let group = summary.resource.group.clone();
                if let Some(before) = self.by_name.insert(name.to_owned(), summary)
                    && before.resource.group != group
                {
                    self.leave(name, &before.resource.group);
                }
                self.names.entry(group.clone()).or_default().insert(name.to_owned());
                self.describe(&group);
            }
            None => self.remove(name),
        }
    }

    /// Forgets a CRD.
    pub fn remove(&mut self, name: &str) {
        if let Some(before) = self.by_name.remove(name) {
            self.leave(name, &before.resource.group);
        }
    }

    /// Everything that the CRDs publish, after what `built_in` does.
    pub fn own(&self, built_in: &Own) -> Own {
        let mut own = built_in.clone();
        for group in self.groups.values() {
            own.versions.extend(group.versions.iter().cloned());
            own.documents.extend(group.documents.iter().cloned());
        }
        own
    }

    fn leave(&mut self, name: &str, group: &Name) {
        if let Some(names) = self.names.get_mut(group) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(group);
            }
        }
        self.describe(group);
    }

    fn describe(&mut self, name: &Name) {
        let mut by_version: BTreeMap<Name, Vec<(CustomResource, Crd)>> = BTreeMap::new();
        let names = self.names.get(name).into_iter().flatten();
        for summary in names.filter_map(|n| self.by_name.get(n)).filter(|s| s.established) {
            for (version, status, scale) in &summary.versions {
                let resource = CustomResource {
                    status: *status,
                    scale: *scale,
                    ..summary.resource.clone()
                };
                let served = by_version.entry(version.clone()).or_default();
                served.push((resource, summary.document.clone()));
            }
        }
        if by_version.is_empty() {
            self.groups.remove(name);
            return;
        }
        let mut group = Group::default();
        for (version, mut served) in by_version {
            served.sort_by(|a, b| a.0.plural.cmp(&b.0.plural));
            let resources = || served.iter().map(|(resource, _)| resource);
            let aggregated = custom::aggregated(&version, resources());
            let own = OwnVersion::new(name, &version, true, custom::plain(resources()), &aggregated);
            group.versions.push(own);
            let crds = served.iter().map(|(_, crd)| crd.clone()).collect();
            group.documents.push(self.documents.version(name, &version, crds));
        }
        self.groups.insert(name.clone(), group);
    }
}

impl Summary {
    fn read(crd: &Value, object: &Bytes) -> Option<Summary> {
        let spec = crd.get("spec")?;
        let names = crd.at(&["status", "acceptedNames"]);
        let name = |field: &str| -> Name { names.map_or("", |n| n.str_at(&[field])).to_owned().into() };
        let list = |field: &str| -> Vec<Name> {
            let list = names.map_or(&[][..], |n| n.array_at(&[field]));
            list.iter()
                .filter_map(|v| Some(v.as_str()?.to_owned().into()))
                .collect()
        };
        let condition = |kind: &str| {
            let conditions = crd.array_at(&["status", "conditions"]);
            let found = conditions.iter().find(|c| c.str_at(&["type"]) == kind);
            found.is_some_and(|c| c.str_at(&["status"]) == "True")
        };
        let is = |version: &Value, field: &str| version.get(field).and_then(Value::as_bool) == Some(true);
        let has = |version: &Value, field: &str| version.at(&["subresources", field]).is_some_and(|s| !s.is_null());
        let versions = spec.array_at(&["versions"]);
        let served: Vec<&Value> = versions.iter().filter(|v| is(v, "served")).collect();
        let storage = served.iter().find(|v| is(v, "storage"));
        Some(Summary {
            established: condition("Established"),
            resource: CustomResource {
                group: spec.str_at(&["group"]).to_owned().into(),
                plural: name("plural"),
                singular: name("singular"),
                kind: name("kind"),
                short_names: list("shortNames"),
                categories: list("categories"),
                namespaced: spec.str_at(&["scope"]) == "Namespaced",
                terminating: condition("Terminating"),
                storage_version: storage.map(|v| v.str_at(&["name"]).to_owned().into()),
                status: false,
                scale: false,
            },
            versions: served
                .iter()
                .map(|v| (v.str_at(&["name"]).to_owned().into(), has(v, "status"), has(v, "scale")))
                .collect(),
            document: Crd {
                uid: Arc::from(crd.str_at(&["metadata", "uid"])),
                generation: crd
                    .at(&["metadata", "generation"])
                    .and_then(Value::as_i64)
                    .unwrap_or_default(),
                object: object.clone(),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_registry::discovery::Snapshot;
    use triptych_schema::types::Schema;

    fn crds() -> Crds {
        Crds::new(Custom {
            schema: Arc::new(Schema::new()),
            build: "test".into(),
        })
    }

    fn crd(plural: &str, group: &str, established: &str, versions: &str) -> Bytes {
        let kind = plural.trim_end_matches('s');
        format!(
            r#"{{"metadata":{{"uid":"{plural}","generation":1}},"spec":{{"group":"{group}","scope":"Namespaced","names":{{"plural":"{plural}","kind":"{kind}"}},"versions":[{versions}]}},"status":{{"acceptedNames":{{"plural":"{plural}","singular":"{kind}","kind":"{kind}"}},"conditions":[{{"type":"Established","status":"{established}"}}]}}}}"#
        )
        .into()
    }

    const V1: &str = r#"{"name":"v1","served":true,"storage":true,"subresources":{"status":{}}}"#;

    fn listed(crds: &Crds) -> Vec<String> {
        let own = crds.own(&Own::default());
        let snapshot = Snapshot::new(own.versions.into_iter().map(|v| v.entry));
        let name = |e: &triptych_registry::discovery::Entry| format!("{}/{}", e.group, e.version);
        snapshot.entries().iter().map(name).collect()
    }

    #[test]
    fn a_crd_is_published_once_it_is_established_and_until_it_is_gone() {
        let mut crds = crds();
        crds.set("as.example.com", &crd("as", "example.com", "False", V1));
        assert!(listed(&crds).is_empty());
        crds.set("as.example.com", &crd("as", "example.com", "True", V1));
        assert_eq!(listed(&crds), ["example.com/v1"]);
        let own = crds.own(&Own::default());
        assert_eq!(&*own.documents[0].path, "apis/example.com/v1");
        assert!(String::from_utf8_lossy(&own.versions[0].list).contains(r#""name":"as/status""#));
        crds.remove("as.example.com");
        assert!(listed(&crds).is_empty() && crds.names.is_empty());
    }

    #[test]
    fn versions_come_in_kubernetes_order_and_unserved_ones_not_at_all() {
        let mut crds = crds();
        let versions = r#"{"name":"v1beta1","served":true},{"name":"v10","served":true},{"name":"v2","served":true,"storage":true},{"name":"v3","served":false}"#;
        crds.set("as.example.com", &crd("as", "example.com", "True", versions));
        assert_eq!(
            listed(&crds),
            ["example.com/v10", "example.com/v2", "example.com/v1beta1"]
        );
    }

    #[test]
    fn crds_of_one_group_version_share_a_document_whose_hash_changes_with_each() {
        let mut crds = crds();
        crds.set("as.example.com", &crd("as", "example.com", "True", V1));
        let one = crds.own(&Own::default()).documents[0].hash.clone();
        crds.set("bs.example.com", &crd("bs", "example.com", "True", V1));
        let own = crds.own(&Own::default());
        assert_eq!(own.documents.len(), 1);
        assert_ne!(own.documents[0].hash, one);
        crds.set("bs.example.com", &Bytes::from_static(b"{}"));
        assert_eq!(crds.own(&Own::default()).documents[0].hash, one);
    }

    #[test]
    fn an_unserved_storage_version_leaves_no_hash() {
        let mut crds = crds();
        let versions = r#"{"name":"v1","served":false,"storage":true},{"name":"v2","served":true}"#;
        crds.set("as.example.com", &crd("as", "example.com", "True", versions));
        let own = crds.own(&Own::default());
        assert!(!String::from_utf8_lossy(&own.versions[0].list).contains("storageVersionHash"));
    }
}
