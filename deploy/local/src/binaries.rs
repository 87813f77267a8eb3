//! The tiers' binaries beside our own, and what they say of themselves before any of them is started.
//!
//! `<tier> --build-id` prints the tier's build id on its first line. Further lines may follow; one that begins with
//! `unenforced: ` lists, comma-separated, the kinds that the tier stores without acting on them and therefore refuses
//! unless `--allow-unenforced` names them.

use std::collections::BTreeMap;
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
    /// The user names a kind that no tier knows as unenforced.
    #[error("--allow-unenforced: no tier lists {kind:?}; they list {listed}")]
    Kind {
        /// The kind.
        kind: String,
        /// The kinds that tiers list.
        listed: String,
    },
}

/// The tiers' binaries, looked at.
#[derive(Clone, Debug)]
pub struct Binaries {
    folder: PathBuf,
    unenforced: BTreeMap<Tier, Vec<String>>,
}

impl Binaries {
    /// Looks at the binaries in `folder`: each must be of build `build_id`, or, without one, all of the same.
    pub async fn inspect(folder: &Path, build_id: Option<&str>) -> Result<Self, BinaryError> {
        let [a, b, c] = Tier::ALL.map(|tier| describe(folder.join(tier.name())));
        let (a, b, c) = tokio::join!(a, b, c);
        let mut expected = build_id.map(str::to_owned);
        let mut unenforced = BTreeMap::new();
        for (tier, text) in Tier::ALL.into_iter().zip([a?, b?, c?]) {
            let mut lines = text.lines();
            let theirs = lines.next().unwrap_or_default().trim();
            let ours = expected.get_or_insert_with(|| theirs.to_owned());
            if theirs != *ours {
                let (path, theirs) = (folder.join(tier.name()), theirs.to_owned());
                return Err(BinaryError::Build {
                    path,
                    theirs,
                    ours: ours.clone(),
                });
            }
            let kinds = lines
                .find_map(|line| line.strip_prefix("unenforced: "))
                .unwrap_or_default();
            unenforced.insert(
                tier,
                kinds
                    .split(',')
                    .map(str::trim)
                    .filter(|k| !k.is_empty())
                    .map(str::to_owned)
                    .collect(),
            );
        }
        Ok(Self {
            folder: folder.to_owned(),
            unenforced,
        })
    }

    /// The executable of a tier.
    pub fn executable(&self, tier: Tier) -> PathBuf {
        self.folder.join(tier.name())
    }

    /// The kinds that each tier is told to accept although their effect is not built: all that it lists, or those of them
    /// that the user names.
    pub fn unenforced(&self, named: Option<&[String]>) -> Result<BTreeMap<Tier, Vec<String>>, BinaryError> {
        let Some(named) = named else {
            return Ok(self.unenforced.clone());
        };
        let listed = || self.unenforced.values().flatten();
        if let Some(kind) = named.iter().find(|kind| !listed().any(|known| known == *kind)) {
            let listed = listed().map(String::as_str).collect::<Vec<_>>().join(", ");
            let listed = if listed.is_empty() { "none".to_owned() } else { listed };
            return Err(BinaryError::Kind {
                kind: kind.clone(),
                listed,
            });
        }
        let allowed = |kinds: &Vec<String>| kinds.iter().filter(|kind| named.contains(kind)).cloned().collect();
        Ok(self
            .unenforced
            .iter()
            .map(|(tier, kinds)| (*tier, allowed(kinds)))
            .collect())
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
