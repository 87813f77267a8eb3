//! The flow schemas and priority levels that every cluster has. Mandatory ones cannot be changed; suggested ones are kept
//! as they are here until an administrator takes them over.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use triptych_object::Value;

/// The priority level, and its schema, that is never limited.
pub const EXEMPT: &str = "exempt";
/// `true` while the server keeps an object's specification.
pub const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// An object of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Built<'a> {
    /// `flowschemas` or `prioritylevelconfigurations`.
    pub resource: &'static str,
    /// Its name.
    pub name: &'a str,
    /// Cannot be changed.
    pub mandatory: bool,
    /// The object, as it is created.
    pub object: &'a Value,
}

/// Every object, priority levels first.
pub fn objects() -> impl Iterator<Item = Built<'static>> {
    let built = |resource, objects: &'static BTreeMap<&'static str, Value>| {
        objects.iter().map(move |(name, object)| Built {
            resource,
            name,
            mandatory: MANDATORY.contains(name),
            object,
        })
    };
    built("prioritylevelconfigurations", &LEVEL_OBJECTS).chain(built("flowschemas", &SCHEMA_OBJECTS))
}

/// The fixed form of a flow schema that cannot be changed.
pub fn mandatory_schema(name: &str) -> Option<&'static Value> {
    MANDATORY.contains(&name).then(|| SCHEMA_OBJECTS.get(name)).flatten()
}

/// The fixed form of a priority level that cannot be changed, except for what `exempt` has of the capacity.
pub fn mandatory_level(name: &str) -> Option<&'static Value> {
    MANDATORY.contains(&name).then(|| LEVEL_OBJECTS.get(name)).flatten()
}

const MANDATORY: [&str; 2] = [EXEMPT, "catch-all"];

/// Name, shares of the capacity, per cent that can be lent, queues and the size of a hand; without queues what is too
/// much is refused.
type Level = (&'static str, i64, i64, Option<(i64, i64)>);

const LEVELS: [Level; 7] = [
    ("catch-all", 5, 0, None),
    ("global-default", 20, 50, Some((128, 6))),
    ("leader-election", 10, 0, Some((16, 4))),
    ("node-high", 40, 25, Some((64, 6))),
    ("system", 30, 33, Some((64, 6))),
    ("workload-high", 40, 50, Some((128, 6))),
    ("workload-low", 100, 90, Some((128, 6))),
];
const QUEUE_LENGTH: i64 = 50;

/// Who sends the requests of a flow.
enum Subject {
    Group(&'static str),
    User(&'static str),
    /// All service accounts of a namespace.
    AccountsOf(&'static str),
}
use Subject::{AccountsOf, Group, User};

/// What is requested.
enum Requests {
    Everything,
    /// Verbs, group, resources, and whether objects without a namespace are meant too.
    Resources(&'static [&'static str], &'static str, &'static [&'static str], bool),
    /// Reading of paths.
    Paths(&'static [&'static str]),
}
use Requests::{Everything, Paths, Resources};

struct Flow {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: Option<&'static str>,
    subjects: &'static [Subject],
    requests: &'static [Requests],
}

const ANYONE: &[Subject] = &[Group("system:unauthenticated"), Group("system:authenticated")];
const CONTROLLER_MANAGER: Subject = User("system:kube-controller-manager");
const SCHEDULER: Subject = User("system:kube-scheduler");
const BY_USER: Option<&str> = Some("ByUser");
const BY_NAMESPACE: Option<&str> = Some("ByNamespace");
const LEASES: (&str, &[&str]) = ("coordination.k8s.io", &["leases"]);

const fn flow(
    name: &'static str,
    (level, precedence): (&'static str, i64),
    distinguisher: Option<&'static str>,
    subjects: &'static [Subject],
    requests: &'static [Requests],
) -> Flow {
    Flow {
        name,
        level,
        precedence,
        distinguisher,
        subjects,
        requests,
    }
}

const FLOWS: [Flow; 11] = [
    flow(EXEMPT, (EXEMPT, 1), None, &[Group("system:masters")], &[Everything]),
    flow(
        "probes",
        (EXEMPT, 2),
        None,
        ANYONE,
        &[Paths(&["/healthz", "/readyz", "/livez"])],
    ),
    flow(
        "system-leader-election",
        ("leader-election", 100),
        BY_USER,
        &[CONTROLLER_MANAGER, SCHEDULER, AccountsOf("kube-system")],
        &[Resources(&["get", "create", "update"], LEASES.0, LEASES.1, false)],
    ),
    flow(
        "system-node-high",
        ("node-high", 400),
        BY_USER,
        &[Group("system:nodes")],
        &[
            Resources(&["*"], "", &["nodes", "nodes/status"], true),
            Resources(&["*"], LEASES.0, LEASES.1, false),
        ],
    ),
    flow(
        "system-nodes",
        ("system", 500),
        BY_USER,
        &[Group("system:nodes")],
        &[Everything],
    ),
    flow(
        "kube-controller-manager",
        ("workload-high", 800),
        BY_NAMESPACE,
        &[CONTROLLER_MANAGER],
        &[Everything],
    ),
    flow(
        "kube-scheduler",
        ("workload-high", 800),
        BY_NAMESPACE,
        &[SCHEDULER],
        &[Everything],
    ),
    flow(
        "kube-system-service-accounts",
        ("workload-high", 900),
        BY_NAMESPACE,
        &[AccountsOf("kube-system")],
        &[Everything],
    ),
    flow(
        "service-accounts",
        ("workload-low", 9000),
        BY_USER,
        &[Group("system:serviceaccounts")],
        &[Everything],
    ),
    flow(
        "global-default",
        ("global-default", 9900),
        BY_USER,
        ANYONE,
        &[Everything],
    ),
    flow("catch-all", ("catch-all", 10000), BY_USER, ANYONE, &[Everything]),
];

static LEVEL_OBJECTS: LazyLock<BTreeMap<&'static str, Value>> = LazyLock::new(|| {
    let mut levels: BTreeMap<_, _> = LEVELS
        .iter()
        .map(|(name, shares, lendable, queues)| (*name, level(name, *shares, *lendable, *queues)))
        .collect();
    let share = Value::from([
        ("nominalConcurrencyShares", Value::Int(0)),
        ("lendablePercent", Value::Int(0)),
    ]);
    let spec = Value::from([("type", "Exempt".into()), ("exempt", share)]);
    levels.insert(EXEMPT, object("PriorityLevelConfiguration", EXEMPT, spec));
    levels
});

static SCHEMA_OBJECTS: LazyLock<BTreeMap<&'static str, Value>> =
    LazyLock::new(|| FLOWS.iter().map(|flow| (flow.name, schema(flow))).collect());

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let annotations = Value::from([(AUTO_UPDATE, "true".into())]);
    Value::from([
        ("apiVersion", "flowcontrol.apiserver.k8s.io/v1".into()),
        ("kind", kind.into()),
        (
            "metadata",
            Value::from([("name", name.into()), ("annotations", annotations)]),
        ),
        ("spec", spec),
    ])
}

fn level(name: &str, shares: i64, lendable: i64, queues: Option<(i64, i64)>) -> Value {
    let response = match queues {
        None => Value::from([("type", "Reject".into())]),
        Some((queues, hand)) => {
            let queuing = Value::from([
                ("queues", Value::Int(queues)),
                ("handSize", Value::Int(hand)),
                ("queueLengthLimit", Value::Int(QUEUE_LENGTH)),
            ]);
            Value::from([("type", "Queue".into()), ("queuing", queuing)])
        }
    };
    let limited = Value::from([
        ("nominalConcurrencyShares", Value::Int(shares)),
        ("limitResponse", response),
        ("lendablePercent", Value::Int(lendable)),
    ]);
    let spec = Value::from([("type", "Limited".into()), ("limited", limited)]);
    object("PriorityLevelConfiguration", name, spec)
}

fn schema(flow: &Flow) -> Value {
    let named = |name: &str| Value::from([("name", name.into())]);
    let mut spec = Value::from([
        ("priorityLevelConfiguration", named(flow.level)),
        ("matchingPrecedence", Value::Int(flow.precedence)),
    ]);
    if let Some(method) = flow.distinguisher {
        spec.set_at(&["distinguisherMethod"], Value::from([("type", method.into())]));
    }
    let subjects: Vec<Value> = flow
        .subjects
        .iter()
        .map(|subject| match subject {
            Group(name) => Value::from([("kind", "Group".into()), ("group", named(name))]),
            User(name) => Value::from([("kind", "User".into()), ("user", named(name))]),
            AccountsOf(namespace) => {
                let accounts = Value::from([("namespace", (*namespace).into()), ("name", "*".into())]);
                Value::from([("kind", "ServiceAccount".into()), ("serviceAccount", accounts)])
            }
        })
        .collect();
    let (mut resources, mut others) = (Vec::new(), Vec::new());
    for requests in flow.requests {
        match requests {
            Everything => {
                resources.push(resource_rule(&["*"], "*", &["*"], true));
                others.push(path_rule(&["*"], &["*"]));
            }
            Resources(verbs, group, names, cluster) => resources.push(resource_rule(verbs, group, names, *cluster)),
            Paths(paths) => others.push(path_rule(&["get"], paths)),
        }
    }
    let mut rule = Value::from([("subjects", subjects.into())]);
    for (member, rules) in [("resourceRules", resources), ("nonResourceRules", others)] {
        if !rules.is_empty() {
            rule.set_at(&[member], rules.into());
        }
    }
    spec.set_at(&["rules"], vec![rule].into());
    object("FlowSchema", flow.name, spec)
}

fn resource_rule(verbs: &[&str], group: &str, resources: &[&str], cluster: bool) -> Value {
    let mut rule = Value::from([
        ("verbs", verbs.to_vec().into()),
        ("apiGroups", vec![group].into()),
        ("resources", resources.to_vec().into()),
    ]);
    if cluster {
        rule.set_at(&["clusterScope"], Value::Bool(true));
    }
    rule.set_at(&["namespaces"], vec!["*"].into());
    rule
}

fn path_rule(verbs: &[&str], paths: &[&str]) -> Value {
    Value::from([
        ("verbs", verbs.to_vec().into()),
        ("nonResourceURLs", paths.to_vec().into()),
    ])
}
