//! What is written down for deployments agrees with the binaries.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::path::{Path, PathBuf};

use triptych_local::cluster::binaries_folder;
use triptych_local::tier::Tier;

fn help(binary: &Path) -> String {
    let output = std::process::Command::new(binary).arg("--help").output().unwrap();
    assert!(output.status.success(), "{} --help fails", binary.display());
    String::from_utf8(output.stdout).unwrap()
}

/// The flags of the container arguments in a manifest.
fn flags(manifest: &str) -> Vec<&str> {
    let arguments = manifest.lines().filter_map(|line| line.trim().strip_prefix("- --"));
    arguments
        .map(|argument| argument.split_once('=').map_or(argument, |(name, _)| name))
        .collect()
}

#[test]
fn every_flag_of_the_manifests_is_one_of_the_tier() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/kubernetes");
    for tier in Tier::ALL {
        let manifest = std::fs::read_to_string(folder.join(format!("{tier}.yaml"))).unwrap();
        let help = help(&binaries_folder().unwrap().join(tier.name()));
        let flags = flags(&manifest);
        assert!(flags.len() > 15, "{tier}.yaml has only {flags:?}");
        let known = |flag: &&str| {
            help.split([' ', '\n', '=', '<', ','])
                .any(|word| word.strip_prefix("--") == Some(*flag))
        };
        let unknown: Vec<_> = flags.into_iter().filter(|flag| !known(flag)).collect();
        assert!(unknown.is_empty(), "{tier} does not know {unknown:?}");
    }
}

#[test]
fn the_four_binaries_are_of_one_build() {
    let folder: PathBuf = binaries_folder().unwrap();
    let build_id = |name: &str| {
        let output = std::process::Command::new(folder.join(name))
            .arg("--build-id")
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let ours = build_id("triptych");
    assert!(ours.starts_with(env!("CARGO_PKG_VERSION")), "{ours}");
    assert_eq!(
        Tier::ALL.map(|tier| build_id(tier.name())),
        Tier::ALL.map(|_| ours.clone())
    );
}
