//! The flow schemas and priority levels that every cluster begins with (`apiserver/pkg/apis/flowcontrol/bootstrap`).
//!
//! Contract: an object whose annotation `apf.kubernetes.io/autoupdate-spec` is `true` follows this table; any other is
//! its owner's, except that `catch-all` and the schemas that all requests end in must stay what they are.

use triptych_object::{StatusResult, Value, meta, time};

use super::create_missing;
use crate::loopback::{Loopback, Target};

const GROUP_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";
const PRODUCER: &str = "api-priority-and-fairness-config-producer-v1";
const CONSUMER: &str = "api-priority-and-fairness-config-consumer-v1";

const fn target(resource: &'static str) -> Target<'static> {
    Target {
        group: "flowcontrol.apiserver.k8s.io",
        version: "v1",
        resource,
        namespace: "",
    }
}

/// What becomes of requests that must wait.
#[derive(Clone, Copy)]
enum Level {
    /// They never wait.
    Exempt,
    /// Shares, percentage lent to others.
    Rejecting(i64, i64),
    /// Shares, percentage lent to others, queues, hand size; 50 in each queue.
    Queuing(i64, i64, i64, i64),
}

const LEVELS: [(&str, Level); 8] = [
    ("exempt", Level::Exempt),
    ("catch-all", Level::Rejecting(5, 0)),
    ("system", Level::Queuing(30, 33, 64, 6)),
    ("node-high", Level::Queuing(40, 25, 64, 6)),
    ("leader-election", Level::Queuing(10, 0, 16, 4)),
    ("workload-high", Level::Queuing(40, 50, 128, 6)),
    ("workload-low", Level::Queuing(100, 90, 128, 6)),
    ("global-default", Level::Queuing(20, 50, 128, 6)),
];

impl Level {
    fn spec(self) -> Value {
        let (shares, lendable, response) = match self {
            Level::Exempt => {
                let exempt = Value::from([
                    ("nominalConcurrencyShares", Value::Int(0)),
                    ("lendablePercent", Value::Int(0)),
                ]);
                return Value::from([("type", "Exempt".into()), ("exempt", exempt)]);
            }
            Level::Rejecting(shares, lendable) => (shares, lendable, Value::from([("type", "Reject".into())])),
            Level::Queuing(shares, lendable, queues, hand) => {
                let queuing = Value::from([
                    ("queues", Value::Int(queues)),
                    ("handSize", Value::Int(hand)),
                    ("queueLengthLimit", Value::Int(50)),
                ]);
                let response = Value::from([("type", "Queue".into()), ("queuing", queuing)]);
                (shares, lendable, response)
            }
        };
        let limited = Value::from([
            ("nominalConcurrencyShares", Value::Int(shares)),
            ("limitResponse", response),
            ("lendablePercent", Value::Int(lendable)),
        ]);
        Value::from([("type", "Limited".into()), ("limited", limited)])
    }
}

/// Whose requests.
#[derive(Clone, Copy)]
enum Who {
    Group(&'static str),
    User(&'static str),
    /// All accounts of a namespace.
    Accounts(&'static str),
}

impl Who {
    fn subject(self) -> Value {
        let named = |name: &str| Value::from([("name", name.into())]);
        match self {
            Who::Group(name) => Value::from([("kind", "Group".into()), ("group", named(name))]),
            Who::User(name) => Value::from([("kind", "User".into()), ("user", named(name))]),
            Who::Accounts(namespace) => {
                let accounts = Value::from([("namespace", namespace.into()), ("name", "*".into())]);
                Value::from([("kind", "ServiceAccount".into()), ("serviceAccount", accounts)])
            }
        }
    }
}

/// Which requests.
#[derive(Clone, Copy)]
enum What {
    All,
    /// Health checks.
    Probes,
    /// Getting, creating and updating leases.
    LeaderElection,
    /// Anything on nodes and leases.
    Nodes,
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster_too: bool) -> Value {
    let mut rule = Value::from([
        ("verbs", verbs.to_vec().into()),
        ("apiGroups", vec![group].into()),
        ("resources", resources.to_vec().into()),
    ]);
    if cluster_too {
        rule.set_at(&["clusterScope"], true.into());
    }
    rule.set_at(&["namespaces"], vec!["*"].into());
    rule
}

fn paths(verb: &str, paths: &[&str]) -> Value {
    Value::from([("verbs", vec![verb].into()), ("nonResourceURLs", paths.to_vec().into())])
}

impl What {
    fn rules(self) -> (Vec<Value>, Vec<Value>) {
        match self {
            What::All => (vec![resources(&["*"], "*", &["*"], true)], vec![paths("*", &["*"])]),
            What::Probes => (Vec::new(), vec![paths("get", &["/healthz", "/readyz", "/livez"])]),
            What::LeaderElection => {
                let verbs = ["get", "create", "update"];
                (
                    vec![resources(&verbs, "coordination.k8s.io", &["leases"], false)],
                    Vec::new(),
                )
            }
            What::Nodes => {
                let nodes = resources(&["*"], "", &["nodes", "nodes/status"], true);
                (
                    vec![nodes, resources(&["*"], "coordination.k8s.io", &["leases"], false)],
                    Vec::new(),
                )
            }
        }
    }
}

struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: &'static str,
    who: &'static [Who],
    what: What,
}

const ANYBODY: &[Who] = &[Who::Group("system:unauthenticated"), Who::Group("system:authenticated")];
const MANAGER: Who = Who::User("system:kube-controller-manager");
const SCHEDULER: Who = Who::User("system:kube-scheduler");
const SYSTEM: Who = Who::Accounts("kube-system");

const fn schema(
    name: &'static str,
    level: &'static str,
    precedence: i64,
    distinguisher: &'static str,
    who: &'static [Who],
    what: What,
) -> Schema {
    Schema {
        name,
        level,
        precedence,
        distinguisher,
        who,
        what,
    }
}

#[rustfmt::skip]
const SCHEMAS: [Schema; 11] = [
    schema("exempt", "exempt", 1, "", &[Who::Group("system:masters")], What::All),
    schema("catch-all", "catch-all", 10000, "ByUser", ANYBODY, What::All),
    schema("system-nodes", "system", 500, "ByUser", &[Who::Group("system:nodes")], What::All),
    schema("system-node-high", "node-high", 400, "ByUser", &[Who::Group("system:nodes")], What::Nodes),
    schema("probes", "exempt", 2, "", ANYBODY, What::Probes),
    schema("system-leader-election", "leader-election", 100, "ByUser", &[MANAGER, SCHEDULER, SYSTEM], What::LeaderElection),
    schema("kube-controller-manager", "workload-high", 800, "ByNamespace", &[MANAGER], What::All),
    schema("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], What::All),
    schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", &[SYSTEM], What::All),
    schema("service-accounts", "workload-low", 9000, "ByUser", &[Who::Group("system:serviceaccounts")], What::All),
    schema("global-default", "global-default", 9900, "ByUser", ANYBODY, What::All),
];

impl Schema {
    fn spec(&self) -> Value {
        let mut spec = Value::from([
            ("priorityLevelConfiguration", Value::from([("name", self.level.into())])),
            ("matchingPrecedence", Value::Int(self.precedence)),
        ]);
        if !self.distinguisher.is_empty() {
            let method = Value::from([("type", self.distinguisher.into())]);
            spec.set_at(&["distinguisherMethod"], method);
        }
        let subjects: Vec<Value> = self.who.iter().map(|w| w.subject()).collect();
        let mut rule = Value::from([("subjects", subjects.into())]);
        let (resources, paths) = self.what.rules();
        for (member, rules) in [("resourceRules", resources), ("nonResourceRules", paths)] {
            if !rules.is_empty() {
                rule.set_at(&[member], rules.into());
            }
        }
        spec.set_at(&["rules"], vec![rule].into());
        spec
    }
}

fn object(kind: &str, name: &str, member: &str, value: Value) -> Value {
    Value::from([
        ("kind", kind.into()),
        ("apiVersion", GROUP_VERSION.into()),
        ("metadata", Value::from([("name", name.into())])),
        (member, value),
    ])
}

/// Makes what is missing and brings up to date what follows this table.
pub async fn ensure(objects: &Loopback) -> StatusResult<()> {
    let levels = target("prioritylevelconfigurations");
    for (name, level) in LEVELS {
        follow(
            objects,
            levels,
            object("PriorityLevelConfiguration", name, "spec", level.spec()),
            name == "catch-all",
        )
        .await?;
    }
    for schema in SCHEMAS {
        let mandatory = matches!(schema.name, "exempt" | "catch-all");
        let wanted = object("FlowSchema", schema.name, "spec", schema.spec());
        let found = follow(objects, target("flowschemas"), wanted, mandatory).await?;
        not_dangling(objects, schema.name, &found).await?;
    }
    Ok(())
}

/// Brings one object to what is wanted, if it follows; what it is then.
async fn follow(
    objects: &Loopback,
    target: Target<'static>,
    mut wanted: Value,
    mandatory: bool,
) -> StatusResult<Value> {
    let producer = objects.managed_by(PRODUCER);
    meta::set_annotation(&mut wanted, AUTO_UPDATE, "true");
    loop {
        let mut found = create_missing(&producer, target, &wanted).await?;
        let follows = mandatory || meta::annotation(&found, AUTO_UPDATE) == Some("true");
        if !follows || found.get("spec") == wanted.get("spec") {
            return Ok(found);
        }
        if let Some(spec) = wanted.get("spec") {
            found.set_at(&["spec"], spec.clone());
        }
        let name = meta::name(&found).to_owned();
        match producer.update(target, &name, &found).await {
            // another replica was faster
            Err(status) if matches!(status.reason, "Conflict" | "NotFound") => {}
            outcome => return outcome,
        }
    }
}

/// Says that the priority level of a schema exists.
async fn not_dangling(objects: &Loopback, name: &str, found: &Value) -> StatusResult<()> {
    let conditions = found.array_at(&["status", "conditions"]);
    if conditions.iter().any(|c| c.str_at(&["type"]) == "Dangling") {
        return Ok(());
    }
    let level = found.str_at(&["spec", "priorityLevelConfiguration", "name"]);
    let message =
        format!("This FlowSchema references the PriorityLevelConfiguration object named \"{level}\" and it exists");
    let condition = Value::from([
        ("type", "Dangling".into()),
        ("status", "False".into()),
        ("lastTransitionTime", time::rfc3339(jiff::Timestamp::now()).into()),
        ("reason", "Found".into()),
        ("message", message.into()),
    ]);
    let status = Value::from([("conditions", vec![condition].into())]);
    let applied = object("FlowSchema", name, "status", status);
    objects
        .managed_by(CONSUMER)
        .apply_status(target("flowschemas"), name, &applied)
        .await?;
    Ok(())
}
