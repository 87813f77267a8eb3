//! What quotas count, refuse and store.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use triptych_object::{Gvr, Status, StatusResult, Value, json, meta};

use super::classes::Classes;
use super::evaluator::Evaluator;
use super::quota::{Charge, Quota};
use super::usage;
use crate::testing::tree;

fn quota(hard: &str, used: &str, more: &str) -> Quota {
    Quota::of(tree(&format!(
        r#"{{"metadata":{{"name":"q"}},"spec":{{{more}}},"status":{{"hard":{{{hard}}},"used":{{{used}}}}}}}"#
    )))
}

fn charge(resource: &str, object: &str, old: Option<&str>) -> Charge {
    let (group, plural) = resource.split_once('/').unwrap_or(("", resource));
    let resource = Gvr::new(group, "v1", plural);
    let evaluator = Evaluator::of(&resource);
    let measure = |text: &str| {
        usage::measure(
            evaluator,
            &resource,
            &tree(text),
            &Classes::default(),
            Timestamp::UNIX_EPOCH,
        )
    };
    Charge {
        evaluator,
        name: meta::name(&tree(object)).to_owned(),
        unlimited: false,
        dry_run: false,
        new: measure(object),
        old: old.map(measure),
        classes: Arc::default(),
        resource: resource.clone(),
    }
}

fn used(quota: &Quota) -> String {
    json::to_string(quota.document().at(&["status", "used"]).unwrap_or(&Value::Null))
}

/// What is used afterwards, or why the write is refused.
fn outcome(mut quota: Quota, charge: &Charge) -> String {
    match charge.apply(std::slice::from_mut(&mut quota)) {
        Ok(_) => used(&quota),
        Err(status) => status.message,
    }
}

fn pod(resources: &str) -> String {
    format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#)
}

#[test]
fn pods_count_with_what_they_request() {
    let limits = quota(
        r#""requests.cpu":"1","pods":"5""#,
        r#""requests.cpu":"400m","pods":"1""#,
        "",
    );
    let small = charge("pods", &pod(r#"{"requests":{"cpu":"500m"}}"#), None);
    assert_eq!(outcome(limits.clone(), &small), r#"{"pods":"2","requests.cpu":"900m"}"#);
    let large = charge("pods", &pod(r#"{"requests":{"cpu":"700m"}}"#), None);
    assert_eq!(
        outcome(limits.clone(), &large),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=700m, used: requests.cpu=400m, limited: requests.cpu=1"
    );
    let silent = charge("pods", &pod("{}"), None);
    assert_eq!(
        outcome(limits, &silent),
        "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
}

#[test]
fn a_quota_without_usage_refuses_and_one_without_limits_is_none() {
    let map = charge("configmaps", r#"{"metadata":{"name":"m"}}"#, None);
    assert_eq!(
        outcome(quota(r#""configmaps":"1""#, "", ""), &map),
        "configmaps \"m\" is forbidden: status unknown for quota: q, resources: configmaps"
    );
    assert_eq!(outcome(quota("", "", ""), &map), "{}");
}

#[test]
fn anything_is_counted_by_its_group_and_resource() {
    let limits = || {
        quota(
            r#""count/widgets.example.com":"1""#,
            r#""count/widgets.example.com":"1""#,
            "",
        )
    };
    let widget = charge("example.com/widgets", r#"{"metadata":{"name":"w"}}"#, None);
    assert_eq!(
        outcome(limits(), &widget),
        "widgets.example.com \"w\" is forbidden: exceeded quota: q, requested: count/widgets.example.com=1, used: count/widgets.example.com=1, limited: count/widgets.example.com=1"
    );
    let other = charge("example.org/widgets", r#"{"metadata":{"name":"w"}}"#, None);
    assert_eq!(outcome(limits(), &other), r#"{"count/widgets.example.com":"1"}"#);
}

#[test]
fn updates_count_with_what_they_add() {
    let limits = || quota(r#""services.nodeports":"2""#, r#""services.nodeports":"1""#, "");
    let service = |kind: &str, ports: usize| {
        let ports = vec!["{}"; ports].join(",");
        format!(r#"{{"metadata":{{"name":"s"}},"spec":{{"type":"{kind}","ports":[{ports}]}}}}"#)
    };
    let one = service("NodePort", 1);
    for (new, expected) in [
        (service("ClusterIP", 1), r#"{"services.nodeports":"1"}"#),
        (service("NodePort", 2), r#"{"services.nodeports":"2"}"#),
        (
            service("LoadBalancer", 3),
            "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2",
        ),
    ] {
        assert_eq!(outcome(limits(), &charge("services", &new, Some(&one))), expected);
    }
}

#[test]
fn scopes_say_which_pods_count() {
    let classes = |operator: &str, values: &str| {
        format!(
            r#""scopeSelector":{{"matchExpressions":[{{"scopeName":"PriorityClass","operator":"{operator}","values":[{values}]}}]}}"#
        )
    };
    let plain = r#"{"metadata":{"name":"p"},"spec":{"priorityClassName":"high"}}"#;
    for (scope, counted) in [
        (r#""scopes":["BestEffort"]"#.to_owned(), true),
        (r#""scopes":["NotBestEffort"]"#.to_owned(), false),
        (r#""scopes":["Terminating","BestEffort"]"#.to_owned(), false),
        (r#""scopes":["NotTerminating"]"#.to_owned(), true),
        (r#""scopes":["CrossNamespacePodAffinity"]"#.to_owned(), false),
        (classes("In", r#""high","low""#), true),
        (classes("NotIn", r#""high""#), false),
        (classes("Exists", ""), true),
        (classes("DoesNotExist", ""), false),
    ] {
        let expected = if counted { r#"{"pods":"1"}"# } else { r#"{"pods":"0"}"# };
        let limits = quota(r#""pods":"1""#, r#""pods":"0""#, &scope);
        assert_eq!(outcome(limits, &charge("pods", plain, None)), expected, "{scope}");
    }
}

#[test]
fn claims_count_for_their_class_too() {
    let limits = quota(
        r#""requests.storage":"10Gi","gold.storageclass.storage.k8s.io/requests.storage":"2Gi""#,
        r#""requests.storage":"0","gold.storageclass.storage.k8s.io/requests.storage":"0""#,
        "",
    );
    let claim =
        r#"{"metadata":{"name":"c"},"spec":{"storageClassName":"gold","resources":{"requests":{"storage":"3Gi"}}}}"#;
    assert_eq!(
        outcome(limits, &charge("persistentvolumeclaims", claim, None)),
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: gold.storageclass.storage.k8s.io/requests.storage=3Gi, used: gold.storageclass.storage.k8s.io/requests.storage=0, limited: gold.storageclass.storage.k8s.io/requests.storage=2Gi"
    );
}

#[test]
fn devices_count_by_class_with_the_most_a_request_may_get() {
    let claim = r#"{"metadata":{"name":"c"},"spec":{"devices":{"requests":[
        {"name":"a","exactly":{"deviceClassName":"gpu","allocationMode":"ExactCount","count":2}},
        {"name":"b","firstAvailable":[{"deviceClassName":"gpu","allocationMode":"All"},{"deviceClassName":"fpga","allocationMode":"ExactCount","count":1}]}]}}}"#;
    let measured = charge("resource.k8s.io/resourceclaims", claim, None).new.usage;
    let of = |class: &str| measured[&format!("{class}.deviceclass.resource.k8s.io/devices")].to_string();
    assert_eq!((of("gpu"), of("fpga")), ("34".to_owned(), "1".to_owned()));
}

mod ledger {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::resource_quota::ledger::{Ledger, StatusWriter};
    use triptych_storage::cache::{Board, ReadError, Snapshot, Update};
    use triptych_storage::{Entry, JsonDecoder, Object, Source};

    /// Quotas, and the status subresource that writes them.
    struct Quotas {
        board: Arc<Board>,
        /// Writes so far, and how many of the first ones somebody else comes before.
        writes: AtomicUsize,
        races: usize,
        stored: Mutex<Value>,
    }

    impl Quotas {
        fn new(hard: &str, used: &str, races: usize) -> Arc<Quotas> {
            let text = format!(
                r#"{{"metadata":{{"name":"q","namespace":"n"}},"status":{{"hard":{{{hard}}},"used":{{{used}}}}}}}"#
            );
            let board = Board::new(&[]);
            board.reset([object(&tree(&text), 1)], 1);
            let mut stored = tree(&text);
            meta::set_text(&mut stored, "resourceVersion", "1");
            Arc::new(Quotas {
                board,
                writes: AtomicUsize::new(0),
                races,
                stored: Mutex::new(stored),
            })
        }

        fn store(&self, mut quota: Value) -> Value {
            let mut stored = self.stored.lock();
            let revision = meta::resource_version(&stored).parse::<u64>().unwrap() + 1;
            quota.remove_at(&["metadata", "resourceVersion"]);
            self.board.apply(vec![Update::Put(object(&quota, revision))]);
            meta::set_text(&mut quota, "resourceVersion", revision.to_string());
            *stored = quota.clone();
            quota
        }
    }

    fn object(value: &Value, revision: u64) -> Arc<Object> {
        let entry = Entry {
            key: "/resourcequotas/n/q".into(),
            revision,
            value: json::to_vec(value).into(),
        };
        Arc::new(Object::ingest(&entry, &JsonDecoder::default()))
    }

    impl Source for Quotas {
        fn board(&self) -> &Arc<Board> {
            &self.board
        }

        fn consistent<'a>(&'a self, _wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
            Box::pin(std::future::ready(self.board.snapshot().ok_or(ReadError::Filling)))
        }
    }

    struct Writer(Arc<Quotas>);

    impl StatusWriter for Writer {
        fn write<'a>(&'a self, _: &'a str, name: &'a str, quota: &'a Value) -> BoxFuture<'a, StatusResult<Value>> {
            let quotas = &self.0;
            let number = quotas.writes.fetch_add(1, Ordering::SeqCst);
            if number < quotas.races {
                let known = quotas.stored.lock().clone();
                quotas.store(known);
            }
            let current = meta::resource_version(&quotas.stored.lock()).to_owned();
            let outcome = if meta::resource_version(quota) == current {
                Ok(quotas.store(quota.clone()))
            } else {
                let resource = triptych_object::GroupResource::new("", "resourcequotas");
                Err(Status::conflict(&resource, name, "changed"))
            };
            Box::pin(async move {
                tokio::task::yield_now().await;
                outcome
            })
        }
    }

    async fn create(ledger: &Arc<Ledger>, count: usize) -> usize {
        let writes = (0..count).map(|_| {
            let charge = charge("configmaps", r#"{"metadata":{"name":"m"}}"#, None);
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.charge("n", charge).await.is_ok() })
        });
        let outcomes = futures_util::future::join_all(writes).await;
        outcomes.into_iter().filter(|done| *done.as_ref().unwrap()).count()
    }

    #[tokio::test]
    async fn many_at_once_are_charged_together_and_never_beyond_the_limit() {
        let quotas = Quotas::new(r#""configmaps":"30""#, r#""configmaps":"0""#, 0);
        let ledger = Ledger::new(quotas.clone(), Arc::new(Writer(quotas.clone())));
        assert_eq!(create(&ledger, 50).await, 30);
        assert_eq!(quotas.stored.lock().str_at(&["status", "used", "configmaps"]), "30");
        assert!(quotas.writes.load(Ordering::SeqCst) < 30);
    }

    #[tokio::test]
    async fn a_lost_race_is_tried_again_but_not_for_ever() {
        for (races, created) in [(3, 1), (4, 0)] {
            let quotas = Quotas::new(r#""configmaps":"30""#, r#""configmaps":"0""#, races);
            let ledger = Ledger::new(quotas.clone(), Arc::new(Writer(quotas.clone())));
            assert_eq!(create(&ledger, 1).await, created);
        }
    }

    #[tokio::test]
    async fn a_dry_run_is_checked_and_not_charged() {
        let quotas = Quotas::new(r#""configmaps":"1""#, r#""configmaps":"0""#, 0);
        let ledger = Ledger::new(quotas.clone(), Arc::new(Writer(quotas.clone())));
        let mut dry = charge("configmaps", r#"{"metadata":{"name":"m"}}"#, None);
        dry.dry_run = true;
        ledger.charge("n", dry).await.unwrap();
        assert_eq!(quotas.writes.load(Ordering::SeqCst), 0);
    }
}
