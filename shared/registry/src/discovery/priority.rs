//! Where group-versions stand in discovery: the priorities of their APIServices.
//!
//! The table is what kube-apiserver registers its own groups with; everything from a CRD has [`Priority::CUSTOM`].

/// `groupPriorityMinimum` and `versionPriority` of an APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// The highest of a group's versions decides where the group stands; higher comes first.
    pub group: i32,
    /// Where the version stands in its group; higher comes first.
    pub version: i32,
}

impl Priority {
    /// Custom resources.
    pub const CUSTOM: Priority = Priority {
        group: 1000,
        version: 100,
    };

    /// What a built-in group-version is registered with; none for groups that are not built in.
    pub fn built_in(group: &str, version: &str) -> Option<Priority> {
        let (_, priority, versions) = BUILT_IN.iter().find(|(name, ..)| *name == group)?;
        let (_, version) = versions.iter().find(|(name, _)| *name == version)?;
        Some(Priority {
            group: *priority,
            version: *version,
        })
    }

    /// True if any version of the group is built in.
    pub fn is_built_in(group: &str) -> bool {
        BUILT_IN.iter().any(|(name, ..)| *name == group)
    }

    /// What a group-version is registered with when nothing else is said.
    pub fn of(group: &str, version: &str) -> Priority {
        Self::built_in(group, version).unwrap_or(Self::CUSTOM)
    }
}

type Versions = &'static [(&'static str, i32)];

/// Group, its priority, its versions with theirs. `apiregistration.k8s.io` has no APIService: it is always first.
const BUILT_IN: [(&str, i32, Versions); 23] = [
    ("apiregistration.k8s.io", 20_000, &[("v1", 18)]),
    ("", 18_000, &[("v1", 1)]),
    ("apps", 17_800, &[("v1", 15)]),
    ("events.k8s.io", 17_750, &[("v1", 15)]),
    (
        "authentication.k8s.io",
        17_700,
        &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)],
    ),
    ("authorization.k8s.io", 17_600, &[("v1", 15)]),
    ("autoscaling", 17_500, &[("v2", 30), ("v1", 15)]),
    ("batch", 17_400, &[("v1", 15)]),
    (
        "certificates.k8s.io",
        17_300,
        &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)],
    ),
    ("networking.k8s.io", 17_200, &[("v1", 15), ("v1beta1", 9)]),
    ("policy", 17_100, &[("v1", 15)]),
    ("rbac.authorization.k8s.io", 17_000, &[("v1", 15)]),
    ("storage.k8s.io", 16_800, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    (
        "admissionregistration.k8s.io",
        16_700,
        &[("v1", 15), ("v1beta1", 12), ("v1alpha1", 9)],
    ),
    ("apiextensions.k8s.io", 16_700, &[("v1", 15)]),
    ("scheduling.k8s.io", 16_600, &[("v1", 15), ("v1alpha2", 2)]),
    (
        "coordination.k8s.io",
        16_500,
        &[("v1", 15), ("v1beta1", 13), ("v1alpha2", 12)],
    ),
    ("node.k8s.io", 16_300, &[("v1", 15)]),
    ("discovery.k8s.io", 16_200, &[("v1", 15)]),
    (
        "resource.k8s.io",
        16_200,
        &[("v1", 21), ("v1beta2", 15), ("v1beta1", 9), ("v1alpha3", 1)],
    ),
    ("flowcontrol.apiserver.k8s.io", 16_100, &[("v1", 21)]),
    ("internal.apiserver.k8s.io", 16_000, &[("v1alpha1", 9)]),
    ("storagemigration.k8s.io", 15_800, &[("v1beta1", 9)]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_a_crd_comes_after_every_built_in_group() {
        assert_eq!(Priority::of("example.com", "v1"), Priority::CUSTOM);
        assert_eq!(Priority::of("apps", "v1").group, 17_800);
        assert_eq!(Priority::of("apps", "v9"), Priority::CUSTOM);
    }
}
