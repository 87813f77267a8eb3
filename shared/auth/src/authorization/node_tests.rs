//! What a kubelet may and may not.

use triptych_object::json;

use super::super::node_graph::GraphSource;
use super::*;

fn object(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

use triptych_object::Value;

fn authorizer() -> NodeAuthorizer {
    let graph = NodeGraph::new();
    let pod = r#"{"spec":{"nodeName":"n","serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"}],
        "containers":[{"envFrom":[{"configMapRef":{"name":"env-cm"}},{"secretRef":{"name":"env-s"}}],
            "env":[{"valueFrom":{"secretKeyRef":{"name":"key-s"}}},{"valueFrom":{"configMapKeyRef":{"name":"key-cm"}}}]}],
        "ephemeralContainers":[{"envFrom":[{"secretRef":{"name":"debug-s"}}]}],
        "volumes":[{"name":"a","secret":{"secretName":"vol-s"}},{"name":"b","configMap":{"name":"vol-cm"}},
            {"name":"c","projected":{"sources":[{"secret":{"name":"proj-s"}},{"configMap":{"name":"proj-cm"}}]}},
            {"name":"d","persistentVolumeClaim":{"claimName":"claim"}},{"name":"e","ephemeral":{}},
            {"name":"f","csi":{"nodePublishSecretRef":{"name":"csi-s"}}}],
        "resourceClaims":[{"name":"x","resourceClaimName":"rc"},{"name":"y","resourceClaimTemplateName":"t"}]},
        "status":{"resourceClaimStatuses":[{"name":"y","resourceClaimName":"rc-y"}]}}"#;
    graph.apply(GraphSource::Pod, "ns", "p", Some(&object(pod)));
    let mirror = r#"{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},
        "spec":{"nodeName":"n","serviceAccountName":"mirror-sa","volumes":[{"secret":{"secretName":"mirror-s"}}]}}"#;
    graph.apply(GraphSource::Pod, "ns", "mirror", Some(&object(mirror)));
    let waiting = r#"{"spec":{"volumes":[{"secret":{"secretName":"waiting-s"}}]}}"#;
    graph.apply(GraphSource::Pod, "ns", "waiting", Some(&object(waiting)));
    let volume = r#"{"spec":{"claimRef":{"namespace":"ns","name":"claim"},
        "csi":{"nodeStageSecretRef":{"namespace":"sys","name":"stage-s"},
               "controllerPublishSecretRef":{"namespace":"sys","name":"controller-s"}}}}"#;
    graph.apply(GraphSource::PersistentVolume, "", "pv", Some(&object(volume)));
    let on_node = object(r#"{"spec":{"nodeName":"n"}}"#);
    graph.apply(GraphSource::VolumeAttachment, "", "va", Some(&on_node));
    graph.apply(GraphSource::ResourceSlice, "", "slice", Some(&on_node));
    let rules = vec![PolicyRule {
        verbs: vec!["get".to_owned(), "list".to_owned()],
        api_groups: vec![String::new()],
        resources: vec!["services".to_owned()],
        ..PolicyRule::default()
    }];
    NodeAuthorizer::new(Arc::new(graph), rules)
}

fn ask(authorizer: &NodeAuthorizer, node: &str, method: &str, path: &str) -> Decision {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let request = RequestInfo::parse(method, path, query).unwrap();
    let user = UserInfo::new(format!("system:node:{node}"), ["system:nodes"]);
    authorizer.decide(&user, &request)
}

#[test]
fn a_node_reads_what_its_pods_name() {
    let authorizer = authorizer();
    let secrets = ["pull", "env-s", "key-s", "debug-s", "vol-s", "proj-s", "csi-s"].map(|s| format!("secrets/{s}"));
    let maps = ["env-cm", "key-cm", "vol-cm", "proj-cm"].map(|c| format!("configmaps/{c}"));
    let others = [
        "persistentvolumeclaims/claim",
        "persistentvolumeclaims/p-e",
        "serviceaccounts/sa",
        "pods/p",
    ];
    for path in secrets.into_iter().chain(maps).chain(others.map(str::to_owned)) {
        let path = format!("/api/v1/namespaces/ns/{path}");
        assert_eq!(ask(&authorizer, "n", "GET", &path), YES, "{path}");
        let stranger = ask(&authorizer, "m", "GET", &path);
        assert_eq!(
            stranger,
            Decision::pass("no relationship found between node 'm' and this object"),
            "{path}"
        );
    }
    for (path, want) in [
        ("/api/v1/persistentvolumes/pv", true),
        ("/api/v1/namespaces/sys/secrets/stage-s", true),
        ("/api/v1/namespaces/sys/secrets/controller-s", false),
        ("/api/v1/namespaces/ns/secrets/mirror-s", false),
        ("/api/v1/namespaces/ns/serviceaccounts/mirror-sa", false),
        ("/api/v1/namespaces/ns/pods/mirror", true),
        ("/api/v1/namespaces/ns/secrets/waiting-s", false),
        ("/api/v1/namespaces/ns/pods/waiting", false),
        ("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/rc", true),
        ("/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/rc-y", true),
        ("/apis/storage.k8s.io/v1/volumeattachments/va", true),
        ("/apis/resource.k8s.io/v1/resourceslices/slice", true),
    ] {
        assert_eq!(ask(&authorizer, "n", "GET", path).is_allowed(), want, "{path}");
    }
}

#[test]
fn refusals_say_why() {
    let authorizer = authorizer();
    for (method, path, want) in [
        (
            "GET",
            "/api/v1/nodes/m",
            "node 'n' cannot read 'm', only its own Node object",
        ),
        (
            "GET",
            "/api/v1/nodes",
            "node 'n' cannot read all nodes, only its own Node object",
        ),
        ("DELETE", "/api/v1/nodes/n", ""),
        (
            "GET",
            "/api/v1/pods",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dm",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/ns/secrets/vol-s",
            "can only read resources of this type",
        ),
        ("GET", "/api/v1/namespaces/ns/secrets", "No Object name found"),
        ("GET", "/api/v1/secrets", "can only read namespaced object of this type"),
        (
            "PATCH",
            "/api/v1/namespaces/ns/persistentvolumeclaims/claim",
            "can only get individual resources of this type",
        ),
        (
            "GET",
            "/api/v1/namespaces/ns/persistentvolumeclaims/claim/status",
            "can only get/update/patch this type",
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/serviceaccounts",
            "can only create tokens for individual service accounts",
        ),
        (
            "POST",
            "/api/v1/namespaces/ns/serviceaccounts/sa/x",
            "can only create token subresource of serviceaccount",
        ),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/m",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
            r#"can only access leases in the "kube-node-lease" system namespace"#,
        ),
        (
            "GET",
            "/apis/storage.k8s.io/v1/csinodes/m",
            "can only access CSINode with the same name as the requesting node",
        ),
        (
            "GET",
            "/apis/resource.k8s.io/v1/resourceslices",
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("GET", "/apis/apps/v1/deployments", ""),
        ("GET", "/metrics", ""),
    ] {
        assert_eq!(
            ask(&authorizer, "n", method, path),
            Decision::pass(want),
            "{method} {path}"
        );
    }
}

#[test]
fn a_node_keeps_its_own_objects() {
    let authorizer = authorizer();
    for (method, path) in [
        ("GET", "/api/v1/nodes/n"),
        ("GET", "/api/v1/nodes?fieldSelector=metadata.name%3Dn"),
        ("POST", "/api/v1/nodes"),
        ("PATCH", "/api/v1/nodes/n/status"),
        ("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn"),
        ("GET", "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p/status"),
        ("POST", "/api/v1/namespaces/ns/pods/p/eviction"),
        ("POST", "/api/v1/namespaces/ns/serviceaccounts/sa/token"),
        (
            "PUT",
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
        ),
        ("PUT", "/apis/storage.k8s.io/v1/csinodes/n"),
        (
            "GET",
            "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Dn",
        ),
        ("GET", "/api/v1/services"),
    ] {
        assert_eq!(ask(&authorizer, "n", method, path), YES, "{method} {path}");
    }
}

#[test]
fn only_named_members_of_the_nodes_group_are_nodes() {
    let authorizer = authorizer();
    let request = RequestInfo::parse("GET", "/api/v1/nodes/n", "").unwrap();
    let decide = |name: &str, group: &str| authorizer.decide(&UserInfo::new(name, [group]), &request);
    assert_eq!(decide("system:node:n", "x"), Decision::PASS);
    assert_eq!(decide("n", "system:nodes"), Decision::PASS);
    assert_eq!(
        decide("system:node:", "system:nodes"),
        Decision::pass(r#"unknown node for user "system:node:""#)
    );
}

#[test]
fn relations_end_with_the_objects_that_make_them() {
    let authorizer = authorizer();
    let path = "/api/v1/namespaces/sys/secrets/stage-s";
    assert!(ask(&authorizer, "n", "GET", path).is_allowed());
    authorizer.graph.apply(GraphSource::Pod, "ns", "p", None);
    assert!(!ask(&authorizer, "n", "GET", path).is_allowed());
    authorizer.graph.clear(GraphSource::VolumeAttachment);
    assert!(!ask(&authorizer, "n", "GET", "/apis/storage.k8s.io/v1/volumeattachments/va").is_allowed());
    assert!(ask(&authorizer, "n", "GET", "/apis/resource.k8s.io/v1/resourceslices/slice").is_allowed());
}
