//! The arrows between the crates, as ARCHITECTURE.md has them: a crate builds only on those before it in the order, and
//! the protocol core does no I/O.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::collections::BTreeMap;
use std::process::Command;

/// Each crate may depend on those above it.
const ORDER: &[&[&str]] = &[
    &["object"],
    &["options"],
    &["schema-compiler", "descriptions"],
    &["schema"],
    &["cel"],
    &["storage"],
    &["client"],
    &["registry"],
    &["auth"],
    &["admission"],
    &["server"],
    &["aggregator", "core-api", "extensions-api"],
];
/// Crates beside the order, and what they may build on. The launcher knows the tiers as processes, never as code.
const BESIDE: &[(&str, &[&str])] = &[("local", &["object", "options"])];
/// Crates in which protocol logic must stay testable without a server, and what would end that.
const PURE: &[&str] = &["object", "schema", "cel"];
const IMPURE: &[&str] = &[
    "tokio",
    "hyper",
    "hyper-util",
    "futures-util",
    "rustls",
    "etcd-client",
    "async-trait",
];

/// The dependencies of each crate of the workspace, without those for tests.
fn crates() -> BTreeMap<String, Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo metadata answers JSON");
    let name = |v: &serde_json::Value| v["name"].as_str().unwrap().to_owned();
    let dependencies = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|d| d["kind"].as_str() != Some("dev")).map(name).collect()
    };
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| (name(p), dependencies(p)))
        .collect()
}

/// `None` for a crate that has no place, else what is wrong with its arrows.
fn wrong_arrows(name: &str, dependencies: &[&str]) -> Option<Vec<String>> {
    if name == "tests" {
        return Some(Vec::new());
    }
    let allowed: Vec<&str> = match BESIDE.iter().find(|(beside, _)| *beside == name) {
        Some((_, allowed)) => allowed.to_vec(),
        None => {
            let rank = ORDER.iter().position(|rank| rank.contains(&name))?;
            ORDER[..rank].concat()
        }
    };
    Some(
        dependencies
            .iter()
            .filter(|d| !allowed.contains(d))
            .map(|d| format!("{name} → {d}"))
            .collect(),
    )
}

#[test]
fn crates_depend_only_on_those_before_them() {
    let mut wrong = Vec::new();
    for (name, dependencies) in crates() {
        let short = name
            .strip_prefix("triptych-")
            .expect("crates of this workspace are named triptych-*");
        let dependencies: Vec<_> = dependencies
            .iter()
            .filter_map(|d| d.strip_prefix("triptych-"))
            .collect();
        match wrong_arrows(short, &dependencies) {
            Some(found) => wrong.extend(found),
            None => wrong.push(format!("{short} has no place in the order")),
        }
    }
    assert!(wrong.is_empty(), "arrows that should not be: {wrong:#?}");
}

#[test]
fn the_protocol_core_does_no_io_and_nothing_async() {
    let crates = crates();
    for name in PURE {
        let Some(dependencies) = crates.get(&format!("triptych-{name}")) else {
            continue;
        };
        let impure: Vec<_> = dependencies.iter().filter(|d| IMPURE.contains(&d.as_str())).collect();
        assert!(impure.is_empty(), "{name} depends on {impure:?}");
    }
}

#[test]
fn an_arrow_back_is_found() {
    assert_eq!(wrong_arrows("storage", &["object", "options"]), Some(Vec::new()));
    assert_eq!(
        wrong_arrows("storage", &["registry"]),
        Some(vec!["storage → registry".to_owned()])
    );
    assert_eq!(
        wrong_arrows("core-api", &["aggregator"]),
        Some(vec!["core-api → aggregator".to_owned()])
    );
    assert_eq!(wrong_arrows("utils", &[]), None);
}
