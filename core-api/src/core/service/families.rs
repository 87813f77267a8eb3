//! IP families: which a service has, given what it asks for and what the cluster has.
//!
//! Contract: runs before anything is allocated; afterwards `ipFamilies` and `ipFamilyPolicy` are set unless the service
//! is an alias. A cluster has one family or two; the first is the default.

use triptych_object::field::{Error, ErrorList};
use triptych_object::{GroupKind, Status, StatusResult, Value, meta};

use super::rules;
use super::spec::{self, list, set_list, text};
use crate::validation::addresses::family;
use crate::validation::check;

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";

/// 422 of a service, if there are errors.
pub fn refuse(service: &Value, errors: ErrorList) -> StatusResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupKind::new("", "Service"),
        meta::name(service),
        &errors,
    ))
}

fn policy(service: &Value) -> &str {
    text(service, "ipFamilyPolicy")
}

fn shown(service: &Value, member: &str) -> Value {
    service.at(&["spec", member]).cloned().unwrap_or(Value::Null)
}

/// Nothing about families changes in a service that takes what it can get; a change of the cluster's families must not
/// change it either.
pub fn is_settled(new: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    !spec::is_external_name(new)
        && text(old, "type") == text(new, "type")
        && policy(new) == PREFER
        && matches!(policy(old), PREFER | "")
        && list(old, "clusterIPs") == list(new, "clusterIPs")
        && list(old, "ipFamilies") == list(new, "ipFamilies")
}

/// Settles the families of a service on a cluster that has `configured`.
pub fn settle(new: &mut Value, old: Option<&Value>, configured: &[&'static str]) -> StatusResult<()> {
    if spec::is_external_name(new) || is_settled(new, old) {
        return Ok(());
    }
    let unselective = {
        let selector = new.at(&["spec", "selector"]).and_then(Value::as_object);
        text(new, "clusterIP") == "None" && selector.is_none_or(|s| s.is_empty())
    };
    if new.at(&["spec", "ipFamilyPolicy"]).is_none() {
        let default = match old.map(policy).unwrap_or("") {
            "" if unselective => REQUIRE,
            "" => SINGLE,
            before => before,
        }
        .to_owned();
        new.set_at(&["spec", "ipFamilyPolicy"], default.into());
    }
    let mut errors = ErrorList::new();
    check(new, &mut errors, |service| rules::cluster_ips(service, old));
    refuse(new, errors)?;

    let mut errors = ErrorList::new();
    if let Some(old) = old {
        shrink(new, old, &mut errors);
    }
    if policy(new) == SINGLE {
        for (member, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if list(new, member).len() == 2 {
                let detail =
                    format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
                errors.push(Error::invalid("spec.ipFamilyPolicy", policy(new), detail));
            }
        }
    }
    infer(new, configured, &mut errors);
    refuse(new, errors)?;

    if unselective {
        return complete(new, configured, policy(new) != SINGLE);
    }
    let mut errors = ErrorList::new();
    if policy(new) == REQUIRE && configured.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid("spec.ipFamilyPolicy", policy(new), detail));
    }
    for (i, family) in list(new, "ipFamilies").into_iter().enumerate() {
        if !configured.contains(&family) {
            errors.push(Error::invalid(
                format!("spec.ipFamilies[{i}]"),
                family,
                "not configured on this cluster",
            ));
        }
    }
    refuse(new, errors)?;
    complete(new, configured, policy(new) != SINGLE && configured.len() == 2)
}

/// On an update, giving up the second address or family needs an explicit policy, which alone is enough.
fn shrink(new: &mut Value, old: &Value, errors: &mut ErrorList) {
    for (member, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let (have, had) = (list(new, member), list(old, member));
        if policy(new) == SINGLE {
            if have == had && have.len() > 1 {
                let first = have[0].to_owned();
                set_list(new, member, vec![first]);
            }
        } else if !have.is_empty() && have.len() < had.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(Error::invalid("spec.ipFamilyPolicy", policy(new), detail));
        }
    }
}

/// Families follow from addresses.
fn infer(new: &mut Value, configured: &[&'static str], errors: &mut ErrorList) {
    let mut families: Vec<String> = list(new, "ipFamilies").into_iter().map(str::to_owned).collect();
    for (i, ip) in list(new, "clusterIPs").into_iter().enumerate() {
        if ip == "None" {
            break;
        }
        if i < families.len() {
            continue;
        }
        let family = family(ip);
        if configured.contains(&family) {
            families.push(family.to_owned());
        } else {
            errors.push(Error::invalid(
                format!("spec.clusterIPs[{i}]"),
                shown(new, "clusterIPs"),
                format!("{family} is not configured on this cluster"),
            ));
        }
    }
    set_list(new, "ipFamilies", families);
}

/// The default family, and where two are wanted the other one.
fn complete(new: &mut Value, configured: &[&'static str], both: bool) -> StatusResult<()> {
    let mut families: Vec<String> = list(new, "ipFamilies").into_iter().map(str::to_owned).collect();
    if families.is_empty() {
        families.extend(configured.first().map(|f| (*f).to_owned()));
    }
    if both && families.len() == 1 {
        let other = if families[0] == "IPv4" { "IPv6" } else { "IPv4" };
        families.push(other.to_owned());
    }
    set_list(new, "ipFamilies", families);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::json;

    fn settled(spec: &str, configured: &[&'static str]) -> Result<String, String> {
        let text = format!(r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"s"}},"spec":{spec}}}"#);
        let mut service = json::from_slice(text.as_bytes()).unwrap();
        match settle(&mut service, None, configured) {
            Ok(()) => Ok(format!(
                "{} {}",
                policy(&service),
                list(&service, "ipFamilies").join(",")
            )),
            Err(status) => Err(status.message),
        }
    }

    #[test]
    fn families_follow_policy_and_cluster() {
        let one: &[&str] = &["IPv4"];
        let two: &[&str] = &["IPv4", "IPv6"];
        let ok = |s: &str| Ok(s.to_owned());
        let plain = r#"{"type":"ClusterIP"}"#;
        assert_eq!(settled(plain, one), ok("SingleStack IPv4"));
        assert_eq!(settled(plain, two), ok("SingleStack IPv4"));
        let prefer = r#"{"type":"ClusterIP","ipFamilyPolicy":"PreferDualStack"}"#;
        assert_eq!(settled(prefer, one), ok("PreferDualStack IPv4"));
        assert_eq!(settled(prefer, two), ok("PreferDualStack IPv4,IPv6"));
        let headless = r#"{"type":"ClusterIP","clusterIP":"None","clusterIPs":["None"]}"#;
        assert_eq!(settled(headless, one), ok("RequireDualStack IPv4,IPv6"));
        let require = r#"{"type":"ClusterIP","ipFamilyPolicy":"RequireDualStack"}"#;
        assert_eq!(
            settled(require, one).unwrap_err(),
            "Service \"s\" is invalid: spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services"
        );
    }
}
