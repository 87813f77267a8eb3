//! Annotations of pods and pod templates that mean something: mirror pods, deletion cost, and the annotations that the
//! fields `seccompProfile` and `appArmorProfile` replaced.

use triptych_object::field::ErrorList;
use triptych_object::{Value, json};

use super::pod_options::{PodOptions, containers_at};
use super::tolerations::tolerations;
use super::{Cursor, check, paths};

/// Marks the copy of a static pod that a kubelet makes.
pub const MIRROR: &str = "kubernetes.io/config.mirror";
/// How much a ReplicaSet regrets deleting this pod.
pub const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Replaced by `securityContext.seccompProfile` of the pod.
pub const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Replaced by `securityContext.seccompProfile` of the container named after it.
pub const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
/// Replaced by `securityContext.appArmorProfile` of the container named after it.
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";

/// Whether a text is a 32-bit integer as the deletion cost must be; empty counts as absent.
pub fn is_deletion_cost(text: &str) -> bool {
    let first = text.as_bytes().first();
    let starts_well = match first {
        None | Some(b'-') => true,
        Some(b'0') => text.len() == 1,
        Some(first) => first.is_ascii_digit(),
    };
    starts_well && (text.is_empty() || text.parse::<i32>().is_ok())
}

/// Annotations `c` of a pod or template whose specification is `spec`.
pub fn annotations<'a>(c: Cursor<'a>, spec: Cursor<'a>, options: &PodOptions) {
    if !c.exists() {
        return;
    }
    let mirror = c.key(MIRROR);
    if mirror.exists() && spec.str_of("nodeName").is_empty() {
        mirror.invalid(mirror.str(), "must set spec.nodeName if mirror pod annotation is set");
    }
    annotated_tolerations(c, options);
    let cost = c.key(DELETION_COST);
    if cost.exists() && !options.invalid_deletion_cost && (cost.str().is_empty() || !is_deletion_cost(cost.str())) {
        cost.invalid(cost.str(), "must be a 32bit integer");
    }
    for (key, value) in c.entries() {
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp(value.standing_for(c.alias(key)));
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR) {
            if !containers_at(spec).any(|container| container.str_of("name") == name) {
                value.invalid(name, "container not found");
            }
            let profile = value.str();
            let known = matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
            if !known {
                let quoted = triptych_object::field::quote(profile);
                value.invalid(profile, format!("invalid AppArmor profile name: {quoted}"));
            }
        }
    }
}

fn annotated_tolerations(c: Cursor<'_>, options: &PodOptions) {
    let annotation = c.key(TOLERATIONS);
    if annotation.str().is_empty() {
        return;
    }
    let Ok(list @ Value::Array(_)) = json::from_slice(annotation.str().as_bytes()) else {
        return;
    };
    let wrapped = Value::from([("list", list)]);
    let mut found = ErrorList::new();
    check(&wrapped, &mut found, |root| {
        tolerations(root.field("list"), options.toleration_comparisons)
    });
    let place = c.alias(TOLERATIONS).path();
    for mut error in found {
        error.field = error.field.replacen("list", &place, 1);
        c.push(error);
    }
}

fn seccomp(c: Cursor<'_>) {
    let profile = c.str();
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) if paths::is_local_descending(path) => {}
        Some(path) => {
            if path.starts_with('/') {
                c.invalid(path, "must be a relative path");
            }
            if path.split('/').any(|part| part == "..") {
                c.invalid(path, "must not contain '..'");
            }
        }
        None => c.invalid(profile, "must be a valid seccomp profile"),
    }
}

/// On create, an annotation and the field that replaced it must agree.
pub fn agree_with_fields<'a>(c: Cursor<'a>, spec: Cursor<'a>) {
    let context = spec.field("securityContext");
    if let Some(profile) = context.given("seccompProfile") {
        agree(
            c.key(SECCOMP_POD),
            profile,
            "seccomp",
            &["runtime/default", "docker/default"],
        );
    }
    let windows = spec.field("os").str_of("name") == "windows";
    for container in containers_at(spec) {
        let own = container.field("securityContext");
        for (key, value) in c.entries() {
            if key.strip_prefix(SECCOMP_CONTAINER) == Some(container.str_of("name"))
                && let Some(profile) = own.given("seccompProfile")
            {
                agree(value, profile, "seccomp", &["runtime/default", "docker/default"]);
            }
            if key.strip_prefix(APP_ARMOR) == Some(container.str_of("name")) && !windows {
                let place = own.field("appArmorProfile");
                let profile = if place.exists() {
                    place
                } else {
                    context.field("appArmorProfile").standing_for(place)
                };
                if profile.exists() {
                    agree(value, profile, "apparmor", &["runtime/default"]);
                }
            }
        }
    }
}

fn agree(annotation: Cursor<'_>, profile: Cursor<'_>, what: &str, runtime_default: &[&str]) {
    if !annotation.exists() {
        return;
    }
    let text = annotation.str();
    let same_type = match profile.str_of("type") {
        "Unconfined" => text == "unconfined",
        "RuntimeDefault" => runtime_default.contains(&text),
        "Localhost" => text.starts_with("localhost/"),
        _ => true,
    };
    if !same_type {
        profile
            .alias("type")
            .forbidden(format!("{what} type in annotation and field must match"));
    } else if profile.str_of("type") == "Localhost"
        && text.strip_prefix("localhost/") != profile.value().and_then(|p| p.get("localhostProfile")?.as_str())
    {
        let detail = format!("{what} profile in annotation and field must match");
        profile.alias("localhostProfile").forbidden(detail);
    }
}

/// The `appArmorProfile` that an AppArmor annotation means; `None` if it means none.
pub fn profile_of_annotation(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(Value::from([("type", "Unconfined".into())])),
        "runtime/default" => Some(Value::from([("type", "RuntimeDefault".into())])),
        _ => {
            let profile = annotation.strip_prefix("localhost/").filter(|p| !p.is_empty())?;
            Some(Value::from([
                ("type", "Localhost".into()),
                ("localhostProfile", profile.into()),
            ]))
        }
    }
}

/// Annotations that may not be added, changed or removed; `old` are those of the stored pod.
pub fn unchanged(c: Cursor<'_>, old: Option<&Value>) {
    let old_of = |key: &str| old.and_then(|o| o.get(key));
    let empty = triptych_object::Object::new();
    let olds = old.and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in olds.iter() {
        if c.value().and_then(|v| v.get(key)) == Some(value) {
            continue;
        }
        if key.starts_with(APP_ARMOR) {
            forbid(c, key, "may not remove or update AppArmor annotations");
        }
        if key == MIRROR {
            forbid(c, key, "may not remove or update mirror pod annotation");
        }
    }
    for (key, value) in c.entries().filter(|(key, _)| old_of(key).is_none()) {
        if key.starts_with(APP_ARMOR) {
            value.forbidden("may not add AppArmor annotations");
        }
        if key == MIRROR {
            value.forbidden("may not add mirror pod annotation");
        }
    }
}

fn forbid(c: Cursor<'_>, key: &str, detail: &str) {
    let field = format!("{}[{key}]", c.path());
    c.push(triptych_object::field::Error::forbidden(field, detail));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_cost_is_a_plain_integer() {
        assert!(["0", "-5", "100", "2147483647"].iter().all(|t| is_deletion_cost(t)));
        assert!(
            ["+5", "01", "x", "2147483648", "1.5"]
                .iter()
                .all(|t| !is_deletion_cost(t))
        );
    }
}
