//! Approval of CRDs in Kubernetes' own groups (KEP-2337): an annotation with the URL of the approval.

use triptych_object::{Value, meta};

/// The annotation.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";

/// What the annotation comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Neither a URL nor a reason.
    Invalid,
    /// A URL.
    Approved,
    /// `unapproved…`.
    Bypassed,
    /// There is none.
    Missing,
}

/// Whether a group belongs to the Kubernetes community.
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// The state of a CRD's approval, and what is said of it.
pub fn state(crd: &Value) -> (Approval, String) {
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotation = meta::annotation(crd, ANNOTATION).unwrap_or("");
    let must = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    if annotation.is_empty() {
        return (Approval::Missing, format!("{must}, {SEE}"));
    }
    if annotation.starts_with("unapproved") {
        let quoted = triptych_object::field::quote(annotation);
        return (Approval::Bypassed, format!("not approved: {quoted}"));
    }
    if is_url(annotation) {
        return (Approval::Approved, format!("approved in {annotation}"));
    }
    let either = "with either a URL or a reason starting with \"unapproved\"";
    (Approval::Invalid, format!("{must} {either}, {SEE}"))
}

/// An absolute URL with a host.
fn is_url(text: &str) -> bool {
    text.contains("://")
        && text
            .parse::<http::Uri>()
            .is_ok_and(|uri| uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kubernetes_own_groups_need_approval() {
        for (group, want) in [
            ("k8s.io", true),
            ("x.k8s.io", true),
            ("notk8s.io", false),
            ("a.kubernetes.io", true),
        ] {
            assert_eq!(is_protected(group), want, "{group}");
        }
    }

    #[test]
    fn an_approval_is_a_url() {
        for (text, want) in [
            ("https://github.com/kubernetes/kubernetes/pull/1", Approval::Approved),
            ("unapproved, experimental", Approval::Bypassed),
            ("not a url", Approval::Invalid),
            ("", Approval::Missing),
        ] {
            let mut crd = Value::object();
            meta::set_annotation(&mut crd, ANNOTATION, text);
            assert_eq!(state(&crd).0, want, "{text}");
        }
    }
}
