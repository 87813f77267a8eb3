//! What an object counts for in a quota: how much of which resources, and what scopes look at.
//!
//! Contract (k8s.io/kubernetes/pkg/quota/v1/evaluator/core): everything a quota could ask of an object is measured once,
//! so that the objects themselves need not be kept while quotas are checked.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use triptych_object::resource_name::{REQUESTS, is_extended};
use triptych_object::selector::{LabelSelector, Operator, Requirement};
use triptych_object::{Gvr, Quantity, Value, meta};
use triptych_registry::admission::{Attributes, Operation};

use super::classes::Classes;
use super::evaluator::Evaluator;
use crate::amounts::{self, Amounts};
use crate::pods;

/// Resources of pods that have to be named by every container once a quota limits them.
pub const MUST_BE_NAMED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];

const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";
/// What follows a device class in the name of the quota on its devices.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// As many devices as one claim can be given at most.
const MAX_DEVICES: i64 = 32;

/// What was measured of an object.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Amounts by the names that quotas use.
    pub usage: Amounts,
    /// What scopes look at.
    pub scopes: Scopes,
    /// Of pods that do not ask for resources as a whole: what each container names.
    pub containers: Vec<(String, BTreeSet<&'static str>)>,
}

/// What scopes look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scopes {
    /// No scope applies.
    #[default]
    None,
    /// Of a pod.
    Pod {
        /// It ends by itself.
        terminating: bool,
        /// It asks for nothing.
        best_effort: bool,
        /// Its priority class.
        priority_class: String,
        /// It looks at pods of other namespaces.
        cross_namespace: bool,
    },
    /// Of a claim: all volume attributes classes it refers to.
    Claim(BTreeSet<String>),
}

/// One scope of a quota: its name and what its values must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// `PriorityClass`, `BestEffort` …
    pub name: String,
    /// How values are compared.
    pub operator: Operator,
    /// Compared with.
    pub values: Vec<String>,
}

impl Scope {
    fn selects(&self, value: Option<&str>) -> bool {
        let selector = LabelSelector {
            requirements: vec![Requirement {
                key: self.name.clone(),
                operator: self.operator,
                values: self.values.clone(),
            }],
        };
        selector.matches(|_| value)
    }

    /// Whether what was measured is within the scope.
    pub fn holds(&self, scopes: &Scopes) -> bool {
        match scopes {
            Scopes::None => false,
            Scopes::Pod {
                terminating,
                best_effort,
                priority_class,
                cross_namespace,
            } => match self.name.as_str() {
                "Terminating" => *terminating,
                "NotTerminating" => !terminating,
                "BestEffort" => *best_effort,
                "NotBestEffort" => !best_effort,
                "PriorityClass" => self.selects(Some(priority_class.as_str()).filter(|name| !name.is_empty())),
                "CrossNamespacePodAffinity" => *cross_namespace,
                _ => false,
            },
            Scopes::Claim(classes) if self.name == "VolumeAttributesClass" => {
                if classes.is_empty() {
                    return self.selects(None);
                }
                classes.iter().any(|class| self.selects(Some(class)))
            }
            Scopes::Claim(_) => false,
        }
    }
}

fn count(number: usize) -> Quantity {
    Quantity::new(
        i64::try_from(number).unwrap_or(i64::MAX),
        triptych_object::quantity::Format::DecimalSi,
    )
}

/// `count/pods`, `count/deployments.apps`.
pub fn count_name(group: &str, resource: &str) -> String {
    match group {
        "" => format!("count/{resource}"),
        group => format!("count/{resource}.{group}"),
    }
}

/// Names under which objects are merely counted.
pub fn counted_as(resource: &Gvr) -> Vec<String> {
    let mut names = vec![count_name(&resource.group, &resource.resource)];
    let plural = resource.resource.as_str();
    if resource.group.is_empty()
        && ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"].contains(&plural)
    {
        names.push(plural.to_owned());
    }
    names
}

/// Measures an object.
pub fn measure(evaluator: Evaluator, resource: &Gvr, object: &Value, classes: &Classes, now: Timestamp) -> Measured {
    match evaluator {
        Evaluator::Pods => pod(object, now),
        Evaluator::Services => Measured {
            usage: service(object),
            ..Measured::default()
        },
        Evaluator::Claims => Measured {
            usage: claim(object),
            scopes: Scopes::Claim(attributes_classes(object)),
            ..Measured::default()
        },
        Evaluator::ResourceClaims => Measured {
            usage: resource_claim(object, classes),
            ..Measured::default()
        },
        Evaluator::Count => Measured {
            usage: counted_as(resource).into_iter().map(|name| (name, count(1))).collect(),
            ..Measured::default()
        },
    }
}

/// Whether an update of a pod moves it between the scopes Terminating and NotTerminating.
pub fn changes_scope(attributes: &Attributes<'_>, new: &Value, old: &Value) -> bool {
    attributes.operation == Operation::Update && terminating(new) != terminating(old)
}

fn terminating(pod: &Value) -> bool {
    let deadline = pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_i64);
    deadline.is_some_and(|seconds| seconds >= 0)
}

fn pod(pod: &Value, now: Timestamp) -> Measured {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut usage = Amounts::from([("count/pods".to_owned(), count(1))]);
    if runs(pod, now) {
        amounts::add(&mut usage, &computed(&pod_requests(pod, spec), &pod_limits(pod, spec)));
    }
    let containers = if asks_as_a_whole(spec) {
        Vec::new()
    } else {
        let lists = ["containers", "initContainers"]
            .iter()
            .flat_map(|list| spec.array_at(&[list]));
        lists.map(named).collect()
    };
    Measured {
        usage,
        scopes: Scopes::Pod {
            terminating: terminating(pod),
            best_effort: best_effort(pod, spec),
            priority_class: spec.str_at(&["priorityClassName"]).to_owned(),
            cross_namespace: crosses_namespaces(spec),
        },
        containers,
    }
}

/// A container's name and which resources it names.
fn named(container: &Value) -> (String, BTreeSet<&'static str>) {
    let requests = amounts::of_container(container, "requests");
    let limits = amounts::of_container(container, "limits");
    let all = computed(&requests, &limits);
    let named = MUST_BE_NAMED.into_iter().filter(|name| all.contains_key(*name));
    (container.str_at(&["name"]).to_owned(), named.collect())
}

/// True unless a pod has ended or should have been gone by now.
fn runs(pod: &Value, now: Timestamp) -> bool {
    if matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") {
        return false;
    }
    let (Some(deleted), Some(grace)) = (meta::deletion_timestamp(pod), meta::deletion_grace_period(pod)) else {
        return true;
    };
    let gone = deleted
        .parse::<Timestamp>()
        .ok()
        .and_then(|at| at.checked_add(SignedDuration::from_secs(grace)).ok());
    gone.is_none_or(|gone| now <= gone)
}

/// What quotas call what a pod requests and is limited to.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut all = Amounts::from([("pods".to_owned(), count(1))]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with(HUGE_PAGES) {
            all.insert(name.clone(), amount.clone());
            all.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
        if is_extended(name) || name.starts_with(DEVICE_CLASS) {
            all.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            all.insert(format!("limits.{name}"), amount.clone());
        }
    }
    all
}

fn of_the_whole(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with(HUGE_PAGES)
}

fn asks_as_a_whole(spec: &Value) -> bool {
    let asks = |member| {
        amounts::of_container(spec, member)
            .keys()
            .any(|name| of_the_whole(name))
    };
    asks("requests") || asks("limits")
}

/// What a container is known to have, by the pod's status (KEP-1287).
struct Actual<'a> {
    statuses: BTreeMap<&'a str, &'a Value>,
    infeasible: bool,
}

impl<'a> Actual<'a> {
    fn of(pod: &'a Value) -> Actual<'a> {
        // of init containers, those that go on running
        let init = pod.array_at(&["spec", "initContainers"]).iter();
        let sidecars = init.filter(|container| container.str_at(&["restartPolicy"]) == "Always");
        let resized = pod.array_at(&["spec", "containers"]).iter().chain(sidecars);
        let resized: BTreeSet<&str> = resized.map(|container| container.str_at(&["name"])).collect();
        let lists = ["containerStatuses", "initContainerStatuses"].iter();
        let statuses = lists.flat_map(|list| pod.array_at(&["status", list]));
        let conditions = pod.array_at(&["status", "conditions"]).iter();
        let mut resizes = conditions.filter(|c| c.str_at(&["type"]) == "PodResizePending");
        Actual {
            statuses: statuses
                .filter(|status| status.get("resources").is_some_and(|r| !r.is_null()))
                .map(|status| (status.str_at(&["name"]), status))
                .filter(|(name, _)| resized.contains(name))
                .collect(),
            infeasible: resizes.next().is_some_and(|c| c.str_at(&["reason"]) == "Infeasible"),
        }
    }

    /// What counts for a container: the most of what it asks for, what it was given and what it has.
    fn of_container(&self, container: &Value, member: &str) -> Amounts {
        let asked = amounts::of_container(container, member);
        let Some(status) = self.statuses.get(container.str_at(&["name"])) else {
            return asked;
        };
        let mut most = amounts::amounts(status.at(&["resources", member]));
        if member == "requests" {
            amounts::raise(&mut most, &amounts::amounts(status.get("allocatedResources")));
        }
        if !self.infeasible {
            amounts::raise(&mut most, &asked);
        }
        most
    }
}

fn pod_requests(pod: &Value, spec: &Value) -> Amounts {
    let actual = Actual::of(pod);
    let mut sum = amounts::sum(spec, |container| actual.of_container(container, "requests"));
    let whole = amounts::of_container(spec, "requests");
    sum.extend(whole.into_iter().filter(|(name, _)| of_the_whole(name)));
    amounts::add(&mut sum, &amounts::amounts(spec.get("overhead")));
    sum
}

fn pod_limits(pod: &Value, spec: &Value) -> Amounts {
    let actual = Actual::of(pod);
    let mut sum = amounts::sum(spec, |container| actual.of_container(container, "limits"));
    let whole = amounts::of_container(spec, "limits");
    sum.extend(whole.into_iter().filter(|(name, _)| of_the_whole(name)));
    for (name, overhead) in amounts::amounts(spec.get("overhead")) {
        if let Some(limit) = sum.get_mut(&name).filter(|limit| !limit.is_zero()) {
            limit.add(&overhead);
        }
    }
    sum
}

fn best_effort(pod: &Value, spec: &Value) -> bool {
    match pod.str_at(&["status", "qosClass"]) {
        "" => {}
        class => return class == "BestEffort",
    }
    let asks = |holder: &Value| {
        ["requests", "limits"].iter().any(|member| {
            let amounts = amounts::of_container(holder, member);
            ["cpu", "memory"]
                .iter()
                .any(|name| amounts.get(*name).is_some_and(|amount| amount.sign() > 0))
        })
    };
    if spec.get("resources").is_some() {
        return !asks(spec);
    }
    let mut containers = pods::containers(spec, "containers")
        .iter()
        .chain(pods::containers(spec, "initContainers"));
    !containers.any(asks)
}

fn crosses_namespaces(spec: &Value) -> bool {
    let crosses = |term: &Value| !term.array_at(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let Some(affinity) = spec.at(&["affinity", kind]) else {
            return false;
        };
        let required = affinity.array_at(&["requiredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = affinity.array_at(&["preferredDuringSchedulingIgnoredDuringExecution"]);
        let preferred = preferred.iter().filter_map(|weighted| weighted.get("podAffinityTerm"));
        required.iter().chain(preferred).any(crosses)
    })
}

fn service(service: &Value) -> Amounts {
    let ports = service.array_at(&["spec", "ports"]);
    let kind = service.str_at(&["spec", "type"]);
    let balanced = kind == "LoadBalancer";
    let none_allocated = service.at(&["spec", "allocateLoadBalancerNodePorts"]) == Some(&Value::Bool(false));
    let node_ports = match kind {
        "LoadBalancer" if none_allocated => {
            let given = |port: &&Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0;
            ports.iter().filter(given).count()
        }
        "NodePort" | "LoadBalancer" => ports.len(),
        _ => 0,
    };
    Amounts::from([
        ("count/services".to_owned(), count(1)),
        ("services".to_owned(), count(1)),
        ("services.loadbalancers".to_owned(), count(usize::from(balanced))),
        ("services.nodeports".to_owned(), count(node_ports)),
    ])
}

fn attributes_classes(claim: &Value) -> BTreeSet<String> {
    const PATHS: [&[&str]; 3] = [
        &["spec", "volumeAttributesClassName"],
        &["status", "currentVolumeAttributesClassName"],
        &["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"],
    ];
    let names = PATHS.iter().map(|path| claim.str_at(path).to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

/// Whether a claim's new status counts for something else in quotas.
pub fn claim_status_counts(new: &Value, old: &Value) -> bool {
    const ALLOCATED: [&str; 3] = ["status", "allocatedResources", "storage"];
    new.at(&ALLOCATED) != old.at(&ALLOCATED) || attributes_classes(new) != attributes_classes(old)
}

fn claim(claim: &Value) -> Amounts {
    const SUFFIX: &str = ".storageclass.storage.k8s.io/";
    let mut usage = Amounts::from([
        ("persistentvolumeclaims".to_owned(), count(1)),
        ("count/persistentvolumeclaims".to_owned(), count(1)),
    ]);
    let class = match meta::annotation(claim, "volume.beta.kubernetes.io/storage-class") {
        Some(class) => class,
        None => claim.str_at(&["spec", "storageClassName"]),
    };
    if !class.is_empty() {
        usage.insert(format!("{class}{SUFFIX}persistentvolumeclaims"), count(1));
    }
    let whole = |text: &str| -> Option<Quantity> {
        let mut amount: Quantity = text.parse().ok()?;
        amount.round_up(0);
        Some(amount)
    };
    let asked = whole(claim.str_at(&["spec", "resources", "requests", "storage"]));
    let allocated = whole(claim.str_at(&["status", "allocatedResources", "storage"]));
    if let Some(asked) = asked {
        let storage = allocated.filter(|allocated| *allocated > asked).unwrap_or(asked);
        if !class.is_empty() {
            usage.insert(format!("{class}{SUFFIX}requests.storage"), storage.clone());
        }
        usage.insert("requests.storage".to_owned(), storage);
    }
    usage
}

/// How many devices of a class a request (or one of its alternatives) may be given.
fn devices(request: &Value) -> Option<(String, i64)> {
    let class = request.str_at(&["deviceClassName"]);
    let number = match request.str_at(&["allocationMode"]) {
        "ExactCount" => request.get("count").and_then(Value::as_i64).unwrap_or(0),
        "All" => MAX_DEVICES,
        _ => 0,
    };
    (!class.is_empty()).then(|| (format!("{class}{DEVICES}"), number))
}

fn resource_claim(claim: &Value, classes: &Classes) -> Amounts {
    let mut numbers: BTreeMap<String, i64> = BTreeMap::new();
    for request in claim.array_at(&["spec", "devices", "requests"]) {
        let mut most: BTreeMap<String, i64> = BTreeMap::new();
        let alternatives = request.array_at(&["firstAvailable"]);
        // before v1beta2 a request's members stand in the request itself
        let exactly = std::slice::from_ref(request.get("exactly").unwrap_or(request));
        let asked = if alternatives.is_empty() { exactly } else { alternatives };
        for (name, number) in asked.iter().filter_map(devices) {
            let known = most.entry(name).or_default();
            *known = number.max(*known);
        }
        for (name, number) in most {
            let sum = numbers.entry(name).or_default();
            *sum = sum.saturating_add(number);
        }
    }
    let mut more = Vec::new();
    for (name, number) in &numbers {
        let Some(class) = name.strip_suffix(DEVICES) else {
            continue;
        };
        more.push((format!("{REQUESTS}{DEVICE_CLASS}{class}"), *number));
        if let Some(extended) = classes.extended_resource(class) {
            more.push((format!("{REQUESTS}{extended}"), *number));
        }
    }
    numbers.extend(more);
    let whole = |number: i64| Quantity::new(number, triptych_object::quantity::Format::DecimalSi);
    let mut usage: Amounts = numbers
        .into_iter()
        .map(|(name, number)| (name, whole(number)))
        .collect();
    usage.insert(count_name("resource.k8s.io", "resourceclaims"), count(1));
    usage
}
