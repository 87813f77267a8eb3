//! The tiers' binaries beside our own, and what they say of themselves before any of them is started.
//!
//! `<tier> --build-id` prints the tier's build id on its first line. Further lines may follow.

use std::io;
use std::path::{Path, PathBuf};

use crate::tier::Tier;

/// Why the tiers' binaries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// A binary could not be run.
    #[error("cannot run {}, which should lie beside triptych", path.display())]
    Run {
        /// The executable.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A binary is of another build.
    #[error("{} is of build {theirs:?}, not {ours:?}: build all four together", path.display())]
    Build {
        /// The executable.
        path: PathBuf,
        /// Its build id.
        theirs: String,
        /// The build id it should have.
        ours: String,
    },
}

/// The tiers' binaries, looked at.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Looks at the binaries in `folder`: each must be of build `build_id`, or, without one, all of the same.
    pub async fn inspect(folder: &Path, build_id: Option<&str>) -> Result<Self, BinaryError> {
        let [a, b, c] = Tier::ALL.map(|tier| describe(folder.join(tier.name())));
        let (a, b, c) = tokio::join!(a, b, c);
        let mut expected = build_id.map(str::to_owned);
        for (tier, text) in Tier::ALL.into_iter().zip([a?, b?, c?]) {
            let theirs = text.lines().next().unwrap_or_default().trim();
            let ours = expected.get_or_insert_with(|| theirs.to_owned());
            if theirs != *ours {
                let (path, theirs) = (folder.join(tier.name()), theirs.to_owned());
                return Err(BinaryError::Build {
                    path,
                    theirs,
                    ours: ours.clone(),
                });
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// The executable of a tier.
    pub fn executable(&self, tier: Tier) -> PathBuf {
        self.folder.join(tier.name())
    }
}

async fn describe(path: PathBuf) -> Result<String, BinaryError> {
    let output = tokio::process::Command::new(&path)
        .arg("--build-id")
        .stdin(std::process::Stdio::null())
        .output()
        .await;
    match output {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(source) => Err(BinaryError::Run { path, source }),
    }
}
