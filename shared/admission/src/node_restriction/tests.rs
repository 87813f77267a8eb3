//! What a kubelet may and may not do.

use super::*;
use crate::lookup::fixed::Fixed;
use crate::testing::Write as Request;
use triptych_object::RequestInfo;

struct Nobody;

impl Permit for Nobody {
    fn permit<'a>(&'a self, _: &'a UserInfo, _: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(std::future::ready(Err(Status::forbidden(
            &GroupResource::new("", ""),
            "",
            "",
        ))))
    }
}

fn plugin() -> NodeRestriction {
    NodeRestriction {
        pods: Fixed::of(&[
            r#"{"metadata":{"name":"mine","namespace":"ns","uid":"u1"},"spec":{"nodeName":"n1","volumes":[
                {"name":"t","projected":{"sources":[{"serviceAccountToken":{"audience":"vault"}}]}},
                {"name":"d","persistentVolumeClaim":{"claimName":"c"}}]}}"#,
            r#"{"metadata":{"name":"other","namespace":"ns","uid":"u2"},"spec":{"nodeName":"n2"}}"#,
        ]),
        nodes: Fixed::of(&[r#"{"metadata":{"name":"n1","uid":"nu"}}"#]),
        claims: Fixed::of(&[r#"{"metadata":{"name":"c","namespace":"ns"},"spec":{"volumeName":"v"}}"#]),
        volumes: Fixed::of(&[r#"{"metadata":{"name":"v"},"spec":{"csi":{"driver":"d.example"}}}"#]),
        drivers: Fixed::of(&[r#"{"metadata":{"name":"d.example"},"spec":{"tokenRequests":[{"audience":"disk"}]}}"#]),
        permit: Arc::new(Nobody),
    }
}

fn node() -> UserInfo {
    UserInfo::new("system:node:n1", [GROUP])
}

/// What the node is told, without `… is forbidden: `.
async fn told(request: Request) -> String {
    let refusal = request.user(node()).refusal(&plugin()).await;
    refusal
        .split_once(" is forbidden: ")
        .map_or(refusal.clone(), |(_, why)| why.to_owned())
}

#[tokio::test]
async fn others_than_nodes_are_not_restricted() {
    let pod = r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{}}"#;
    for user in [UserInfo::new("u", [GROUP]), UserInfo::new("system:node:n1", ["other"])] {
        assert_eq!(Request::create("pods", pod).user(user).refusal(&plugin()).await, "");
    }
    let nameless = Request::create("pods", pod).user(UserInfo::new("system:node:", [GROUP]));
    assert_eq!(
        nameless.refusal(&plugin()).await,
        "pods \"p\" is forbidden: could not determine node from user \"system:node:\""
    );
}

fn mirror(owner: &str, spec: &str) -> Request {
    Request::create(
        "pods",
        &format!(
            r#"{{"metadata":{{"name":"p","namespace":"ns","annotations":{{"kubernetes.io/config.mirror":"x"}},"ownerReferences":[{owner}]}},"spec":{{"nodeName":"n1"{spec}}}}}"#
        ),
    )
}

const OWNER: &str = r#"{"apiVersion":"v1","kind":"Node","name":"n1","uid":"nu","controller":true}"#;

#[tokio::test]
async fn a_node_creates_only_mirror_pods_of_its_own() {
    assert_eq!(told(mirror(OWNER, "")).await, "");
    let plain = r#"{"metadata":{"name":"p","namespace":"ns"},"spec":{"nodeName":"n1"}}"#;
    assert_eq!(
        told(Request::create("pods", plain)).await,
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods"
    );
    let other_uid = OWNER.replace("nu", "xx");
    let uncontrolled = OWNER.replace("true", "false");
    for (owner, spec, why) in [
        (
            "",
            "",
            "node \"n1\" can only create pods with an owner reference set to itself",
        ),
        (other_uid.as_str(), "", "node n1 UID mismatch: expected xx got nu"),
        (
            &uncontrolled,
            "",
            "node \"n1\" can only create pods with a controller owner reference set to itself",
        ),
        (
            OWNER,
            r#","serviceAccountName":"a""#,
            "node \"n1\" can not create pods that reference serviceaccounts",
        ),
        (
            OWNER,
            r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#,
            "node \"n1\" can not create pods that reference persistentvolumeclaims",
        ),
        (
            OWNER,
            r#","volumes":[{"name":"v","projected":{"sources":[{"downwardAPI":{}},{"serviceAccountToken":{}}]}}]"#,
            "node \"n1\" can not create pods that reference serviceaccounts (via projected volumes)",
        ),
    ] {
        assert_eq!(told(mirror(owner, spec)).await, why);
    }
}

#[tokio::test]
async fn a_node_touches_only_pods_that_run_on_it() {
    let pod = |name: &str, node: &str, extra: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"{extra}}},"spec":{{"nodeName":"{node}"}}}}"#)
    };
    let (mine, other) = (pod("mine", "n1", ""), pod("other", "n2", ""));
    let labelled = pod("mine", "n1", r#","labels":{"a":"b"}"#);
    let status = |new: &str, old: &str| Request::update("pods", new, old).subresource("status");
    let eviction = |name: &str| {
        let eviction = format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}}}}"#);
        Request::create("pods", &eviction).subresource("eviction")
    };
    for (request, why) in [
        (Request::delete("pods", &mine), ""),
        (
            Request::delete("pods", &other),
            "node \"n1\" can only delete pods with spec.nodeName set to itself",
        ),
        (
            Request::update("pods", &mine, &mine),
            "unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods",
        ),
        (status(&mine, &mine), ""),
        (
            status(&other, &other),
            "node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            status(&labelled, &mine),
            "node \"n1\" cannot update labels through pod status",
        ),
        (eviction("mine"), ""),
        (
            eviction("other"),
            "node n1 can only evict pods with spec.nodeName set to itself",
        ),
        (eviction("none"), "pod \"none\" not found"),
        (
            Request::create("pods", &mine).subresource("binding"),
            "unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed",
        ),
    ] {
        assert_eq!(told(request).await, why);
    }
}

#[tokio::test]
async fn a_node_writes_its_own_node_but_neither_taints_nor_forbidden_labels() {
    let object = |name: &str, label: &str, taints: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","labels":{{"{label}":"x"}}}},"spec":{{"taints":{taints}}}}}"#)
    };
    let own = object("n1", "kubernetes.io/hostname", "[]");
    let role = object("n1", "node-role.kubernetes.io/master", "[]");
    let tainted = object("n1", "kubernetes.io/hostname", r#"[{"key":"a"}]"#);
    for (request, why) in [
        (Request::create("nodes", &own), ""),
        (
            Request::create("nodes", &object("n2", "a", "[]")),
            "node \"n1\" is not allowed to modify node \"n2\"",
        ),
        (
            Request::create("nodes", &role),
            "node \"n1\" is not allowed to set the following labels: node-role.kubernetes.io/master",
        ),
        (
            Request::update("nodes", &role, &own),
            "is not allowed to modify labels: node-role.kubernetes.io/master",
        ),
        (
            Request::update("nodes", &own, &tainted),
            "node \"n1\" is not allowed to modify taints",
        ),
        (Request::update("nodes", &own, &own).subresource("status"), ""),
    ] {
        assert_eq!(told(request).await, why);
    }
}

#[tokio::test]
async fn a_node_gets_tokens_of_its_pods_for_audiences_that_their_volumes_need() {
    let token = |pod: &str, uid: &str, audiences: &str| {
        let request = format!(
            r#"{{"metadata":{{"name":"default","namespace":"ns"}},"spec":{{"audiences":{audiences},"boundObjectRef":{{"apiVersion":"v1","kind":"Pod","name":"{pod}","uid":"{uid}"}}}}}}"#
        );
        Request::create("serviceaccounts", &request).subresource("token")
    };
    let unbound = r#"{"metadata":{"name":"default","namespace":"ns"},"spec":{}}"#;
    for (request, why) in [
        (token("mine", "u1", r#"["vault"]"#), ""),
        (token("mine", "u1", r#"["disk"]"#), ""),
        (
            token("mine", "u1", r#"["x"]"#),
            "audience \"x\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience",
        ),
        (
            token("mine", "u1", r#"["vault","disk"]"#),
            "node may only request 0 or 1 audiences",
        ),
        (
            token("other", "u2", "[]"),
            "node requested token bound to a pod scheduled on a different node",
        ),
        (
            token("mine", "", "[]"),
            "node requested token with a pod binding without a uid",
        ),
        (
            Request::create("serviceaccounts", unbound).subresource("token"),
            "node requested token not bound to a pod",
        ),
    ] {
        assert_eq!(told(request).await, why);
    }
}

#[tokio::test]
async fn leases_nodes_of_drivers_slices_and_claims_are_the_nodes_own() {
    let named = |name: &str, namespace: &str| {
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},"spec":{{"nodeName":"{name}"}}}}"#)
    };
    let claim = |label: &str, size: &str| {
        format!(
            r#"{{"metadata":{{"name":"c","labels":{{"a":"{label}"}}}},"status":{{"capacity":{{"storage":"{size}"}}}}}}"#
        )
    };
    let leases = "coordination.k8s.io/leases";
    let slices = "resource.k8s.io/resourceslices";
    for (request, why) in [
        (Request::create(leases, &named("n1", "kube-node-lease")), ""),
        (
            Request::create(leases, &named("n2", "kube-node-lease")),
            "can only access node lease with the same name as the requesting node",
        ),
        (
            Request::create(leases, &named("n1", "kube-system")),
            "can only access leases in the \"kube-node-lease\" system namespace",
        ),
        (
            Request::create("storage.k8s.io/csinodes", &named("n2", "")),
            "can only access CSINode with the same name as the requesting node",
        ),
        (Request::create(slices, &named("n1", "")), ""),
        (
            Request::create(slices, &named("n2", "")),
            "can only create ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            Request::delete(slices, &named("n2", "")),
            "can only delete ResourceSlice with the same NodeName as the requesting node",
        ),
        (
            Request::update("persistentvolumeclaims", &claim("b", "1Gi"), &claim("b", "1Gi")),
            "may only update PVC status",
        ),
        (
            Request::update("persistentvolumeclaims", &claim("b", "2Gi"), &claim("b", "1Gi")).subresource("status"),
            "",
        ),
        (
            Request::update("persistentvolumeclaims", &claim("c", "1Gi"), &claim("b", "1Gi")).subresource("status"),
            "node \"n1\" is not allowed to update fields other than status.quantity and status.conditions",
        ),
    ] {
        assert_eq!(told(request).await, why);
    }
}
