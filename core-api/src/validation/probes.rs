//! Probes, lifecycle hooks and the actions they take.

use triptych_object::names;

use super::port_numbers::number_or_name;
use super::{Cursor, names as rules};

/// Signals that stop a container on Linux, sorted.
const LINUX_SIGNALS: [&str; 65] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Which probe it is: each has a rule of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Liveness and startup probes succeed at once.
    Restarting,
    /// Readiness probes do not end a container.
    Readiness,
}

/// The three probes of a container.
pub fn probes(container: Cursor<'_>, grace_period: Option<i64>) {
    probe(container.field("livenessProbe"), grace_period, Kind::Restarting);
    probe(container.field("readinessProbe"), grace_period, Kind::Readiness);
    probe(container.field("startupProbe"), grace_period, Kind::Restarting);
}

fn probe(c: Cursor<'_>, grace_period: Option<i64>, kind: Kind) {
    const NUMBERS: [&str; 5] = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    if !c.exists() {
        return;
    }
    handler(c, &["exec", "httpGet", "tcpSocket", "grpc"], grace_period);
    NUMBERS.iter().for_each(|name| rules::nonnegative(c.field(name)));
    let grace = c.field("terminationGracePeriodSeconds");
    if grace.i64().is_some_and(|seconds| seconds <= 0) {
        grace.invalid(grace.int(), "must be greater than 0");
    }
    match kind {
        Kind::Restarting => {
            let threshold = c.field("successThreshold");
            if threshold.int() != 1 {
                threshold.invalid(threshold.int(), "must be 1");
            }
        }
        Kind::Readiness if grace.exists() => grace.invalid(grace.int(), "must not be set for readinessProbes"),
        Kind::Readiness => {}
    }
}

/// Exactly one of the actions named.
fn handler(c: Cursor<'_>, actions: &'static [&'static str], grace_period: Option<i64>) {
    let mut any = false;
    for name in actions.iter().copied() {
        let Some(action) = c.given(name) else { continue };
        if any {
            action.forbidden("may not specify more than 1 handler type");
            continue;
        }
        any = true;
        match name {
            "exec" => {
                if action.field("command").is_empty() {
                    action.field("command").required("");
                }
            }
            "httpGet" => http_get(action),
            "sleep" => sleep(action, grace_period),
            _ => number_or_name(action.field("port")),
        }
    }
    if !any {
        c.required("must specify a handler type");
    }
}

fn http_get(c: Cursor<'_>) {
    rules::required(c.field("path"));
    number_or_name(c.field("port"));
    rules::one_of(c.field("scheme"), &["HTTP", "HTTPS"]);
    for header in c.field("httpHeaders").items() {
        for message in names::http_header_name(header.str_of("name")) {
            c.field("httpHeaders").invalid(header.str_of("name"), message);
        }
    }
}

fn sleep(c: Cursor<'_>, grace_period: Option<i64>) {
    let seconds = c.i64_of("seconds").unwrap_or(0);
    if let Some(grace) = grace_period
        && !(0..=grace).contains(&seconds)
    {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        c.invalid(seconds, detail);
    }
}

/// A container's hooks; `os` is the pod's `spec.os`.
pub fn lifecycle(c: Cursor<'_>, grace_period: Option<i64>, os: Cursor<'_>) {
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = c.given(hook) {
            handler(hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace_period);
        }
    }
    if let Some(signal) = c.given("stopSignal") {
        match os.str_of("name") {
            _ if !os.exists() => signal.forbidden("may not be set for containers with empty `spec.os.name`"),
            "windows" => rules::one_of(signal, &["SIGKILL", "SIGTERM"]),
            "linux" => rules::one_of(signal, &LINUX_SIGNALS),
            _ => {}
        }
    }
}
