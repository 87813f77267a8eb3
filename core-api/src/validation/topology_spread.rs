//! Topology spread constraints.

use super::affinity::{match_label_keys, unmerged_match_label_keys};
use super::label_selector::{Lenience, label_selector};
use super::pod_options::PodOptions;
use super::{Cursor, names as rules};

/// `spec.topologySpreadConstraints`.
pub fn constraints(c: Cursor<'_>, options: &PodOptions) {
    let all: Vec<(&str, &str)> = c
        .items()
        .map(|i| (i.str_of("topologyKey"), i.str_of("whenUnsatisfiable")))
        .collect();
    for (i, constraint) in c.items().enumerate() {
        rules::positive(constraint.field("maxSkew"));
        let key = constraint.field("topologyKey");
        if key.str().is_empty() {
            key.required("can not be empty");
        }
        let action = constraint.field("whenUnsatisfiable");
        rules::one_of(action, &["DoNotSchedule", "ScheduleAnyway"]);
        if all[i + 1..].contains(&all[i]) {
            let pair = format!("{{{}, {}}}", key.str(), action.str());
            constraint.alias("{topologyKey, whenUnsatisfiable}").duplicate(pair);
        }
        if let Some(domains) = constraint.given("minDomains") {
            rules::positive(domains);
            if action.str() != "DoNotSchedule" {
                let detail = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.str()
                );
                domains.invalid(domains.int(), detail);
            }
        }
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            rules::optional_one_of(constraint.field(policy), &["Honor", "Ignore"]);
        }
        if options.unmerged_spread_keys {
            unmerged_match_label_keys(constraint);
        } else {
            match_label_keys(constraint, constraint.field("matchLabelKeys"), None);
        }
        if !options.invalid_spread_selector {
            label_selector(constraint.field("labelSelector"), Lenience::default());
        }
    }
}
