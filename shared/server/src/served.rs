//! Which built-in resources a tier serves: `--runtime-config`, `--feature-gates`.
//!
//! Contract: a malformed gate or group-version ends the start with a message that names it.

use std::collections::BTreeMap;

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
}

/// What is served, checked.
#[derive(Clone, Debug, Default)]
pub struct ServedSettings {
    versions: BTreeMap<String, bool>,
    gates: BTreeMap<String, bool>,
}

const WHOLE: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

impl ServedOptions {
    /// Checks the flags against what the tier has.
    pub fn settings(self, resources: &[Resource], problems: &mut Problems) -> Option<ServedSettings> {
        let ServedOptions {
            runtime_config,
            feature_gates,
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
        };
        options.settings(&all, &mut Problems::default()).unwrap()
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
}
