//! A pod's row in a Table: what `kubectl get pods` shows.

use jiff::Timestamp;
use triptych_object::{Value, meta, time};
use triptych_registry::age::{age, since};

/// The time of the last restart and how many there were.
#[derive(Clone, Copy, Default)]
struct Restarts<'a> {
    number: i64,
    last: Option<(&'a str, Timestamp)>,
}

impl<'a> Restarts<'a> {
    fn count(&mut self, status: &'a Value) {
        self.number += status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
        let text = status.str_at(&["lastState", "terminated", "finishedAt"]);
        if let Some(time) = time::parse_rfc3339(text)
            && self.last.is_none_or(|(_, last)| last < time)
        {
            self.last = Some((text, time));
        }
    }

    fn shown(&self, now: Timestamp) -> String {
        match self.last {
            Some((text, _)) if self.number != 0 => format!("{} ({} ago)", self.number, since(text, now)),
            _ => self.number.to_string(),
        }
    }
}

/// The cells, wide ones included.
pub fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let shown = Shown::of(pod);
    let or_none = |text: &str| {
        if text.is_empty() {
            "<none>".to_owned()
        } else {
            text.to_owned()
        }
    };
    let ip = pod
        .array_at(&["status", "podIPs"])
        .first()
        .map_or("", |ip| ip.str_at(&["ip"]));
    vec![
        meta::name(pod).into(),
        format!("{}/{}", shown.ready, shown.total).into(),
        shown.reason.into(),
        shown.restarts.shown(now).into(),
        age(pod, now).into(),
        or_none(ip).into(),
        or_none(pod.str_at(&["spec", "nodeName"])).into(),
        or_none(pod.str_at(&["status", "nominatedNodeName"])).into(),
        readiness_gates(pod).into(),
    ]
}

/// A finished pod's row says so.
pub fn row_conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match pod.str_at(&["status", "phase"]) {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(Value::Array(vec![Value::from([
        ("type", "Completed".into()),
        ("status", "True".into()),
        ("reason", reason.into()),
        ("message", message.into()),
    ])]))
}

fn condition_is_true(pod: &Value, kind: &str) -> bool {
    let mut conditions = pod.array_at(&["status", "conditions"]).iter();
    conditions.any(|c| c.str_at(&["type"]) == kind && c.str_at(&["status"]) == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.array_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".into();
    }
    let conditions = pod.array_at(&["status", "conditions"]);
    let open = gates.iter().filter(|gate| {
        let mut own = conditions
            .iter()
            .filter(|c| c.str_at(&["type"]) == gate.str_at(&["conditionType"]));
        own.next().is_some_and(|c| c.str_at(&["status"]) == "True")
    });
    format!("{}/{}", open.count(), gates.len())
}

struct Shown<'a> {
    ready: usize,
    total: usize,
    reason: String,
    restarts: Restarts<'a>,
}

fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

/// How a container ended: its reason, else its signal or exit code.
fn end(terminated: &Value) -> String {
    let number = |member| terminated.get(member).and_then(Value::as_i64).unwrap_or(0);
    match terminated.str_at(&["reason"]) {
        "" if number("signal") != 0 => format!("Signal:{}", number("signal")),
        "" => format!("ExitCode:{}", number("exitCode")),
        reason => reason.to_owned(),
    }
}

fn is_true(value: &Value, member: &str) -> bool {
    value.get(member).and_then(Value::as_bool) == Some(true)
}

impl<'a> Shown<'a> {
    fn of(pod: &'a Value) -> Shown<'a> {
        let status = |member: &str| pod.str_at(&["status", member]);
        let mut reason = match status("reason") {
            "" => status("phase").to_owned(),
            reason => reason.to_owned(),
        };
        let mut conditions = pod.array_at(&["status", "conditions"]).iter();
        if conditions.any(|c| c.str_at(&["type"]) == "PodScheduled" && c.str_at(&["reason"]) == "SchedulingGated") {
            reason = "SchedulingGated".into();
        }
        let init = pod.array_at(&["spec", "initContainers"]);
        let sidecars = init.iter().filter(|c| is_sidecar(c)).count();
        let mut shown = Shown {
            ready: 0,
            total: pod.array_at(&["spec", "containers"]).len() + sidecars,
            reason,
            restarts: Restarts::default(),
        };
        let (initializing, sidecar_restarts) = shown.init_containers(pod, init);
        if !initializing || condition_is_true(pod, "Initialized") {
            shown.restarts = sidecar_restarts;
            shown.containers(pod);
        }
        if meta::deletion_timestamp(pod).is_some() {
            if status("reason") == "NodeLost" {
                shown.reason = "Unknown".into();
            } else if !matches!(status("phase"), "Succeeded" | "Failed") {
                shown.reason = "Terminating".into();
            }
        }
        shown
    }

    /// Whether the pod is still initializing, and the restarts of sidecars.
    fn init_containers(&mut self, pod: &'a Value, init: &[Value]) -> (bool, Restarts<'a>) {
        let mut sidecar_restarts = Restarts::default();
        for (i, status) in pod.array_at(&["status", "initContainerStatuses"]).iter().enumerate() {
            self.restarts.count(status);
            let mut own = init.iter().filter(|c| c.str_at(&["name"]) == status.str_at(&["name"]));
            let sidecar = own.next().is_some_and(is_sidecar);
            if sidecar {
                sidecar_restarts.count(status);
            }
            let terminated = status.at(&["state", "terminated"]);
            let exit_code = terminated
                .and_then(|t| t.get("exitCode"))
                .and_then(Value::as_i64)
                .unwrap_or(0);
            if terminated.is_some() && exit_code == 0 {
                continue;
            }
            if sidecar && is_true(status, "started") {
                self.ready += usize::from(is_true(status, "ready"));
                continue;
            }
            let waiting = status.str_at(&["state", "waiting", "reason"]);
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", end(terminated)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{i}/{}", init.len()),
            };
            return (true, sidecar_restarts);
        }
        (false, sidecar_restarts)
    }

    fn containers(&mut self, pod: &'a Value) {
        let mut running = false;
        let mut error = None;
        for status in pod.array_at(&["status", "containerStatuses"]).iter().rev() {
            self.restarts.count(status);
            let waiting = status.str_at(&["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = status.at(&["state", "terminated"]) {
                self.reason = end(terminated);
                if terminated.get("exitCode").and_then(Value::as_i64).unwrap_or(0) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if is_true(status, "ready") && status.at(&["state", "running"]).is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && condition_is_true(pod, "Ready") {
                self.reason = "Running".into();
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}
