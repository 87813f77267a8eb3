//! What a CertificateSigningRequest must satisfy, and what each of its subresources may change. What a stored request
//! already has is tolerated in its updates.

use std::collections::HashSet;

use triptych_object::Value;
use triptych_object::field::ErrorList;

use super::signing_request;
use crate::unified_diff;
use crate::validation::{Cursor, bytes, check, go_struct, names as rules};

/// The signer agreed to it.
pub const APPROVED: &str = "Approved";
/// The signer will not sign.
pub const DENIED: &str = "Denied";
/// Signing failed for good.
pub const FAILED: &str = "Failed";
const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const MIN_SECONDS: i64 = 600;
const CERTIFICATE: [&str; 2] = ["status", "certificate"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// What of a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The resource itself: only metadata can change.
    Whole,
    /// Conditions that approve or deny.
    Approval,
    /// The certificate and other conditions.
    Status,
}

/// The conditions of a type.
pub fn conditions<'a>(request: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = request.array_at(&["status", "conditions"]).iter();
    all.filter(move |c| c.str_at(&["type"]) == kind)
}

/// What is tolerated because it was stored before.
#[derive(Clone, Copy, Debug, Default)]
struct Lenience {
    approved_and_denied: bool,
    legacy_signer: bool,
    duplicate_conditions: bool,
    empty_condition_types: bool,
    any_certificate: bool,
    duplicate_usages: bool,
    unknown_usages: bool,
}

impl Lenience {
    fn of(new: &Value, old: &Value) -> Lenience {
        let has = |kind| conditions(old, kind).next().is_some();
        let types: Vec<&str> = old
            .array_at(&["status", "conditions"])
            .iter()
            .map(|c| c.str_at(&["type"]))
            .collect();
        let usages: Vec<&str> = old
            .array_at(&["spec", "usages"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let repeats = |texts: &[&str]| texts.iter().collect::<HashSet<_>>().len() < texts.len();
        let certificate = old.str_at(&CERTIFICATE);
        Lenience {
            approved_and_denied: has(APPROVED) && has(DENIED),
            legacy_signer: old.str_at(&["spec", "signerName"]) == LEGACY_SIGNER,
            duplicate_conditions: repeats(&types),
            empty_condition_types: types.contains(&""),
            any_certificate: new.str_at(&CERTIFICATE) == certificate
                || signing_request::check_certificates(&bytes::decode(certificate)).is_err(),
            duplicate_usages: repeats(&usages),
            unknown_usages: usages.iter().any(|u| !USAGES.contains(u)),
        }
    }
}

/// Reports what is wrong with a new request.
pub fn create(new: &Value, errors: &mut ErrorList) {
    check(new, errors, |request| whole(request, Lenience::default()));
}

/// Reports what is wrong with an update of a part.
pub fn update(part: Part, new: &Value, old: &Value, errors: &mut ErrorList) {
    check(new, errors, |request| {
        whole(request, Lenience::of(new, old));
        let list = request.field("status").field("conditions");
        for kind in [APPROVED, DENIED, FAILED] {
            if conditions(new, kind).count() < conditions(old, kind).count() {
                list.forbidden(format!("updates may not remove a condition of type \"{kind}\""));
            }
        }
        if part != Part::Approval {
            unapproved(list, new, old);
        }
        let certificate = request.field("status").field("certificate");
        let before = old.str_at(&CERTIFICATE);
        if certificate.str() != before {
            if part != Part::Status {
                certificate.forbidden("updates may not set certificate content");
            } else if !before.is_empty() {
                certificate.forbidden("updates may not modify existing certificate content");
            }
        }
    });
}

/// Approval and denial may not come or change.
fn unapproved(list: Cursor<'_>, new: &Value, old: &Value) {
    for kind in [APPROVED, DENIED] {
        let have: Vec<&Value> = conditions(new, kind).collect();
        let had: Vec<&Value> = conditions(old, kind).collect();
        if have.len() > had.len() {
            list.forbidden(format!("updates may not add a condition of type \"{kind}\""));
        } else if have.len() == had.len() && have != had {
            let diff = unified_diff::of_values(&shown(&had), &shown(&have));
            list.forbidden(format!("updates may not modify a condition of type \"{kind}\"\n{diff}"));
        }
    }
}

/// Conditions as Go shows them.
fn shown(conditions: &[&Value]) -> Value {
    let schema = crate::schema::types();
    let ty = schema.and_then(|s| {
        let ty = s.named("io.k8s.api.certificates.v1.CertificateSigningRequestCondition")?;
        Some((s, ty))
    });
    let show = |condition: &&Value| match ty {
        Some((schema, ty)) => go_struct::of_type(schema, ty, Some(condition)),
        None => (*condition).clone(),
    };
    Value::Array(conditions.iter().map(show).collect())
}

fn whole(request: Cursor<'_>, lenience: Lenience) {
    let spec = request.field("spec");
    let document = spec.field("request");
    if let Err(why) = signing_request::check(&bytes::decode(document.str())) {
        document.invalid(document.shown(), why);
    }
    usages(spec.field("usages"), lenience);
    let signer = spec.field("signerName");
    if !lenience.legacy_signer && signer.str() == LEGACY_SIGNER {
        signer.invalid(
            signer.str(),
            "the legacy signerName is not allowed via this API version",
        );
    } else {
        rules::signer_name(signer);
    }
    let seconds = spec.field("expirationSeconds");
    if seconds.exists() && seconds.int() < MIN_SECONDS {
        seconds.invalid(
            seconds.int(),
            "may not specify a duration less than 600 seconds (10 minutes)",
        );
    }
    condition_list(request.field("status").field("conditions"), lenience);
    let certificate = request.field("status").field("certificate");
    if !lenience.any_certificate
        && let Err(why) = signing_request::check_certificates(&bytes::decode(certificate.str()))
    {
        certificate.invalid("<certificate data>", why);
    }
}

fn usages(usages: Cursor<'_>, lenience: Lenience) {
    if usages.is_empty() {
        usages.required("");
    }
    if !lenience.unknown_usages {
        usages.items().for_each(|usage| rules::one_of(usage, &USAGES));
    }
    if !lenience.duplicate_usages {
        let mut seen = HashSet::new();
        for usage in usages.items() {
            if !seen.insert(usage.str()) {
                usage.duplicate(usage.str());
            }
        }
    }
}

fn condition_list(list: Cursor<'_>, lenience: Lenience) {
    let mut seen = HashSet::new();
    for condition in list.items() {
        let (kind, status) = (condition.field("type"), condition.field("status"));
        if kind.is_empty() && !lenience.empty_condition_types {
            kind.required("");
        }
        let always_true = [APPROVED, DENIED, FAILED].contains(&kind.str());
        rules::required_one_of(
            status,
            if always_true {
                &["True"]
            } else {
                &["False", "True", "Unknown"]
            },
        );
        let other = match kind.str() {
            APPROVED => Some(DENIED),
            DENIED => Some(APPROVED),
            _ => None,
        };
        if !lenience.approved_and_denied && other.is_some_and(|other| seen.contains(other)) {
            list.invalid(kind.str(), EXCLUSIVE);
        }
        if !seen.insert(kind.str()) && !lenience.duplicate_conditions {
            kind.duplicate(kind.str());
        }
    }
}
