//! How a struct of kube-apiserver's internal types shows as the bad value of an error: Go's JSON of a struct without
//! tags, every field written under its Go name, unset pointers, lists and maps as `null`. Types of
//! k8s.io/apimachinery (LabelSelector, ObjectMeta …) have tags and show as in a document.

use triptych_object::Value;
use triptych_object::value::Object;
use triptych_schema::types::{Field, Schema, Shape, TypeId};

use super::cursor::Step;

/// `value`, found at `path` below `root`, as Go shows it; as it stands in the document if its type is not known.
pub fn show(value: Option<&Value>, root: &Value, path: &[Step<'_>]) -> Value {
    let plain = || value.cloned().unwrap_or(Value::Null);
    let Some(schema) = crate::schema::types() else {
        return plain();
    };
    let start = crate::schema::kind_type(root.str_at(&["apiVersion"]), root.str_at(&["kind"]));
    match start.and_then(|start| type_at(schema, start, path)) {
        Some((_, true)) if value.is_none_or(Value::is_null) => Value::Null,
        Some((ty, _)) => of_type(schema, ty, value),
        None => plain(),
    }
}

/// The type at a path, and whether it is pointed to there.
fn type_at(schema: &Schema, start: TypeId, path: &[Step<'_>]) -> Option<(TypeId, bool)> {
    path.iter()
        .try_fold((start, false), |(ty, _), step| match (&schema.get(ty).shape, step) {
            (Shape::Struct(s), Step::Field(name)) => s.field(name).map(|f| (f.ty, f.pointer)),
            (Shape::List(l), Step::Index(_)) => Some((l.item, false)),
            (Shape::Map(m), Step::Key(_)) => Some((m.value, false)),
            _ => None,
        })
}

/// A value of a type of `v1` as Go shows it; as it stands if there is no such type.
pub fn of_core_type(name: &str, value: &Value) -> Value {
    let schema = crate::schema::types();
    match schema.and_then(|s| Some((s, s.named(&format!("io.k8s.api.core.v1.{name}"))?))) {
        Some((schema, ty)) => of_type(schema, ty, Some(value)),
        None => value.clone(),
    }
}

/// A value of a known type as Go shows it.
pub fn of_type(schema: &Schema, ty: TypeId, value: Option<&Value>) -> Value {
    let node = schema.get(ty);
    let tagged = node
        .name
        .as_deref()
        .is_some_and(|n| n.starts_with("io.k8s.apimachinery."));
    let value = value.filter(|v| !v.is_null());
    if tagged {
        return value.cloned().unwrap_or_else(|| zero(&node.shape));
    }
    match &node.shape {
        Shape::Struct(s) => {
            let value = value.unwrap_or(&Value::Null);
            let mut out = Object::with_capacity(s.fields.len());
            let name = node.name.as_deref().unwrap_or("");
            match ORDERS.iter().find(|(ty, _)| name.ends_with(ty)) {
                Some((_, order)) => {
                    let fields = order.iter().filter_map(|name| s.field(name));
                    fields.for_each(|field| struct_field(schema, field, value.get(&field.name), &mut out));
                }
                None => {
                    let fields = s.fields.iter();
                    fields.for_each(|field| struct_field(schema, field, value.get(&field.name), &mut out));
                }
            }
            for (ty, member, zero) in VALUES {
                if name.ends_with(ty) && out.get(member).is_some_and(Value::is_null) {
                    out.insert(member, Value::Int(zero));
                }
            }
            if name.ends_with(".v1.PodSpec") {
                host_namespaces(value, &mut out);
            }
            Value::Object(out)
        }
        Shape::List(l) => match value.and_then(Value::as_array) {
            Some(items) => Value::Array(items.iter().map(|i| of_type(schema, l.item, Some(i))).collect()),
            None => Value::Null,
        },
        Shape::Map(m) => match value.and_then(Value::as_object) {
            Some(map) => {
                let mut out: Object = map
                    .iter()
                    .map(|(k, v)| (k.to_owned(), of_type(schema, m.value, Some(v))))
                    .collect();
                out.sort();
                Value::Object(out)
            }
            None => Value::Null,
        },
        shape => value.cloned().unwrap_or_else(|| zero(shape)),
    }
}

/// Types whose internal form has its fields in another order than v1, or not all of them.
const ORDERS: [(&str, &[&str]); 9] = [
    (
        "core.v1.PodSpec",
        &[
            "volumes",
            "initContainers",
            "containers",
            "ephemeralContainers",
            "restartPolicy",
            "terminationGracePeriodSeconds",
            "activeDeadlineSeconds",
            "dnsPolicy",
            "nodeSelector",
            "serviceAccountName",
            "automountServiceAccountToken",
            "nodeName",
            "securityContext",
            "imagePullSecrets",
            "hostname",
            "subdomain",
            "setHostnameAsFQDN",
            "affinity",
            "schedulerName",
            "tolerations",
            "hostAliases",
            "priorityClassName",
            "priority",
            "preemptionPolicy",
            "dnsConfig",
            "readinessGates",
            "runtimeClassName",
            "overhead",
            "enableServiceLinks",
            "topologySpreadConstraints",
            "os",
            "schedulingGates",
            "resourceClaims",
            "resources",
            "hostnameOverride",
            "schedulingGroup",
        ],
    ),
    (
        "core.v1.PodSecurityContext",
        &[
            "seLinuxOptions",
            "windowsOptions",
            "runAsUser",
            "runAsGroup",
            "runAsNonRoot",
            "supplementalGroups",
            "supplementalGroupsPolicy",
            "fsGroup",
            "fsGroupChangePolicy",
            "sysctls",
            "seccompProfile",
            "appArmorProfile",
            "seLinuxChangePolicy",
        ],
    ),
    (
        "core.v1.Volume",
        &[
            "name",
            "hostPath",
            "emptyDir",
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "gitRepo",
            "secret",
            "nfs",
            "iscsi",
            "glusterfs",
            "persistentVolumeClaim",
            "rbd",
            "quobyte",
            "flexVolume",
            "cinder",
            "cephfs",
            "flocker",
            "downwardAPI",
            "fc",
            "azureFile",
            "configMap",
            "vsphereVolume",
            "azureDisk",
            "photonPersistentDisk",
            "projected",
            "portworxVolume",
            "scaleIO",
            "storageos",
            "csi",
            "ephemeral",
            "image",
        ],
    ),
    (
        "core.v1.PersistentVolumeSource",
        &[
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "hostPath",
            "glusterfs",
            "nfs",
            "rbd",
            "quobyte",
            "iscsi",
            "flexVolume",
            "cinder",
            "cephfs",
            "fc",
            "flocker",
            "azureFile",
            "vsphereVolume",
            "azureDisk",
            "photonPersistentDisk",
            "portworxVolume",
            "scaleIO",
            "local",
            "storageos",
            "csi",
        ],
    ),
    (
        "batch.v1.JobStatus",
        &[
            "conditions",
            "startTime",
            "completionTime",
            "active",
            "terminating",
            "ready",
            "succeeded",
            "failed",
            "completedIndexes",
            "failedIndexes",
            "uncountedTerminatedPods",
        ],
    ),
    (
        "autoscaling.v2.ContainerResourceMetricSource",
        &["name", "container", "target"],
    ),
    (
        "autoscaling.v2.ContainerResourceMetricStatus",
        &["name", "container", "current"],
    ),
    (
        "storage.v1.CSIDriverSpec",
        &[
            "attachRequired",
            "fsGroupPolicy",
            "podInfoOnMount",
            "volumeLifecycleModes",
            "storageCapacity",
            "tokenRequests",
            "requiresRepublish",
            "seLinuxMount",
            "nodeAllocatableUpdatePeriodSeconds",
            "serviceAccountTokenInSecrets",
            "preventPodSchedulingIfMissing",
        ],
    ),
    (
        "batch.v1.JobSpec",
        &[
            "parallelism",
            "completions",
            "podFailurePolicy",
            "successPolicy",
            "activeDeadlineSeconds",
            "backoffLimit",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
            "selector",
            "manualSelector",
            "template",
            "ttlSecondsAfterFinished",
            "completionMode",
            "suspend",
            "podReplacementPolicy",
            "managedBy",
        ],
    ),
];

/// Pointers of v1 that are values internally: type, Go name, zero.
const VALUES: [(&str, &str, i64); 5] = [
    ("apps.v1.RollingUpdateDeployment", "MaxUnavailable", 0),
    ("apps.v1.RollingUpdateDeployment", "MaxSurge", 0),
    ("apps.v1.RollingUpdateDaemonSet", "MaxUnavailable", 0),
    ("apps.v1.RollingUpdateDaemonSet", "MaxSurge", 0),
    ("apps.v1.RollingUpdateStatefulSetStrategy", "Partition", 0),
];

/// Internally, a pod's use of the host's namespaces is part of its security context.
fn host_namespaces(spec: &Value, out: &mut Object) {
    let Some(Value::Object(context)) = out.get_mut("SecurityContext") else {
        return;
    };
    let flag = |name: &str| Value::Bool(spec.get(name).and_then(Value::as_bool) == Some(true));
    let pointer = |name: &str| spec.get(name).cloned().unwrap_or(Value::Null);
    let mut whole: Object = [
        ("HostNetwork", flag("hostNetwork")),
        ("HostPID", flag("hostPID")),
        ("HostIPC", flag("hostIPC")),
        ("ShareProcessNamespace", pointer("shareProcessNamespace")),
        ("HostUsers", pointer("hostUsers")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    for (name, value) in std::mem::take(context) {
        whole.insert(name, value);
    }
    *context = whole;
}

fn struct_field(schema: &Schema, field: &Field, value: Option<&Value>, out: &mut Object) {
    // embedded metadata has no name of its own: its members stand among the others
    if field.name == "metadata" {
        if let Some(members) = value.and_then(Value::as_object) {
            for (name, member) in members.iter() {
                out.insert(name, member.clone());
            }
        }
        return;
    }
    let shown = match value.filter(|v| !v.is_null()) {
        None if field.pointer => Value::Null,
        value => of_type(schema, field.ty, value),
    };
    out.insert(go_name(&field.name), shown);
}

fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::Bool => Value::Bool(false),
        Shape::Int { .. } | Shape::Float { .. } | Shape::IntOrString => Value::Int(0),
        Shape::String => "".into(),
        Shape::Quantity | Shape::Duration => "0".into(),
        Shape::Struct(_) => Value::object(),
        _ => Value::Null,
    }
}

/// The Go name of a field: its first letter, or the abbreviation it begins with, in capitals.
pub fn go_name(json: &str) -> String {
    const ABBREVIATIONS: [&str; 28] = [
        "aws", "api", "cel", "csi", "dns", "fc", "fs", "gce", "gid", "gmsa", "grpc", "http", "id", "io", "ip", "iscsi",
        "nfs", "os", "pod", "qos", "rbd", "se", "sctp", "tcp", "tls", "tty", "uid", "url",
    ];
    match json {
        "cephfs" => return "CephFS".into(),
        "storageos" => return "StorageOS".into(),
        "iqn" => return "IQN".into(),
        "pdName" => return "PDName".into(),
        "chapAuthDiscovery" => return "DiscoveryCHAPAuth".into(),
        "chapAuthSession" => return "SessionCHAPAuth".into(),
        "wwids" => return "WWIDs".into(),
        "diskURI" => return "DataDiskURI".into(),
        "sslEnabled" => return "SSLEnabled".into(),
        "lastState" => return "LastTerminationState".into(),
        "ttlSecondsAfterFinished" => return "TTLSecondsAfterFinished".into(),
        "glusterfs" => return "Glusterfs".into(),
        "downwardAPI" => return "DownwardAPI".into(),
        "hostIPC" => return "HostIPC".into(),
        "seLinuxOptions" => return "SELinuxOptions".into(),
        "seLinuxChangePolicy" => return "SELinuxChangePolicy".into(),
        "gmsaCredentialSpecName" => return "GMSACredentialSpecName".into(),
        "gmsaCredentialSpec" => return "GMSACredentialSpec".into(),
        "stdinOnce" => return "StdinOnce".into(),
        "iscsiInterface" => return "ISCSIInterface".into(),
        "targetWWNs" => return "TargetWWNs".into(),
        _ => {}
    }
    let word_end = json.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(json.len());
    let (word, rest) = json.split_at(word_end);
    if word != "pod" && word != "se" && ABBREVIATIONS.contains(&word) {
        return format!("{}{rest}", word.to_ascii_uppercase());
    }
    let mut chars = json.chars();
    match chars.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + chars.as_str(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    #[test]
    fn go_names_capitalise_abbreviations() {
        let names = [
            "apiGroup",
            "fsType",
            "hostIP",
            "podIP",
            "uid",
            "tcpSocket",
            "seccompProfile",
            "ip",
        ];
        let go: Vec<String> = names.iter().map(|n| go_name(n)).collect();
        assert_eq!(
            go,
            [
                "APIGroup",
                "FSType",
                "HostIP",
                "PodIP",
                "UID",
                "TCPSocket",
                "SeccompProfile",
                "IP"
            ]
        );
    }

    #[test]
    fn a_struct_shows_every_field() {
        let schema = crate::schema::types().unwrap();
        let ty = schema.named("io.k8s.api.core.v1.PodResourceClaim").unwrap();
        let value = json::from_slice(br#"{"name":"x"}"#).unwrap();
        assert_eq!(
            json::to_string(&of_type(schema, ty, Some(&value))),
            r#"{"Name":"x","ResourceClaimName":null,"ResourceClaimTemplateName":null}"#
        );
        let ty = schema.named("io.k8s.api.core.v1.Toleration").unwrap();
        let value = json::from_slice(br#"{"key":"k","operator":"Exists"}"#).unwrap();
        assert_eq!(
            json::to_string(&of_type(schema, ty, Some(&value))),
            r#"{"Key":"k","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#
        );
    }
}
