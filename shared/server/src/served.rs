//! Which built-in resources a tier serves: `--runtime-config`, `--feature-gates`, and what it must not fail open on.
//!
//! Contract: an unknown gate or group-version ends the start with a message that names it. Objects whose effect is not
//! built (webhooks, policies, quotas …) are refused unless `--allow-unenforced` names their resource: nobody believes
//! himself protected by an object that does nothing.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use triptych_options::Problems;
use triptych_schema::resource::{Need, Resource};

/// Flags about what is served.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "API enablement flags")]
pub struct ServedOptions {
    /// Turns API group-versions on or off: <group>/<version>=true|false, api/all=…, api/ga=…, api/beta=…, api/alpha=….
    #[arg(long, value_delimiter = ',', value_name = "GROUP/VERSION=BOOL")]
    pub runtime_config: Vec<String>,
    /// Turns features on or off: <name>=true|false, AllAlpha=…, AllBeta=….
    #[arg(long, value_delimiter = ',', value_name = "NAME=BOOL")]
    pub feature_gates: Vec<String>,
    /// Resources whose objects are stored although this server does not act on them yet.
    #[arg(long, value_delimiter = ',', value_name = "RESOURCE")]
    pub allow_unenforced: Vec<String>,
}

/// What is served, checked.
#[derive(Clone, Debug, Default)]
pub struct ServedSettings {
    versions: BTreeMap<String, bool>,
    gates: BTreeMap<String, bool>,
    /// Resources that may be stored although nothing acts on them.
    pub allow_unenforced: BTreeSet<String>,
}

const WHOLE: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

impl ServedOptions {
    /// Checks the flags against what the tier has.
    pub fn settings(
        self,
        resources: &[Resource],
        unenforced: &[&str],
        problems: &mut Problems,
    ) -> Option<ServedSettings> {
        let ServedOptions {
            runtime_config,
            feature_gates,
            allow_unenforced,
        } = self;
        let mut settings = ServedSettings::default();
        for entry in &runtime_config {
            let Some((name, on)) = read(entry) else {
                problems.add(
                    "--runtime-config",
                    format!("{entry:?} is not <group>/<version>=<true|false>"),
                );
                continue;
            };
            let name = if name == "v1" { "/v1" } else { name };
            let known = WHOLE.contains(&name) || resources.iter().any(|r| name == format!("{}/{}", r.group, r.version));
            // group-versions of the other tiers are theirs to know
            if known {
                settings.versions.insert(name.to_owned(), on);
            }
        }
        for entry in &feature_gates {
            match read(entry) {
                Some((name, on)) => drop(settings.gates.insert(name.to_owned(), on)),
                None => problems.add("--feature-gates", format!("{entry:?} is not <name>=<true|false>")),
            }
        }
        for resource in allow_unenforced {
            if unenforced.contains(&resource.as_str()) {
                settings.allow_unenforced.insert(resource);
            } else {
                let known = if unenforced.is_empty() {
                    "none".to_owned()
                } else {
                    unenforced.join(", ")
                };
                problems.add(
                    "--allow-unenforced",
                    format!("{resource:?} is none of the unenforced resources ({known})"),
                );
            }
        }
        problems.is_empty().then_some(settings)
    }
}

fn read(entry: &str) -> Option<(&str, bool)> {
    match entry.split_once('=') {
        Some((name, value)) => Some((name, value.parse().ok()?)),
        None => Some((entry, true)),
    }
}

impl ServedSettings {
    /// Whether a feature is on that is off (or, with `by_default`, on) unless flags say otherwise.
    pub fn gate(&self, name: &str, by_default: bool) -> bool {
        self.gates.get(name).copied().unwrap_or(by_default)
    }

    /// Whether a resource is served.
    pub fn serves(&self, resource: &Resource) -> bool {
        let version = format!("{}/{}", resource.group, resource.version);
        let stage = match () {
            () if resource.version.contains("alpha") => "api/alpha",
            () if resource.version.contains("beta") => "api/beta",
            () => "api/ga",
        };
        let said = [version.as_str(), stage, "api/all"]
            .iter()
            .find_map(|name| self.versions.get(*name).copied());
        let gates = resource.needs.iter().all(|need| match need {
            Need::FeatureGate(gate) => self.gate(gate, false),
            Need::RuntimeConfig => true,
        });
        let needs_config = resource.needs.contains(&Need::RuntimeConfig);
        said.unwrap_or(!needs_config) && gates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &'static str, version: &'static str, needs: Vec<Need>) -> Resource {
        Resource {
            group: group.into(),
            version: version.into(),
            needs,
            ..Resource::default()
        }
    }

    fn settings(runtime: &[&str], gates: &[&str]) -> ServedSettings {
        let all = [
            resource("apps", "v1", vec![]),
            resource("x", "v1alpha1", vec![Need::RuntimeConfig]),
        ];
        let texts = |t: &[&str]| t.iter().map(|s| (*s).to_owned()).collect();
        let options = ServedOptions {
            runtime_config: texts(runtime),
            feature_gates: texts(gates),
            allow_unenforced: vec![],
        };
        options.settings(&all, &[], &mut Problems::default()).unwrap()
    }

    #[test]
    fn what_is_off_by_default_needs_a_flag() {
        let alpha = resource("x", "v1alpha1", vec![Need::RuntimeConfig]);
        assert!(!settings(&[], &[]).serves(&alpha));
        assert!(settings(&["x/v1alpha1=true"], &[]).serves(&alpha));
        assert!(settings(&["api/all=true"], &[]).serves(&alpha));
        assert!(!settings(&["api/all=true", "x/v1alpha1=false"], &[]).serves(&alpha));
        let gated = resource("x", "v1", vec![Need::FeatureGate("G".into())]);
        assert!(!settings(&[], &[]).serves(&gated));
        assert!(settings(&[], &["G=true"]).serves(&gated));
    }

    #[test]
    fn stable_groups_can_be_turned_off() {
        assert!(!settings(&["apps/v1=false"], &[]).serves(&resource("apps", "v1", vec![])));
    }

    #[test]
    fn unknown_unenforced_resources_are_refused() {
        let options = ServedOptions {
            runtime_config: vec![],
            feature_gates: vec![],
            allow_unenforced: vec!["pods".into()],
        };
        let mut problems = Problems::default();
        assert!(options.settings(&[], &["resourcequotas"], &mut problems).is_none());
    }
}
