//! kubectl against a whole control plane, on both stores: the sessions in `tests/kubectl/`, in order.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::path::Path;

use triptych_local::cluster::{Builder, Cluster};
use triptych_local::etcd::Etcd;
use triptych_tests::session::Session;

fn kubectl_is_here() -> bool {
    let here = std::process::Command::new("kubectl")
        .arg("version")
        .arg("--client")
        .output()
        .is_ok();
    if !here {
        println!("skipped: there is no kubectl on this machine");
    }
    here
}

fn sessions() -> Vec<Session> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kubectl");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let parse = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        Session::parse(&name, &std::fs::read_to_string(path).unwrap()).unwrap()
    };
    paths.iter().map(parse).collect()
}

async fn every_session_passes(builder: Builder) {
    let cluster = builder.start().await.unwrap();
    let (mut commands, mut mismatches) = (0, Vec::new());
    for session in sessions() {
        // Each session has a kubeconfig of its own, whose namespace it sets, and a home for kubectl's caches.
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::copy(cluster.wiring().layout.kubeconfig(), &kubeconfig).unwrap();
        let (kubeconfig, home) = (kubeconfig.to_string_lossy(), folder.path().to_string_lossy());
        let environment = [("KUBECONFIG", &*kubeconfig), ("HOME", &*home)];
        mismatches.extend(session.run(folder.path(), &environment).await.unwrap());
        commands += session.commands();
    }
    let text: String = mismatches.iter().map(|m| format!("\n{m}")).collect();
    assert!(
        mismatches.is_empty(),
        "{} of {commands} commands differ:{text}",
        mismatches.len()
    );
    println!("{commands} commands");
    cluster.finish(&[]).await.unwrap();
}

#[tokio::test]
async fn kubectl_works_on_the_embedded_store() {
    if kubectl_is_here() {
        every_session_passes(Cluster::builder().embedded()).await;
    }
}

#[tokio::test]
async fn kubectl_works_on_etcd() {
    let Some(binary) = Etcd::binary().filter(|_| kubectl_is_here()) else {
        println!("skipped: TRIPTYCH_ETCD names no etcd, or there is no kubectl");
        return;
    };
    let etcd = Etcd::start(binary).await.unwrap();
    every_session_passes(Cluster::builder().etcd(etcd.url())).await;
}
