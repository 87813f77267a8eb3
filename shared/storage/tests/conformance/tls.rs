//! An etcd that wants client certificates.

use std::path::Path;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use triptych_storage::{Etcd, EtcdOptions, Metrics, Store};

use crate::harness::{EtcdServer, in_time};

struct Pki {
    ca: String,
    certificate: String,
    key: String,
}

fn pki() -> Pki {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    // One certificate serves both sides here.
    let certificate = CertificateParams::new(vec!["127.0.0.1".into()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    Pki {
        ca: ca_certificate.pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

async fn connect(server: &EtcdServer, ca: &str, identity: Option<(&str, &str)>) -> Etcd {
    let options = EtcdOptions {
        servers: vec![server.url.clone()],
        ca: Some(ca.as_bytes().to_vec()),
        identity: identity.map(|(certificate, key)| (certificate.as_bytes().to_vec(), key.as_bytes().to_vec())),
        ..EtcdOptions::default()
    };
    Etcd::connect(&options, &Metrics::new(&prometheus::Registry::new()).unwrap())
        .await
        .unwrap()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_etcd_behind_mutual_tls_is_reached_with_the_right_certificates_only() {
    let folder = tempfile::tempdir().unwrap();
    let pki = pki();
    let [ca, certificate, key] = [("ca", &pki.ca), ("certificate", &pki.certificate), ("key", &pki.key)]
        .map(|(name, text)| write(folder.path(), name, text));
    let flags = [
        "--client-cert-auth",
        "--trusted-ca-file",
        &ca,
        "--cert-file",
        &certificate,
        "--key-file",
        &key,
    ];
    let server = EtcdServer::start_with(&folder.path().join("data"), "https", &flags);
    let identity = Some((pki.certificate.as_str(), pki.key.as_str()));
    let store = connect(&server, &pki.ca, identity).await;
    in_time(async {
        while store.current_revision().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let stranger = self::pki();
    let strangers = connect(&server, &stranger.ca, identity).await;
    assert!(
        in_time(strangers.current_revision()).await.is_err(),
        "its certificate is of another CA"
    );
    let nobody = connect(&server, &pki.ca, None).await;
    assert!(
        in_time(nobody.current_revision()).await.is_err(),
        "etcd wants a certificate"
    );
}
