//! What the pods that are in a namespace already do against a policy that is to be enforced from now on.
//!
//! Contract: bounded in pods and time, and it lets other requests run meanwhile; it says so when it has not seen all.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use triptych_object::{Value, field, json, meta};
use triptych_storage::Object;

use super::checks::{evaluate, reasons};
use super::policy::LevelVersion;

/// At most so many pods are looked at, …
const MAX_PODS: usize = 3000;
/// … for at most so long, …
const MAX_TIME: Duration = Duration::from_secs(1);
/// … with a pause for others after so many.
const AT_ONCE: usize = 64;

/// What was found.
pub struct Survey {
    total: usize,
    checked: usize,
    /// By violation: the first pod that does it, and how many do.
    found: BTreeMap<String, (String, usize)>,
}

impl Survey {
    /// Looks at pods, of each controller's first at one.
    pub async fn of(pods: &[Arc<Object>], policy: LevelVersion) -> Survey {
        let mut survey = Survey {
            total: pods.len(),
            checked: 0,
            found: BTreeMap::new(),
        };
        let started = Instant::now();
        let mut controllers = HashSet::new();
        let mut others = Vec::new();
        for pod in pods {
            if survey.is_over(started) {
                return survey;
            }
            let object = json::from_slice(pod.bytes()).unwrap_or_default();
            match controller(&object) {
                Some(controller) if !controllers.insert(controller.to_owned()) => others.push(pod),
                _ => survey.look(&object, policy).await,
            }
        }
        for pod in others {
            if survey.is_over(started) {
                return survey;
            }
            let object = json::from_slice(pod.bytes()).unwrap_or_default();
            survey.look(&object, policy).await;
        }
        survey
    }

    fn is_over(&self, started: Instant) -> bool {
        self.checked >= MAX_PODS || started.elapsed() >= MAX_TIME
    }

    async fn look(&mut self, pod: &Value, policy: LevelVersion) {
        self.checked += 1;
        let violations = pod.get("spec").map(|spec| evaluate(policy, pod, spec));
        let violations = violations.unwrap_or_default();
        if !violations.is_empty() {
            let (first, count) = self.found.entry(reasons(&violations)).or_default();
            if *count == 0 || meta::name(pod) < first.as_str() {
                *first = meta::name(pod).to_owned();
            }
            *count += 1;
        }
        if self.checked.is_multiple_of(AT_ONCE) {
            tokio::task::yield_now().await;
        }
    }

    /// What to tell who tightened the policy.
    pub fn warnings(self, namespace: &str, policy: LevelVersion) -> Vec<String> {
        let Survey { total, checked, found } = self;
        let mut warnings = Vec::new();
        if checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !found.is_empty() {
            let (namespace, policy) = (field::quote(namespace), field::quote(&policy.to_string()));
            warnings.push(format!(
                "existing pods in namespace {namespace} violate the new PodSecurity enforce level {policy}"
            ));
        }
        let mut single: Vec<String> = found
            .into_iter()
            .map(|(reason, (pod, count))| match count {
                1 => format!("{pod}: {reason}"),
                2 => format!("{pod} (and 1 other pod): {reason}"),
                more => format!("{pod} (and {} other pods): {reason}", more - 1),
            })
            .collect();
        single.sort();
        warnings.extend(single);
        warnings
    }
}

/// Uid of the controller that made a pod.
fn controller(pod: &Value) -> Option<&str> {
    let mut owners = pod.array_at(&["metadata", "ownerReferences"]).iter();
    owners
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
        .map(|owner| owner.str_at(&["uid"]))
}
