//! LeaseCandidate: who could lead, at which version.

use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{Value, meta, names};
use triptych_registry::age::age;
use triptych_registry::object_meta::RepeatedMetaChecks;
use triptych_registry::strategy::{Context, Strategy};

use super::lease::strategy;
use crate::validation::{Cursor, check};

/// The strategy of `leasecandidates`.
pub struct LeaseCandidates;

impl Strategy for LeaseCandidates {
    fn validate_create(&self, _cx: &Context, new: &Value, errors: &mut ErrorList) {
        check(new, errors, |candidate| {
            let name = candidate.field("metadata").field("name");
            name.invalid_text(names::config_map_key(name.str()));
            spec(candidate.field("spec"));
        });
    }

    fn validate_update(&self, _cx: &Context, new: &Value, old: &Value, errors: &mut ErrorList) {
        check(new, errors, |candidate| {
            spec(candidate.field("spec"));
            let lease = candidate.field("spec").field("leaseName");
            if lease.str() != old.str_at(&["spec", "leaseName"]) {
                lease.invalid(lease.str(), "field is immutable");
            }
        });
    }

    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::Update
    }

    fn standard_finalizers(&self) -> bool {
        false
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let spec = |member: &str| Value::from(object.str_at(&["spec", member]));
        Some(vec![
            meta::name(object).into(),
            spec("leaseName"),
            spec("binaryVersion"),
            spec("emulationVersion"),
            age(object, now).into(),
        ])
    }
}

fn spec(spec: Cursor<'_>) {
    if spec.str_of("leaseName").is_empty() {
        spec.field("leaseName").required("");
    }
    let (emulation, binary) = (spec.field("emulationVersion"), spec.field("binaryVersion"));
    const NO_VERSION: &str = "must be a valid semantic version";
    let emulated = semantic(emulation.str());
    if !emulation.is_empty() && emulated.is_none() {
        emulation.invalid(emulation.str(), NO_VERSION);
    }
    let built = semantic(binary.str());
    if binary.is_empty() {
        binary.required("");
    } else if built.is_none() {
        binary.invalid(binary.str(), NO_VERSION);
    }
    let (built, emulated) = (built.unwrap_or_default(), emulated.unwrap_or_default());
    if !binary.is_empty() && !emulation.is_empty() && built < emulated {
        binary.invalid(binary.str(), "must be greater than or equal to `emulationVersion`");
    }
    let named = spec.field("strategy");
    if named.is_empty() {
        named.required("");
        return;
    }
    if named.str() == "OldestEmulationVersion" && emulated == Version::default() {
        emulation.required("must be specified when `strategy` is 'OldestEmulationVersion'");
    }
    strategy(named);
}

/// Major, minor, patch, and whether it is a release (which sorts after its previews).
type Version = (u64, u64, u64, bool);

/// Reads `1.2.3`, with a pre-release or build part that only tells previews from releases.
fn semantic(text: &str) -> Option<Version> {
    let (version, _build) = text.split_once('+').unwrap_or((text, ""));
    let (core, preview) = match version.split_once('-') {
        Some((core, preview)) => (core, Some(preview)),
        None => (version, None),
    };
    if preview.is_some_and(|p| {
        p.split('.')
            .any(|part| part.is_empty() || !part.bytes().all(is_identifier))
    }) {
        return None;
    }
    let mut numbers = core.split('.').map(|part| {
        let plain = part.bytes().all(|b| b.is_ascii_digit()) && (part.len() == 1 || !part.starts_with('0'));
        plain.then(|| part.parse::<u64>().ok()).flatten()
    });
    let parsed = (numbers.next()??, numbers.next()??, numbers.next()??, preview.is_none());
    // the zero version, which upstream compares with, is that of no version at all
    numbers.next().is_none().then_some(if parsed == (0, 0, 0, true) {
        Version::default()
    } else {
        parsed
    })
}

fn is_identifier(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        assert_eq!(semantic("1.2.3"), Some((1, 2, 3, true)));
        assert!(semantic("1.2.3-alpha.1") < semantic("1.2.3"));
        for wrong in ["", "1.2", "v1.2.3", "01.2.3", "1.2.3.4", "1.2.3-"] {
            assert_eq!(semantic(wrong), None, "{wrong}");
        }
    }
}
