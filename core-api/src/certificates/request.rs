//! CertificateSigningRequest: who asked is recorded by the server, approval and issuing have subresources of their own.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::value::Object;
use triptych_object::{Value, meta, time};
use triptych_registry::age::{age, human_duration};
use triptych_registry::strategy::{Context, Strategy};

use super::request_rules::{self, APPROVED, DENIED, FAILED, Part, conditions};

const CONDITIONS: [&str; 2] = ["status", "conditions"];

/// The strategy of `certificatesigningrequests` or of one of its subresources.
pub struct Requests(pub Part);

impl Strategy for Requests {
    fn shows_tables(&self) -> bool {
        self.0 != Part::Approval
    }

    fn prepare_create(&self, cx: &Context, new: &mut Value) {
        for member in ["username", "uid", "groups", "extra"] {
            new.remove_at(&["spec", member]);
        }
        let user = &cx.user;
        for (member, text) in [("username", &user.name), ("uid", &user.uid)] {
            if !text.is_empty() {
                new.set_at(&["spec", member], text.as_str().into());
            }
        }
        if !user.groups.is_empty() {
            new.set_at(&["spec", "groups"], user.groups.clone().into());
        }
        if !user.extra.is_empty() {
            let extra: Object = user
                .extra
                .iter()
                .map(|(key, values)| (key.clone(), values.clone().into()))
                .collect();
            new.set_at(&["spec", "extra"], Value::Object(extra));
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        request_rules::create(new, errors);
    }

    fn prepare_update(&self, cx: &Context, new: &mut Value, old: &Value) {
        match self.0 {
            Part::Whole => {}
            Part::Approval => fill_times(new, old, cx.now),
            Part::Status => {
                // adding or removing these is refused later
                preserve(new, old, APPROVED);
                preserve(new, old, DENIED);
                fill_times(new, old, cx.now);
            }
        }
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        request_rules::update(self.0, new, old, errors);
    }

    fn cells(&self, request: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let signer = request.str_at(&["spec", "signerName"]);
        let seconds = request.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        Some(vec![
            meta::name(request).into(),
            age(request, now).into(),
            if signer.is_empty() { "<none>" } else { signer }.into(),
            request.str_at(&["spec", "username"]).into(),
            seconds.map_or_else(|| "<none>".into(), human_duration).into(),
            state(request).into(),
        ])
    }
}

/// Where a request stands.
fn state(request: &Value) -> String {
    let has = |kind: &str| conditions(request, kind).next().is_some();
    let mut state = match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has(FAILED) {
        state.push_str(",Failed");
    }
    if !request.str_at(&["status", "certificate"]).is_empty() {
        state.push_str(",Issued");
    }
    state
}

/// Conditions of a type stay as they were if there are as many as before.
fn preserve(new: &mut Value, old: &Value, kind: &str) {
    let before: Vec<Value> = conditions(old, kind).cloned().collect();
    if before.len() != conditions(new, kind).count() {
        return;
    }
    let list = new.at_mut(&CONDITIONS).and_then(Value::as_array_mut);
    let same = list.into_iter().flatten().filter(|c| c.str_at(&["type"]) == kind);
    for (condition, before) in same.zip(before) {
        *condition = before;
    }
}

/// Gives conditions their times. A transition is as old as the condition's status.
fn fill_times(new: &mut Value, old: &Value, now: Timestamp) {
    let now = time::rfc3339(now);
    let is_zero = |value: Option<&Value>| value.is_none_or(Value::is_null);
    let list = new.at_mut(&CONDITIONS).and_then(Value::as_array_mut);
    for condition in list.into_iter().flatten() {
        if is_zero(condition.get("lastUpdateTime")) {
            condition.set_at(&["lastUpdateTime"], now.as_str().into());
        }
        if is_zero(condition.get("lastTransitionTime")) {
            let same = |before: &&Value| {
                ["type", "status"]
                    .iter()
                    .all(|m| before.str_at(&[m]) == condition.str_at(&[m]))
                    && !is_zero(before.get("lastTransitionTime"))
            };
            let before = old.array_at(&CONDITIONS).iter().find(same);
            let since = before.and_then(|b| b.get("lastTransitionTime")).cloned();
            condition.set_at(&["lastTransitionTime"], since.unwrap_or_else(|| now.as_str().into()));
        }
    }
}
