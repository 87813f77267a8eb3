//! The rules of `apiservices` (k8s.io/kube-aggregator/pkg/apis/apiregistration/validation).

use jiff::Timestamp;
use triptych_object::field::{Error, ErrorList, quote};
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::strategy::{Context, Strategy};

use super::condition::{self, Available};

/// The strategy of `apiservices`.
pub struct ApiServices;

/// The strategy of `apiservices/status`.
pub struct Status;

impl Strategy for ApiServices {
    /// What our own tiers serve is available from the start.
    fn prepare_create(&self, cx: &Context, new: &mut Value) {
        new.set_at(&["status"], Value::object());
        if is_local(new) {
            Available::local().set(new, cx.now);
        }
    }

    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        validate(new, errors);
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        validate(new, errors);
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let service = match object.at(&["spec", "service"]).filter(|s| !s.is_null()) {
            Some(service) => format!("{}/{}", service.str_at(&["namespace"]), service.str_at(&["name"])),
            None => "Local".to_owned(),
        };
        let available = match condition::find(object) {
            None => "Unknown".to_owned(),
            Some(condition) => match (condition.str_at(&["status"]), condition.str_at(&["reason"])) {
                ("True", _) => "True".to_owned(),
                (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
        };
        Some(vec![
            meta::name(object).into(),
            service.into(),
            available.into(),
            age(object, now).into(),
        ])
    }
}

impl Strategy for Status {
    fn shows_tables(&self) -> bool {
        false
    }

    fn validate_update(&self, _cx: &Context, new: &Value, _old: &Value, errors: &mut ErrorList) {
        for (i, condition) in new.array_at(&["status", "conditions"]).iter().enumerate() {
            let status = condition.str_at(&["status"]);
            if !["True", "False", "Unknown"].contains(&status) {
                let field = format!("status.conditions[{i}].status");
                errors.push(Error::not_supported(field, status, &["True", "False", "Unknown"]));
            }
        }
    }

    fn standard_finalizers(&self) -> bool {
        false
    }
}

fn is_local(object: &Value) -> bool {
    object.at(&["spec", "service"]).is_none_or(Value::is_null)
}

fn validate(object: &Value, errors: &mut ErrorList) {
    let (group, version) = (object.str_at(&["spec", "group"]), object.str_at(&["spec", "version"]));
    let wanted = format!("{version}.{group}");
    // kube-apiserver's own check of names stops at what cannot be part of a path
    let prefix = meta::text(object, "generateName");
    for (field, name) in [("metadata.generateName", prefix), ("metadata.name", meta::name(object))] {
        if !name.is_empty() && names::path_segment_name(name).is_empty() && name != wanted {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {}", quote(&wanted));
            errors.push(Error::invalid(field, name, detail));
        }
    }
    if group.is_empty() && version != "v1" {
        let detail = "only v1 may have an empty group and it better be legacy kube";
        errors.push(Error::required("spec.group", detail));
    }
    if !group.is_empty() {
        for message in names::dns1123_subdomain(group) {
            errors.push(Error::invalid("spec.group", group, message));
        }
    }
    for message in names::dns1035_label(version) {
        errors.push(Error::invalid("spec.version", version, message));
    }
    priority(object, "groupPriorityMinimum", 20_000, errors);
    priority(object, "versionPriority", 1000, errors);
    let bundle = object.str_at(&["spec", "caBundle"]);
    let insecure = object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool) == Some(true);
    if is_local(object) {
        local(bundle, insecure, errors);
    } else {
        remote(object, bundle, insecure, errors);
    }
}

fn priority(object: &Value, member: &str, most: i64, errors: &mut ErrorList) {
    let value = object.at(&["spec", member]).and_then(Value::as_i64).unwrap_or(0);
    if !(1..=most).contains(&value) {
        let detail = format!("must be positive and less than {most}");
        errors.push(Error::invalid(format!("spec.{member}"), value, detail));
    }
}

fn local(bundle: &str, insecure: bool, errors: &mut ErrorList) {
    if !bundle.is_empty() {
        let shown = format!("{} bytes", decoded_length(bundle));
        errors.push(Error::invalid(
            "spec.caBundle",
            shown,
            "local APIServices may not have a caBundle",
        ));
    }
    if insecure {
        let detail = "local APIServices may not have insecureSkipTLSVerify";
        errors.push(Error::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
}

fn remote(object: &Value, bundle: &str, insecure: bool, errors: &mut ErrorList) {
    for member in ["namespace", "name"] {
        if object.str_at(&["spec", "service", member]).is_empty() {
            errors.push(Error::required(format!("spec.service.{member}"), ""));
        }
    }
    let port = object
        .at(&["spec", "service", "port"])
        .and_then(Value::as_i64)
        .unwrap_or(0);
    let wrong = names::port_num(port);
    if !wrong.is_empty() {
        let detail = format!("port is not valid: {}", wrong.join(", "));
        errors.push(Error::invalid("spec.service.port", port, detail));
    }
    if insecure && !bundle.is_empty() {
        let detail = "may not be true if caBundle is present";
        errors.push(Error::invalid("spec.insecureSkipTLSVerify", true, detail));
    }
}

/// How many bytes a base64 text stands for.
fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn problems(text: &str) -> Vec<String> {
        let mut errors = ErrorList::new();
        validate(&json::from_slice(text.as_bytes()).unwrap(), &mut errors);
        errors.iter().map(|e| format!("{}: {}", e.field, e.body())).collect()
    }

    #[test]
    fn a_local_service_needs_a_matching_name_and_priorities() {
        let good = r#"{"metadata":{"name":"v1.a.b"},"spec":{"group":"a.b","version":"v1","groupPriorityMinimum":1,"versionPriority":1000}}"#;
        assert_eq!(problems(good), Vec::<String>::new());
        let bad =
            r#"{"metadata":{"name":"v1.x"},"spec":{"version":"v1","groupPriorityMinimum":20001,"caBundle":"YWI="}}"#;
        assert_eq!(
            problems(bad),
            [
                "metadata.name: Invalid value: \"v1.x\": must be `spec.version+\".\"+spec.group`: \"v1.\"",
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                "spec.caBundle: Invalid value: \"2 bytes\": local APIServices may not have a caBundle",
            ]
        );
    }

    #[test]
    fn a_remote_service_names_a_service_and_trusts_in_one_way() {
        let bad = r#"{"metadata":{"name":"v1.a"},"spec":{"group":"a","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
            "service":{"name":"n","port":0},"insecureSkipTLSVerify":true,"caBundle":"YQ=="}}"#;
        assert_eq!(
            problems(bad),
            [
                "spec.service.namespace: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
                "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
            ]
        );
    }

    #[test]
    fn the_table_says_where_and_whether() {
        let object = json::from_slice(
            br#"{"metadata":{"name":"v1.a"},"spec":{"service":{"namespace":"n","name":"s"}},
                "status":{"conditions":[{"type":"Available","status":"False","reason":"MissingEndpoints"}]}}"#,
        )
        .unwrap();
        let cells = ApiServices.cells(&object, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(
            cells[1..3],
            [Value::from("n/s"), Value::from("False (MissingEndpoints)")]
        );
    }
}
