//! Which plugins run and in which order: `--enable-admission-plugins`, `--disable-admission-plugins`.
//!
//! Contract: order and defaults are kube-apiserver's, whatever the order of the flags. A name that kube-apiserver does
//! not know ends the start; so does enabling a plugin that is known but not built, since its user would believe himself
//! protected. A plugin whose feature gate is off may be named, to no effect.

use std::collections::BTreeSet;

use clap::Args;
use triptych_options::Problems;

use crate::chain::Plugin;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Runs unless disabled.
    On,
    /// Runs if enabled.
    Off,
    /// Its feature gate is off: it would do nothing.
    Gated,
    /// Not built.
    Missing,
}
use State::{Gated, Missing, Off, On};

/// All plugins of kube-apiserver in the order in which they run.
const ORDER: &[(&str, State)] = &[
    ("AlwaysAdmit", Gated),
    ("NamespaceAutoProvision", Missing),
    ("NamespaceLifecycle", On),
    ("NamespaceExists", Missing),
    ("LimitPodHardAntiAffinityTopology", Missing),
    ("LimitRanger", On),
    ("ServiceAccount", On),
    ("NodeRestriction", Off),
    ("TaintNodesByCondition", On),
    ("AlwaysPullImages", Missing),
    ("ImagePolicyWebhook", Missing),
    ("PodSecurity", On),
    ("PodNodeSelector", Missing),
    ("Priority", On),
    ("DefaultTolerationSeconds", On),
    ("PodTolerationRestriction", Missing),
    ("EventRateLimit", Missing),
    ("ExtendedResourceToleration", Missing),
    ("DefaultStorageClass", On),
    ("StorageObjectInUseProtection", On),
    ("PodGroupProtection", Gated),
    ("OwnerReferencesPermissionEnforcement", Missing),
    ("PersistentVolumeClaimResize", On),
    ("RuntimeClass", On),
    ("CertificateApproval", On),
    ("CertificateSigning", On),
    ("ClusterTrustBundleAttest", Gated),
    ("CertificateSubjectRestriction", On),
    ("DefaultIngressClass", On),
    ("DenyServiceExternalIPs", Off),
    ("PodTopologyLabels", On),
    ("PodGroupWorkloadExists", Gated),
    ("NodeDeclaredFeatureValidator", On),
    ("JobValidation", Gated),
    ("PodResizeValidator", On),
    ("MutatingAdmissionPolicy", On),
    ("MutatingAdmissionWebhook", On),
    ("ValidatingAdmissionPolicy", On),
    ("ValidatingAdmissionWebhook", On),
    ("ResourceQuota", On),
    ("AlwaysDeny", Missing),
];

/// Flags about admission.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Admission flags")]
pub struct AdmissionOptions {
    /// Admission plugins to run besides those that run by default.
    #[arg(long, value_delimiter = ',', value_name = "PLUGIN")]
    enable_admission_plugins: Vec<String>,
    /// Admission plugins not to run although they run by default.
    #[arg(long, value_delimiter = ',', value_name = "PLUGIN")]
    disable_admission_plugins: Vec<String>,
    /// How long a pod that says nothing of it stays on a node that is not ready.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    default_not_ready_toleration_seconds: i64,
    /// How long a pod that says nothing of it stays on a node that cannot be reached.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, allow_negative_numbers = true)]
    default_unreachable_toleration_seconds: i64,
}

/// What the flags ask for, checked.
#[derive(Clone, Debug)]
pub struct AdmissionSettings {
    enabled: BTreeSet<String>,
    disabled: BTreeSet<String>,
    /// For DefaultTolerationSeconds.
    pub not_ready_seconds: i64,
    /// For DefaultTolerationSeconds.
    pub unreachable_seconds: i64,
}

impl AdmissionOptions {
    /// Checks the names.
    pub fn settings(self, problems: &mut Problems) -> AdmissionSettings {
        let AdmissionOptions {
            enable_admission_plugins,
            disable_admission_plugins,
            default_not_ready_toleration_seconds,
            default_unreachable_toleration_seconds,
        } = self;
        let enabled: BTreeSet<String> = enable_admission_plugins.into_iter().collect();
        let disabled: BTreeSet<String> = disable_admission_plugins.into_iter().collect();
        for name in &enabled {
            match state(name) {
                None => problems.add("--enable-admission-plugins", format!("plugin {name:?} is unknown")),
                Some(Missing) => problems.add(
                    "--enable-admission-plugins",
                    format!("plugin {name:?} is not part of this server yet"),
                ),
                Some(On | Off | Gated) => {}
            }
        }
        for name in disabled.iter().filter(|name| state(name).is_none()) {
            problems.add("--disable-admission-plugins", format!("plugin {name:?} is unknown"));
        }
        let both: Vec<&str> = enabled.intersection(&disabled).map(String::as_str).collect();
        if !both.is_empty() {
            let names = both.join(" ");
            problems.add(
                "--enable-admission-plugins",
                format!("[{names}] in enable-admission-plugins and disable-admission-plugins overlapped"),
            );
        }
        AdmissionSettings {
            enabled,
            disabled,
            not_ready_seconds: default_not_ready_toleration_seconds,
            unreachable_seconds: default_unreachable_toleration_seconds,
        }
    }
}

impl AdmissionSettings {
    /// Those plugins that are to run, in order.
    pub fn select(&self, mut plugins: Vec<Box<dyn Plugin>>) -> Vec<Box<dyn Plugin>> {
        plugins.retain(|plugin| {
            let name = plugin.name();
            self.enabled.contains(name) || (state(name) != Some(Off) && !self.disabled.contains(name))
        });
        plugins.sort_by_key(|plugin| ORDER.iter().position(|(name, _)| *name == plugin.name()));
        plugins
    }
}

fn state(name: &str) -> Option<State> {
    ORDER.iter().find(|(known, _)| *known == name).map(|(_, state)| *state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::default_toleration_seconds::DefaultTolerationSeconds;
    use crate::taint_nodes_by_condition::TaintNodesByCondition;
    use clap::Parser;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        admission: AdmissionOptions,
    }

    fn settings(flags: &[&str]) -> Result<AdmissionSettings, String> {
        let flags = Flags::parse_from(std::iter::once("x").chain(flags.iter().copied()));
        let mut problems = Problems::default();
        let settings = flags.admission.settings(&mut problems);
        problems.finish(Some(settings)).map_err(|e| e.to_string())
    }

    fn names(flags: &[&str]) -> Vec<&'static str> {
        let tolerations = DefaultTolerationSeconds {
            not_ready: 1,
            unreachable: 1,
        };
        let plugins: Vec<Box<dyn Plugin>> = vec![Box::new(tolerations), Box::new(TaintNodesByCondition)];
        let plugins = settings(flags).unwrap().select(plugins);
        plugins.iter().map(|plugin| plugin.name()).collect()
    }

    #[test]
    fn plugins_run_in_their_order_unless_disabled() {
        assert_eq!(names(&[]), ["TaintNodesByCondition", "DefaultTolerationSeconds"]);
        assert_eq!(
            names(&["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"]),
            ["DefaultTolerationSeconds"]
        );
    }

    #[test]
    fn bad_names_are_told_together() {
        let flags = [
            "--enable-admission-plugins=Foo,EventRateLimit,Priority",
            "--disable-admission-plugins=Bar,Priority",
        ];
        let told = settings(&flags).unwrap_err();
        for problem in [
            "plugin \"Foo\" is unknown",
            "plugin \"EventRateLimit\" is not part of this server yet",
            "plugin \"Bar\" is unknown",
            "[Priority] in enable-admission-plugins and disable-admission-plugins overlapped",
        ] {
            assert!(told.contains(problem), "{told}");
        }
    }
}
