//! What an event must be, on its core form; the paths in errors are that form's, whichever version was sent.

use triptych_object::field::Error;
use triptych_object::names;
use triptych_object::{Value, meta, time};

use crate::validation::Cursor;

/// Rules of both versions; `controller` is what the version of the request calls the reporting controller.
pub fn legacy(event: Cursor<'_>, controller: &'static str) {
    const MISMATCH: &str = "does not match event.namespace";
    let namespace = meta::namespace(event.root());
    let involved = event.field("involvedObject").field("namespace");
    if event.str_of("eventTime").is_empty() {
        let agrees = match involved.str() {
            "" => matches!(namespace, "" | "default"),
            other => other == namespace,
        };
        if !agrees {
            involved.invalid(involved.str(), MISMATCH);
        }
    } else {
        if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
            involved.invalid("", MISMATCH);
        }
        let name = event.str_of("reportingComponent");
        if name.is_empty() {
            event.push(Error::required(controller, ""));
        }
        for message in names::qualified_name(name) {
            event.push(Error::invalid(controller, name, message));
        }
        bounded(event.field("reportingInstance"), true, 128);
        bounded(event.field("action"), true, 128);
        bounded(event.field("reason"), true, 128);
        bounded(event.field("message"), false, 1024);
    }
    for message in names::dns1123_subdomain(namespace) {
        event.push(Error::invalid("namespace", namespace, message));
    }
}

fn bounded(text: Cursor<'_>, required: bool, most: usize) {
    if required && text.is_empty() {
        text.required("");
    }
    if text.len() > most {
        text.invalid("", format!("can have at most {most} characters"));
    }
}

/// Rules of `events.k8s.io/v1` for a new event.
pub fn strict(event: Cursor<'_>) {
    series(event);
    let time = event.field("eventTime");
    if time.str().is_empty() {
        time.required("");
    }
    let kind = event.field("type");
    if !matches!(kind.str(), "Normal" | "Warning") {
        kind.invalid("", format!("has invalid value: {}", kind.str()));
    }
    for member in ["firstTimestamp", "lastTimestamp"] {
        if event.has(member) {
            event.field(member).invalid("", "needs to be unset");
        }
    }
    if event.i64_of("count").unwrap_or(0) != 0 {
        event.field("count").invalid("", "needs to be unset");
    }
    if !event.field("source").is_empty() {
        event.field("source").invalid("", "needs to be unset");
    }
}

fn series(event: Cursor<'_>) {
    let Some(series) = event.given("series") else { return };
    if series.i64_of("count").unwrap_or(0) < 2 {
        series.field("count").invalid("", "should be at least 2");
    }
    if series.str_of("lastObservedTime").is_empty() {
        series.field("lastObservedTime").required("");
    }
}

/// What `events.k8s.io/v1` does not let change.
pub fn unchanged(event: Cursor<'_>, old: &Value) {
    const IMMUTABLE: &str = "field is immutable";
    if event.field("series").value() != old.get("series").filter(|v| !v.is_null()) {
        series(event);
    }
    let check = |member: &'static str, shown: &'static str| {
        let have = event.field(member);
        if have.value() == old.get(member).filter(|v| !v.is_null()) {
            return;
        }
        let value = match member {
            "involvedObject" | "source" | "related" => have.go_struct(),
            "count" => have.int().into(),
            "firstTimestamp" | "lastTimestamp" | "eventTime" => have.shown(),
            _ => have.str().into(),
        };
        event.push(Error::invalid(shown, value, IMMUTABLE));
    };
    for member in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
    ] {
        check(member, member);
    }
    // what Go's truncation to microseconds leaves equal is equal
    let micros = |text: &str| time::parse_rfc3339(text).map(|t| t.as_microsecond());
    if micros(event.str_of("eventTime")) != micros(old.str_at(&["eventTime"])) {
        check("eventTime", "eventTime");
    }
    check("action", "action");
    check("related", "related");
    check("reportingComponent", "reportingController");
    check("reportingInstance", "reportingInstance");
}
