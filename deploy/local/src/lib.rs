//! A whole control plane on one machine: its PKI, its three processes, and the way to reach it.
//!
//! Two users share it. The command `triptych up` serves until it is interrupted ([`up`]); whole-process tests build a
//! [`cluster::Cluster`], kill and restart its processes and read its logs. Both start a tier from the same [`tier::Wiring`],
//! so what the tests start is what the command starts.

pub mod binaries;
mod certificate;
pub mod client;
pub mod cluster;
pub mod etcd;
mod files;
pub mod kubeconfig;
pub mod layout;
pub mod logs;
pub mod options;
pub mod pki;
pub mod ports;
pub mod process;
pub mod readiness;
pub mod tier;
pub mod up;
