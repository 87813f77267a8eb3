//! Where everything of one control plane lies below its `--data-dir`.
//!
//! ```text
//! DIR/admin.kubeconfig         DIR/pki/…
//! DIR/run/<tier>.{pid,addr}    DIR/log/<tier>.log    DIR/data/<tier>/    (embedded store)
//! ```

use std::io;
use std::path::{Path, PathBuf};

use crate::tier::Instance;

/// The paths below one data directory.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The layout of `dir`, which is made absolute so that the tiers may run anywhere.
    pub fn new(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            dir: std::path::absolute(dir)?,
        })
    }

    /// Makes the directories that are missing.
    pub fn create(&self) -> io::Result<()> {
        ["pki", "run", "log", "data"]
            .iter()
            .try_for_each(|sub| std::fs::create_dir_all(self.dir.join(sub)))
    }

    /// The data directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubeconfig of the cluster's administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// A file of the PKI.
    pub fn pki(&self, file: impl AsRef<str>) -> PathBuf {
        self.dir.join("pki").join(file.as_ref())
    }

    /// The file whose lock says that a `triptych` runs on this directory.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("run").join("triptych.lock")
    }

    /// The file that holds the process id of a running tier.
    pub fn pid(&self, instance: Instance) -> PathBuf {
        self.dir.join("run").join(format!("{instance}.pid"))
    }

    /// The file in which a tier writes the address it serves on; it outlives the tier, so that the next start keeps the port.
    pub fn address(&self, instance: Instance) -> PathBuf {
        self.dir.join("run").join(format!("{instance}.addr"))
    }

    /// The log of a tier: what it writes to standard output and standard error.
    pub fn log(&self, instance: Instance) -> PathBuf {
        self.dir.join("log").join(format!("{instance}.log"))
    }

    /// The embedded store of a tier.
    pub fn data(&self, instance: Instance) -> PathBuf {
        self.dir.join("data").join(instance.to_string())
    }
}
