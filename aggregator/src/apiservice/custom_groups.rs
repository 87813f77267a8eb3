//! The groups that CustomResourceDefinitions define, mirrored from extensions-api: each served version gets an APIService.
//!
//! Contract: of a CRD only its group and versions are kept, because a mirror of thousands of schemas would cost the front
//! door what extensions-api is there to carry. Nothing is known before the mirror was complete once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use triptych_client::Api;
use triptych_client::mirror::{Mirror, MirrorConfig};
use triptych_object::{Value, json};
use triptych_registry::discovery::Priority;
use triptych_storage::{Object, Source, View};

use super::record::{ApiService, Managed};

/// What a CRD says of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    group: String,
    versions: Vec<String>,
}

/// The groups of all CRDs.
pub struct CustomGroups {
    mirror: Arc<Mirror>,
    view: View<Definition>,
}

impl CustomGroups {
    /// Begins to mirror; runs on the current tokio runtime.
    pub fn start(api: Api) -> CustomGroups {
        let kind = "CustomResourceDefinition";
        let config = MirrorConfig::new("apiextensions.k8s.io", "v1", kind, "customresourcedefinitions", false);
        let mirror = Mirror::start(api, config.reduced_by(reduce));
        let view = View::new(mirror.clone(), Definition::of);
        CustomGroups { mirror, view }
    }

    /// The copy of the CRDs.
    pub fn source(&self) -> Arc<dyn Source> {
        self.mirror.clone()
    }

    /// The APIServices that should exist, by name; `None` while the CRDs are not known.
    pub fn wanted(&self) -> Option<BTreeMap<Arc<str>, ApiService>> {
        let definitions = self.view.load()?;
        let versions = definitions.iter().flat_map(|(_, definition)| {
            let version = |v: &String| ApiService::kept(&definition.group, v, Managed::Always);
            definition.versions.iter().map(version).collect::<Vec<_>>()
        });
        let custom = versions.filter(|s| Priority::built_in(&s.group, &s.version).is_none());
        Some(custom.map(|s| (Arc::clone(&s.name), s)).collect())
    }

    /// The groups in which nothing is built in.
    pub fn groups(&self) -> Option<BTreeSet<String>> {
        let definitions = self.view.load()?;
        let groups = definitions.iter().map(|(_, definition)| definition.group.clone());
        Some(groups.filter(|group| !Priority::is_built_in(group)).collect())
    }
}

impl Definition {
    fn of(object: &Object) -> Option<Definition> {
        json::from_slice(object.bytes()).ok().map(|crd| Definition::read(&crd))
    }

    fn read(crd: &Value) -> Definition {
        let versions = crd.array_at(&["spec", "versions"]).iter();
        let served = versions.filter(|v| v.get("served").and_then(Value::as_bool) == Some(true));
        Definition {
            group: crd.str_at(&["spec", "group"]).to_owned(),
            versions: served.map(|v| v.str_at(&["name"]).to_owned()).collect(),
        }
    }
}

/// Leaves of a CRD its names and versions.
fn reduce(crd: &mut Value) {
    super::resolve::keep_identity(crd);
    let versions = crd.array_at(&["spec", "versions"]).iter().map(|version| {
        let member = |name: &str| version.get(name).cloned().unwrap_or_default();
        Value::from([("name", member("name")), ("served", member("served"))])
    });
    let spec = Value::from([
        ("group", crd.str_at(&["spec", "group"]).into()),
        ("versions", Value::Array(versions.collect())),
    ]);
    super::resolve::keep_only(crd, &["kind", "apiVersion", "metadata"]);
    crd.set_at(&["spec"], spec);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduced_crd_still_says_which_versions_are_served() {
        let mut crd = json::from_slice(
            br#"{"kind":"CustomResourceDefinition","metadata":{"name":"a.g","resourceVersion":"7","annotations":{"x":"y"}},
                "spec":{"group":"g","names":{"kind":"A"},"versions":[{"name":"v1","served":true,"schema":{"big":1}},{"name":"v2","served":false}]},
                "status":{}}"#,
        )
        .unwrap();
        reduce(&mut crd);
        assert_eq!(
            json::to_string(&crd),
            r#"{"kind":"CustomResourceDefinition","metadata":{"name":"a.g","resourceVersion":"7"},"spec":{"group":"g","versions":[{"name":"v1","served":true},{"name":"v2","served":false}]}}"#
        );
        assert_eq!(Definition::read(&crd).versions, ["v1"]);
    }
}
