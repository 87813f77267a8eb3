//! What every cluster begins with, apart from roles and bindings (`rbac::bootstrap`) and what the aggregator writes of
//! itself (Service `kubernetes` and its endpoints), and what keeps it so.
//!
//! Contract: steps go through the tier's own endpoints. Each is idempotent and may run on any number of replicas at once;
//! run again on what is there it writes nothing. A step whose resource is switched off is none.

mod config_maps;
mod flow_control;
mod flow_schema_status;
mod identity;
mod namespaces;
mod priority_classes;
mod service_range;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use triptych_object::{StatusResult, Value};
use triptych_server::Tier;

pub use identity::Identity;

use crate::context::{ClusterIpRange, Context};
use crate::core::service::{Allocators, Repair};
use crate::loopback::{Loopback, Target};

/// How long a step is tried again: another's may have to come first.
const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// How often what somebody may change or delete is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What the flags say that boot objects depend on.
#[derive(Clone)]
pub struct Settings {
    /// `--service-cluster-ip-range`.
    pub cluster_ips: ClusterIpRange,
    /// The certificates in `--client-ca-file` as of now, if it is given.
    pub client_ca: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// `YYYY-MM-DD` of this start.
    pub today: String,
}

/// One step.
pub struct Step {
    /// The name of kube-apiserver's start hook that does the same.
    name: &'static str,
    /// Group, version and resource of what it makes.
    makes: (&'static str, &'static str, &'static str),
    run: for<'a> fn(&'a Loopback, &'a Settings) -> BoxFuture<'a, StatusResult<()>>,
}

const NAMESPACES: Step = Step {
    name: "start-system-namespaces-controller",
    makes: ("", "v1", "namespaces"),
    run: |objects, _| Box::pin(namespaces::ensure(objects)),
};

const CLIENT_CA: Step = Step {
    name: "start-cluster-authentication-info-controller",
    makes: ("", "v1", "configmaps"),
    run: |objects, settings| Box::pin(config_maps::ensure_client_ca(objects, (settings.client_ca)())),
};

/// All steps.
pub const STEPS: [Step; 6] = [
    NAMESPACES,
    Step {
        name: "start-kubernetes-service-cidr-controller",
        makes: ("networking.k8s.io", "v1", "servicecidrs"),
        run: |objects, settings| Box::pin(service_range::ensure(objects, &settings.cluster_ips)),
    },
    Step {
        name: "scheduling/bootstrap-system-priority-classes",
        makes: ("scheduling.k8s.io", "v1", "priorityclasses"),
        run: |objects, _| Box::pin(priority_classes::ensure(objects)),
    },
    Step {
        name: "priority-and-fairness-config-producer",
        makes: ("flowcontrol.apiserver.k8s.io", "v1", "flowschemas"),
        run: |objects, _| Box::pin(flow_control::ensure(objects)),
    },
    CLIENT_CA,
    Step {
        name: "start-legacy-token-tracking-controller",
        makes: ("", "v1", "configmaps"),
        run: |objects, settings| Box::pin(config_maps::ensure_token_tracking(objects, &settings.today)),
    },
];

/// Runs all steps in order; the error names the step.
pub async fn ensure(objects: &Loopback, settings: &Settings) -> Result<(), String> {
    for step in STEPS.iter().filter(|step| step.is_possible(objects)) {
        let done = (step.run)(objects, settings).await;
        done.map_err(|status| format!("{}: {}", step.name, status.message))?;
    }
    Ok(())
}

/// Makes a tier run the steps when it starts, and keep what they made as long as it runs.
pub fn attach(mut tier: Tier, objects: &Loopback, context: &Context, settings: Settings) -> Tier {
    for step in STEPS.into_iter().filter(|step| step.is_possible(objects)) {
        let (objects, settings) = (objects.clone(), settings.clone());
        let name = step.name;
        tier = tier.on_start(name, async move {
            let patience = Patience::begin();
            loop {
                if let Some(end) = patience.end((step.run)(&objects, &settings).await).await {
                    return end;
                }
            }
        });
    }

    let allocators = Allocators::new(context);
    let mut first = Repair::new(allocators.clone());
    let services = async move {
        let patience = Patience::begin();
        loop {
            if let Some(end) = patience.end(first.once().await).await {
                return end;
            }
        }
    };
    tier = tier
        .on_start("start-service-ip-repair-controllers", services)
        .background(Repair::new(allocators).run());

    if let Some(leases) = context.collection("coordination.k8s.io", "leases") {
        let identity = Arc::new(Identity::of_this_host());
        let (objects, leases, own) = (objects.clone(), leases.clone(), identity.clone());
        let renewing = objects.clone();
        let hook = async move {
            let patience = Patience::begin();
            loop {
                if let Some(end) = patience.end(own.ensure(&objects).await).await {
                    return end;
                }
            }
        };
        tier = tier
            .on_start("start-kube-apiserver-identity-lease-controller", hook)
            .background(async move { identity.keep(&renewing, &leases).await });
    }
    let collections = context.collections.clone();
    tier.background(flow_schema_status::keep(objects.clone(), collections))
        .background(keep(objects.clone(), settings))
}

impl Step {
    fn is_possible(&self, objects: &Loopback) -> bool {
        let (group, version, resource) = self.makes;
        objects.endpoint(group, version, resource).is_some()
    }
}

/// Looks again and again, for ever, at what somebody may change or delete.
async fn keep(objects: Loopback, settings: Settings) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        for step in [NAMESPACES, CLIENT_CA] {
            if step.is_possible(&objects)
                && let Err(status) = (step.run)(&objects, &settings).await
            {
                tracing::info!(hook = step.name, error = status.message, "cannot be done again");
            }
        }
    }
}

/// Lets a hook try until it succeeds or this is at an end.
struct Patience(Instant);

impl Patience {
    fn begin() -> Patience {
        Patience(Instant::now() + PATIENCE)
    }

    /// What the hook ends with; `None`, after a pause, if it is to try again.
    async fn end(&self, outcome: StatusResult<()>) -> Option<Result<(), String>> {
        match outcome {
            Ok(()) => Some(Ok(())),
            Err(status) if Instant::now() >= self.0 => Some(Err(status.message)),
            Err(_) => {
                tokio::time::sleep(BETWEEN_TRIES).await;
                None
            }
        }
    }
}

/// Creates an object unless it is there; what is there.
async fn create_missing(objects: &Loopback, target: Target<'_>, object: &Value) -> StatusResult<Value> {
    let name = triptych_object::meta::name(object);
    loop {
        if let Some(found) = objects.get(target, name).await? {
            return Ok(found);
        }
        match objects.create(target, object).await {
            // another replica was faster
            Err(status) if status.reason == "AlreadyExists" => {}
            outcome => return outcome,
        }
    }
}
