//! What field management costs a write: create, update and apply of a 1 KB ConfigMap and a 2 KB Pod.
//!
//! `cargo run --release -p triptych-schema --example managed_cost` prints microseconds per write, the best of several
//! rounds. Every result is checked once before it is timed.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a benchmark that cannot go on ends

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use triptych_object::{Gvk, Value, json};
use triptych_schema::Table;
use triptych_schema::managed::set::Filter;
use triptych_schema::managed::typed::Typed;
use triptych_schema::managed::{FieldManager, Kind};
use triptych_schema::types::TypeId;
use triptych_schema_compiler::{compile, read};

struct BuiltIn {
    table: Table,
    ty: TypeId,
    filter: Filter,
    empty: Value,
}

impl Kind for BuiltIn {
    fn typed(&self, _api_version: &str) -> Option<Typed<'_>> {
        Some(Typed::object(&self.table.schema, self.ty))
    }

    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, String> {
        Ok(object.clone())
    }

    fn reset(&self, _api_version: &str) -> Option<&Filter> {
        Some(&self.filter)
    }

    fn empty(&self) -> Result<Value, String> {
        Ok(self.empty.clone())
    }

    fn finish(&self, merged: Value) -> Result<Value, String> {
        Ok(merged)
    }
}

const CONFIG_MAP: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"default",
"labels":{"app":"shop","tier":"web"}},"data":{"a":"@","b":"@","c":"@","d":"@","e":"@","f":"@","g":"@","h":"@"}}"#;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"shop-7d5","namespace":"default",
"labels":{"app":"shop","tier":"web","pod-template-hash":"7d5"},"annotations":{"prometheus.io/scrape":"true"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"shop-7d5","uid":"0e1c0f5e","controller":true}]},
"spec":{"volumes":[{"name":"config","configMap":{"name":"settings","defaultMode":420}},{"name":"tmp","emptyDir":{}}],
"containers":[{"name":"web","image":"registry.example/shop:1.2.3","args":["--port=8080","--verbose"],
"ports":[{"name":"http","containerPort":8080,"protocol":"TCP"},{"name":"metrics","containerPort":9090,"protocol":"TCP"}],
"env":[{"name":"A","value":"1"},{"name":"B","value":"2"},{"name":"NODE","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"spec.nodeName"}}}],
"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},
"volumeMounts":[{"name":"config","mountPath":"/etc/shop"},{"name":"tmp","mountPath":"/tmp"}],
"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"readinessProbe":{"httpGet":{"path":"/readyz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent",
"securityContext":{"runAsNonRoot":true,"allowPrivilegeEscalation":false}}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"shop","serviceAccount":"shop",
"securityContext":{"fsGroup":1000},"schedulerName":"default-scheduler","tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],
"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"},"status":{}}"#;

fn best(mut work: impl FnMut()) -> f64 {
    const TIMES: u32 = 2000;
    let round = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..TIMES).for_each(|_| work());
        start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES)
    };
    (0..9).map(|_| round(&mut work)).fold(f64::MAX, f64::min)
}

fn measure(name: &str, text: &str, empty: &str, kind: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = read(&["shared/schema/text", "core-api/schema"].map(|d| root.join(d))).unwrap();
    let table = Table::load(compile(&sources).unwrap().leak()).unwrap();
    let ty = table.schema.named(&format!("io.k8s.api.core.v1.{kind}")).unwrap();
    let empty = json::from_slice(empty.as_bytes()).unwrap();
    let kind_of = BuiltIn {
        table,
        ty,
        filter: Filter::exclude(["status"]),
        empty,
    };
    let gvk = Gvk {
        group: String::new(),
        version: "v1".into(),
        kind: kind.into(),
    };
    let manager = FieldManager {
        kind: &kind_of,
        gvk: &gvk,
        api_version: "v1",
        subresource: "",
    };
    let (now, later) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let body = json::from_slice(text.replace('@', &"x".repeat(100)).as_bytes()).unwrap();

    let create = |mut new: Value| {
        manager.update(&kind_of.empty, &mut new, "kubectl", now);
        new
    };
    let mut live = create(body.clone());
    live.set_at(&["metadata", "uid"], "u".into());
    let mut changed = live.clone();
    changed.set_at(&["metadata", "labels", "app"], "other".into());
    let update = |mut new: Value| {
        manager.update(&live, &mut new, "controller", later);
        new
    };
    let entries = |object: &Value| object.array_at(&["metadata", "managedFields"]).len();
    assert_eq!((entries(&live), entries(&update(changed.clone()))), (1, 2));
    let apply = |force| manager.apply(&live, &body, "applier", force, later).unwrap();
    assert_eq!(entries(&apply(true)), 2);

    let clone = best(|| drop(black_box(changed.clone())));
    let clone_body = best(|| drop(black_box(body.clone())));
    println!(
        "{name} ({} bytes): create {:.1} µs, update {:.1} µs, apply {:.1} µs",
        json::to_vec(&body).len(),
        best(|| drop(black_box(create(body.clone())))) - clone_body,
        best(|| drop(black_box(update(changed.clone())))) - clone,
        best(|| drop(black_box(apply(true)))),
    );
}

fn main() {
    measure(
        "ConfigMap",
        CONFIG_MAP,
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}"#,
        "ConfigMap",
    );
    let empty = r#"{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{"containers":null},"status":{}}"#;
    measure("Pod", POD, empty, "Pod");
}
