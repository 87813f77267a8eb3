//! Feature gates that the schema texts name and that are off by default in Kubernetes 1.36; all others are on.

const OFF: &[&str] = &[
    "ClusterTrustBundle",
    "ClusterTrustBundleProjection",
    "ContainerStopSignals",
    "CoordinatedLeaderElection",
    "CrossNamespaceVolumeDataSource",
    "DRAListTypeAttributes",
    "DRANodeAllocatableResources",
    "DRAWorkloadResourceClaims",
    "GenericWorkload",
    "ImageVolumeWithDigest",
    "MaxUnavailableStatefulSet",
    "PodCertificateProjection",
    "PodCertificateRequest",
    "PodLogsQuerySplitStreams",
    "StorageVersionMigrator",
    "TopologyAwareWorkloadScheduling",
    "VolumeLimitScaling",
    "WorkloadAwarePreemption",
];

/// Whether a gate is on by default.
pub fn is_on(gate: &str) -> bool {
    !OFF.contains(&gate)
}
