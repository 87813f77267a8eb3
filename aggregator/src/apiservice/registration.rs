//! Keeping the APIServices of what our own tiers serve (kube-apiserver's autoregister controller).
//!
//! Contract: built-in group-versions are registered when the aggregator starts and left alone from then on, so that who
//! deletes or changes one has it his way until the next start. Those of CRDs are kept always. An APIService without the
//! label is a user's and never touched. What is no longer wanted is deleted only after its source was complete in this
//! process: core-api's discovery for built-ins, the mirror of CRDs for the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use triptych_object::{StatusResult, Value, json};
use triptych_registry::discovery::{Priority, Snapshot};
use triptych_registry::loopback::Loopback;
use triptych_server::discovery::fetch::{AGGREGATED, Ask, Fetch, Fetched};

use super::custom_groups::CustomGroups;
use super::record::{ApiService, ApiServiceView, Managed};
use super::{GROUP, TARGET};
use crate::changes::ring;

/// Until core-api is asked again what it serves.
const ASK_AGAIN: Duration = Duration::from_millis(25);
/// Until a write that failed is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);
/// Changes that come together are handled together.
const SETTLE: Duration = Duration::from_millis(5);

type Wanted = BTreeMap<Arc<str>, ApiService>;

/// Keeps APIServices.
pub struct Registration {
    services: Arc<ApiServiceView>,
    loopback: Loopback,
}

/// What is to be done for one APIService.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create,
    /// Its spec is replaced.
    Update,
    /// It goes, if it is still the same object.
    Delete,
}

impl Registration {
    /// Over this tier's APIServices, written through `loopback`.
    pub fn new(services: Arc<ApiServiceView>, loopback: Loopback) -> Registration {
        Registration { services, loopback }
    }

    /// Registers what core-api has built in; a start hook.
    pub async fn register_built_in(self: Arc<Self>, core_api: Arc<dyn Fetch>) -> Result<(), String> {
        let wanted = built_in(&*core_api).await;
        while let Err(why) = self.apply(&wanted, Managed::OnStart).await {
            tracing::info!(why, "cannot register built-in group-versions yet");
            tokio::time::sleep(ASK_AGAIN).await;
        }
        Ok(())
    }

    /// Keeps the APIServices of CRDs, for ever.
    pub async fn keep_custom(self: Arc<Self>, custom: Arc<CustomGroups>) {
        let bell = Arc::new(Notify::new());
        let keep = async {
            loop {
                bell.notified().await;
                tokio::time::sleep(SETTLE).await;
                let Some(wanted) = custom.wanted() else { continue };
                if let Err(why) = self.apply(&wanted, Managed::Always).await {
                    tracing::info!(why, "cannot register the group-versions of CRDs yet");
                    tokio::time::sleep(WRITE_AGAIN).await;
                    bell.notify_one();
                }
            }
        };
        let services = ring(self.services.source().clone(), bell.clone());
        let crds = ring(custom.source(), bell.clone());
        tokio::join!(keep, services, crds);
    }

    /// One pass over everything of one kind of keeping; an error is worth another pass.
    async fn apply(&self, wanted: &Wanted, kept: Managed) -> Result<(), String> {
        let current = self.services.load().ok_or("APIServices are not read yet")?;
        let current: BTreeMap<&str, &ApiService> = current.iter().map(|(_, s)| (&*s.name, &**s)).collect();
        let steps = steps(wanted, &current, kept);
        let done = steps.into_iter().map(|(name, step)| {
            let (wanted, current) = (wanted.get(&name), current.get(&*name));
            async move {
                let outcome = self.perform(step, wanted, current.copied()).await;
                outcome.map_err(|status| format!("{name}: {}", status.message))
            }
        });
        join_all(done).await.into_iter().collect()
    }

    async fn perform(&self, step: Step, wanted: Option<&ApiService>, current: Option<&ApiService>) -> StatusResult<()> {
        let outcome = match (step, wanted, current) {
            (Step::Create, Some(wanted), _) => self.loopback.create(TARGET, &wanted.to_object()).await.map(drop),
            (Step::Update, Some(wanted), _) => self.replace_spec(wanted).await,
            (Step::Delete, _, Some(current)) => {
                let gone = self.loopback.delete(TARGET, &current.name, &current.uid).await;
                gone.map(drop)
            }
            _ => Ok(()),
        };
        match outcome {
            // somebody else was faster: the change wakes us again
            Err(status) if matches!(&*status.reason, "AlreadyExists" | "Conflict" | "NotFound") => Ok(()),
            outcome => outcome,
        }
    }

    async fn replace_spec(&self, wanted: &ApiService) -> StatusResult<()> {
        let Some(mut object) = self.loopback.get(TARGET, &wanted.name).await? else {
            return Ok(());
        };
        object.set_at(&["spec"], wanted.spec());
        self.loopback.update(TARGET, &wanted.name, &object).await.map(drop)
    }
}

fn steps(wanted: &Wanted, current: &BTreeMap<&str, &ApiService>, kept: Managed) -> Vec<(Arc<str>, Step)> {
    let mut steps = Vec::new();
    for (name, wanted) in wanted {
        match current.get(&**name) {
            None => steps.push((Arc::clone(name), Step::Create)),
            Some(have) if have.managed == kept && !have.same_spec(wanted) => {
                steps.push((Arc::clone(name), Step::Update));
            }
            Some(_) => {}
        }
    }
    let spurious = current
        .values()
        .filter(|s| s.managed == kept && !wanted.contains_key(&s.name));
    steps.extend(spurious.map(|s| (Arc::clone(&s.name), Step::Delete)));
    steps
}

/// The built-in group-versions that the tiers behind this one serve, asked for until they are known.
async fn built_in(core_api: &dyn Fetch) -> Wanted {
    loop {
        match (entries(core_api, "/api").await, entries(core_api, "/apis").await) {
            (Ok(mut all), Ok(rest)) => {
                all.extend(rest);
                // not heard of by core-api while extensions-api is away, but built in all the same
                all.push(("apiextensions.k8s.io".into(), "v1".into()));
                let built_in = all
                    .into_iter()
                    .filter(|(group, version)| &**group != GROUP && Priority::built_in(group, version).is_some());
                let kept = built_in.map(|(group, version)| ApiService::kept(&group, &version, Managed::OnStart));
                return kept.map(|s| (Arc::clone(&s.name), s)).collect();
            }
            (Err(why), _) | (_, Err(why)) => {
                tracing::debug!(why, "core-api does not say yet what it serves");
                tokio::time::sleep(ASK_AGAIN).await;
            }
        }
    }
}

async fn entries(core_api: &dyn Fetch, target: &str) -> Result<Vec<(Arc<str>, Arc<str>)>, String> {
    let ask = Ask {
        target: target.to_owned(),
        accept: AGGREGATED,
        ..Ask::default()
    };
    match core_api.fetch(ask).await? {
        Fetched::Document { body, .. } => {
            let document: Value = json::from_slice(&body).map_err(|e| e.to_string())?;
            let entries = Snapshot::read(&document);
            Ok(entries.into_iter().map(|e| (e.group, e.version)).collect())
        }
        other => Err(format!("{target} was answered with {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(group: &str, managed: Managed) -> ApiService {
        ApiService::kept(group, "v1", managed)
    }

    #[test]
    fn only_what_carries_the_same_label_is_touched() {
        let wanted: Wanted = ["a.io", "b.io", "c.io", "d.io"]
            .map(|g| service(g, Managed::Always))
            .map(|s| (Arc::clone(&s.name), s))
            .into();
        let same = service("a.io", Managed::Always);
        let mut edited = service("b.io", Managed::Always);
        edited.priority.version = 7;
        let mut users = service("c.io", Managed::No);
        users.priority.version = 7;
        let (gone, on_start) = (service("gone.io", Managed::Always), service("apps", Managed::OnStart));
        let current = [&same, &edited, &users, &gone, &on_start].map(|s| (&*s.name, s)).into();
        let steps = steps(&wanted, &current, Managed::Always);
        let told: Vec<(&str, &Step)> = steps.iter().map(|(name, step)| (&**name, step)).collect();
        assert_eq!(
            told,
            [
                ("v1.b.io", &Step::Update),
                ("v1.d.io", &Step::Create),
                ("v1.gone.io", &Step::Delete)
            ]
        );
    }
}
