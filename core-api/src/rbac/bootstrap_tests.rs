//! The bootstrap hook against a small store.

use std::collections::BTreeMap;

use futures_util::FutureExt;
use parking_lot::Mutex;
use triptych_object::{GroupResource, json};

use super::*;

/// Objects by kind, namespace and name; writes are counted.
#[derive(Default)]
struct Fake {
    objects: Mutex<BTreeMap<String, Value>>,
    writes: Mutex<Vec<String>>,
    /// This many updates lose a race.
    races: Mutex<usize>,
}

impl Fake {
    fn write(&self, what: &str, key: String, object: Option<Value>) {
        self.writes.lock().push(format!("{what} {key}"));
        match object {
            Some(object) => self.objects.lock().insert(key, object),
            None => self.objects.lock().remove(&key),
        };
    }
}

fn key(kind: RbacKind, namespace: &str, name: &str) -> String {
    format!("{}/{namespace}/{name}", kind.resource())
}

fn resource(kind: RbacKind) -> GroupResource {
    GroupResource::new(super::super::policy::GROUP, kind.resource())
}

impl RbacObjects for Fake {
    fn get<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, StatusResult<Option<Value>>> {
        let found = self.objects.lock().get(&key(kind, namespace, name)).cloned();
        std::future::ready(Ok(found)).boxed()
    }

    fn create<'a>(&'a self, kind: RbacKind, namespace: &'a str, object: Value) -> BoxFuture<'a, StatusResult<()>> {
        let key = key(kind, namespace, meta::name(&object));
        let exists = self.objects.lock().contains_key(&key);
        let outcome = match exists {
            true => Err(Status::already_exists(&resource(kind), meta::name(&object))),
            false => {
                self.write("create", key, Some(object));
                Ok(())
            }
        };
        std::future::ready(outcome).boxed()
    }

    fn update<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        object: Value,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let mut races = self.races.lock();
        let outcome = if *races > 0 {
            *races -= 1;
            Err(Status::conflict(&resource(kind), name, "it was changed"))
        } else {
            self.write("update", key(kind, namespace, name), Some(object));
            Ok(())
        };
        std::future::ready(outcome).boxed()
    }

    fn delete<'a>(
        &'a self,
        kind: RbacKind,
        namespace: &'a str,
        name: &'a str,
        _uid: &'a str,
    ) -> BoxFuture<'a, StatusResult<()>> {
        self.write("delete", key(kind, namespace, name), None);
        std::future::ready(Ok(())).boxed()
    }
}

#[tokio::test]
async fn everything_is_created_once() {
    let fake = Fake::default();
    ensure(&fake).await.unwrap();
    assert_eq!(fake.writes.lock().len(), policy().unwrap().len());
    fake.writes.lock().clear();
    ensure(&fake).await.unwrap();
    assert_eq!(*fake.writes.lock(), Vec::<String>::new());
}

#[tokio::test]
async fn what_was_taken_away_comes_back_and_what_was_added_stays() {
    let fake = Fake::default();
    ensure(&fake).await.unwrap();
    let viewer = "clusterroles//system:public-info-viewer";
    let binding = "clusterrolebindings//system:public-info-viewer";
    {
        let mut objects = fake.objects.lock();
        let role = objects.get_mut(viewer).unwrap();
        let rules = r#"[{"verbs":["get"],"nonResourceURLs":["/healthz","/mine"]}]"#;
        role.set_at(&["rules"], json::from_slice(rules.as_bytes()).unwrap());
        role.remove_at(&["metadata", "labels"]);
        let binding = objects.get_mut(binding).unwrap();
        let subjects = r#"[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ann"}]"#;
        binding.set_at(&["subjects"], json::from_slice(subjects.as_bytes()).unwrap());
    }
    fake.writes.lock().clear();
    *fake.races.lock() = 2;
    ensure(&fake).await.unwrap();
    let mut writes = fake.writes.lock().clone();
    writes.sort();
    assert_eq!(writes, [format!("update {binding}"), format!("update {viewer}")]);
    let objects = fake.objects.lock();
    let urls = |role: &Value| -> Vec<String> {
        let rules = PolicyRule::of_role(role);
        rules.into_iter().flat_map(|r| r.non_resource_urls).collect()
    };
    assert_eq!(
        urls(&objects[viewer]),
        ["/healthz", "/mine", "/livez", "/readyz", "/version", "/version/"]
    );
    assert_eq!(
        meta::label(&objects[viewer], "kubernetes.io/bootstrapping"),
        Some("rbac-defaults")
    );
    assert_eq!(objects[binding].array_at(&["subjects"]).len(), 3);
}

#[tokio::test]
async fn protected_objects_are_left_alone() {
    let fake = Fake::default();
    ensure(&fake).await.unwrap();
    {
        let mut objects = fake.objects.lock();
        let role = objects.get_mut("clusterroles//cluster-admin").unwrap();
        role.set_at(&["rules"], Value::Array(Vec::new()));
        meta::set_annotation(role, AUTO_UPDATE, "false");
    }
    fake.writes.lock().clear();
    ensure(&fake).await.unwrap();
    assert!(fake.writes.lock().is_empty());
}

#[tokio::test]
async fn a_binding_to_another_role_is_made_anew() {
    let fake = Fake::default();
    ensure(&fake).await.unwrap();
    let binding = "clusterrolebindings//cluster-admin";
    fake.objects
        .lock()
        .get_mut(binding)
        .unwrap()
        .set_at(&["roleRef", "name"], "other".into());
    fake.writes.lock().clear();
    ensure(&fake).await.unwrap();
    assert_eq!(
        *fake.writes.lock(),
        [format!("delete {binding}"), format!("create {binding}")]
    );
}

#[test]
fn an_aggregated_role_keeps_its_selectors() {
    let expected = policy().unwrap().into_iter().find(|o| o.name == "view").unwrap().object;
    let mut existing = expected.clone();
    let rules = r#"[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#;
    existing.set_at(&["rules"], json::from_slice(rules.as_bytes()).unwrap());
    assert_eq!(reconcile(RbacKind::ClusterRole, &existing, &expected), Change::None);
    existing.remove_at(&["aggregationRule"]);
    let Change::Update(new) = reconcile(RbacKind::ClusterRole, &existing, &expected) else {
        panic!("nothing was done")
    };
    assert_eq!(new.get("aggregationRule"), expected.get("aggregationRule"));
    assert_eq!(new.array_at(&["rules"]).len(), 1);
}
