//! The harness of the whole-process tests, against fake tiers: a harness that cannot fail tests nothing.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::path::Path;

use triptych_local::cluster::{Builder, Cluster, ClusterError};
use triptych_local::tier::{Instance, Tier};

/// A folder of fake tiers and a cluster that is to use them.
fn fakes() -> (tempfile::TempDir, Builder) {
    let folder = tempfile::tempdir().unwrap();
    let fake = Path::new(env!("CARGO_BIN_EXE_triptych"))
        .parent()
        .unwrap()
        .join("examples/fake-tier");
    for tier in Tier::ALL {
        std::fs::copy(&fake, folder.path().join(tier.name())).unwrap();
    }
    let builder = Cluster::builder().binaries(folder.path());
    (folder, builder)
}

#[tokio::test]
async fn a_killed_process_comes_back_at_its_address() {
    let (_folder, builder) = fakes();
    let mut cluster = builder.start().await.unwrap();
    let core_api = Tier::CoreApi.first();
    let before = cluster.pid(core_api);
    cluster.kill(core_api).await;
    assert_eq!(cluster.pid(core_api), None);
    cluster.start_again(core_api).unwrap();
    cluster.ready().await.unwrap();
    assert_ne!(cluster.pid(core_api), before);
    assert_eq!(
        cluster
            .client_of(core_api, None)
            .unwrap()
            .get("/readyz")
            .await
            .unwrap()
            .text(),
        "ok"
    );
}

#[tokio::test]
async fn a_process_that_does_not_end_by_itself_with_0_makes_the_test_fail() {
    let (_folder, builder) = fakes();
    let cluster = builder.start().await.unwrap();
    // The fakes leave SIGTERM to its default, which is not an orderly end.
    let Err(ClusterError::Unclean(problems)) = cluster.finish(&[]).await else {
        panic!("it was taken for clean")
    };
    assert_eq!(problems, Tier::ALL.map(|tier| format!("{tier} was ended by signal 15")));
}

#[tokio::test]
async fn replicas_have_addresses_and_logs_of_their_own() {
    let (_folder, builder) = fakes();
    let cluster = builder.replicas(2).start().await.unwrap();
    let second = Instance {
        tier: Tier::ExtensionsApi,
        replica: 1,
    };
    let (a, b) = (
        cluster.wiring().address(Tier::ExtensionsApi.first()),
        cluster.wiring().address(second),
    );
    assert_ne!(a, b);
    assert!(
        cluster
            .log(second)
            .contains(&format!("--secure-port={}", b.unwrap().port()))
    );
}

#[tokio::test]
async fn a_tier_that_does_not_start_fails_with_its_log() {
    let (_folder, builder) = fakes();
    let error = builder
        .arg(Tier::CoreApi, "--die")
        .ready_within(std::time::Duration::from_secs(1))
        .start()
        .await;
    assert!(error.unwrap_err().to_string().contains("the store is on fire"));
}
