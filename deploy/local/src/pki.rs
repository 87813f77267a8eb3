//! The certificates and keys of a control plane on one machine, made on the first run (DESIGN §6).
//!
//! | authority | signs | trusted by |
//! |---|---|---|
//! | `ca` | serving certificates, the administrator, each tier's own `system:tier:<name>` | clients, and the tiers for x509 clients |
//! | `front-proxy-ca` | what aggregator and core-api show to the next tier when they forward | core-api and extensions-api |
//! | `requestheader-ca` | what the aggregator shows to the backends of APIServices | those backends |
//!
//! A serving certificate of `ca` cannot be used as a client's: its extended key usage says so. Three authorities and not
//! one, because a front-proxy certificate speaks for anybody: no certificate made for another purpose may ever be one.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};

use crate::certificate::{Usage, Wanted};
use crate::files::{self, Access};
use crate::layout::Layout;
use crate::tier::Tier;

/// The first address of the default service range, which is the Service `kubernetes`.
const KUBERNETES_SERVICE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Why the PKI could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A certificate or key could not be made.
    #[error("cannot make {name}")]
    Make {
        /// The file name without its ending.
        name: String,
        /// What the certificate library says.
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The thread that makes the service-account key ended early.
    #[error("making the service-account key was cut short")]
    Interrupted,
}

/// Makes whatever is missing, expired or no longer what it should be. `bind_address` becomes a name of the serving
/// certificates.
pub fn ensure(layout: &Layout, bind_address: IpAddr) -> Result<(), PkiError> {
    // An RSA key costs more than all the rest, so it is made beside it.
    std::thread::scope(|scope| {
        let service_account = scope.spawn(|| service_account_key(layout));
        certificates(layout, bind_address)?;
        service_account.join().map_err(|_| PkiError::Interrupted)?
    })
}

fn certificates(layout: &Layout, bind_address: IpAddr) -> Result<(), PkiError> {
    let authority = |file: &str, name: &str| Wanted::new(file, name, Usage::Authority).authority(layout);
    let ca = authority("ca", "kubernetes")?;
    let front_proxy = authority("front-proxy-ca", "triptych-front-proxy-ca")?;
    let requestheader = authority("requestheader-ca", "front-proxy-ca")?;

    let mut admin = Wanted::new("admin", "kubernetes-admin", Usage::Client);
    admin.organization = Some("system:masters");
    admin.signed_by(layout, &ca)?;
    Wanted::new("front-proxy-client", "front-proxy-client", Usage::Client).signed_by(layout, &requestheader)?;

    for tier in Tier::ALL {
        let mut serving = Wanted::new(tier.name(), tier.name(), Usage::Server);
        serving.dns_names = serving_names();
        serving.addresses = vec![
            Ipv4Addr::LOCALHOST.into(),
            Ipv6Addr::LOCALHOST.into(),
            KUBERNETES_SERVICE,
        ];
        if !bind_address.is_unspecified() && !serving.addresses.contains(&bind_address) {
            serving.addresses.push(bind_address);
        }
        serving.signed_by(layout, &ca)?;
        Wanted::new(format!("{tier}-client"), format!("system:tier:{tier}"), Usage::Client).signed_by(layout, &ca)?;
        if tier != Tier::ExtensionsApi {
            Wanted::new(format!("{tier}-forwarding"), tier.name(), Usage::Client).signed_by(layout, &front_proxy)?;
        }
    }
    Ok(())
}

fn serving_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ]
    .map(str::to_owned)
    .into();
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let dns = host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    if dns && !host.is_empty() && !names.contains(&host) {
        names.push(host);
    }
    names
}

/// The key that signs service-account tokens: RSA, because RS256 is what every verifier of such tokens takes.
fn service_account_key(layout: &Layout) -> Result<(), PkiError> {
    let (private, public) = (layout.pki("sa.key"), layout.pki("sa.pub"));
    let present = std::fs::read_to_string(&private)
        .ok()
        .and_then(|pem| KeyPair::from_pem(&pem).ok());
    let key = match present {
        Some(key) => key,
        None => {
            let key =
                KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).map_err(|source| PkiError::Make {
                    name: "sa".to_owned(),
                    source,
                })?;
            files::write(&private, key.serialize_pem().as_bytes(), Access::Private)
                .map_err(|source| PkiError::Write { path: private, source })?;
            key
        }
    };
    files::update(&public, key.public_key_pem().as_bytes(), Access::Public)
        .map_err(|source| PkiError::Write { path: public, source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn fresh() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path()).unwrap();
        layout.create().unwrap();
        (dir, layout)
    }

    fn contents(layout: &Layout) -> BTreeMap<String, Vec<u8>> {
        std::fs::read_dir(layout.dir().join("pki"))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (
                    entry.file_name().into_string().unwrap(),
                    std::fs::read(entry.path()).unwrap(),
                )
            })
            .collect()
    }

    fn changed(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
        after
            .iter()
            .filter(|(name, content)| before.get(*name) != Some(content))
            .map(|(name, _)| name.clone())
            .collect()
    }

    #[test]
    fn a_second_run_keeps_every_file() {
        let (_dir, layout) = fresh();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        let first = contents(&layout);
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(changed(&first, &contents(&layout)), Vec::<String>::new());
        assert_eq!(first.len(), 2 * (3 + 2 + 3 + 3 + 2) + 2);
    }

    #[test]
    fn keys_are_readable_by_their_owner_alone() {
        let (_dir, layout) = fresh();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        for name in contents(&layout).keys().filter(|name| name.ends_with(".key")) {
            let mode = std::fs::metadata(layout.pki(name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn another_bind_address_renews_the_serving_certificates_alone() {
        let (_dir, layout) = fresh();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        let first = contents(&layout);
        ensure(&layout, "192.0.2.7".parse().unwrap()).unwrap();
        assert_eq!(
            changed(&first, &contents(&layout)),
            [
                "aggregator.crt",
                "aggregator.key",
                "core-api.crt",
                "core-api.key",
                "extensions-api.crt",
                "extensions-api.key"
            ]
        );
    }

    #[test]
    fn a_lost_authority_takes_all_that_it_signed_with_it() {
        let (_dir, layout) = fresh();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        let first = contents(&layout);
        std::fs::remove_file(layout.pki("front-proxy-ca.key")).unwrap();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        assert_eq!(
            changed(&first, &contents(&layout)),
            [
                "aggregator-forwarding.crt",
                "aggregator-forwarding.key",
                "core-api-forwarding.crt",
                "core-api-forwarding.key",
                "front-proxy-ca.crt",
                "front-proxy-ca.key"
            ]
        );
    }

    #[test]
    fn a_key_of_a_run_that_was_killed_before_its_certificate_was_written_is_not_used() {
        let (_dir, layout) = fresh();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        std::fs::copy(layout.pki("core-api.key"), layout.pki("admin.key")).unwrap();
        std::fs::write(layout.pki("sa.pub"), "").unwrap();
        ensure(&layout, Ipv4Addr::LOCALHOST.into()).unwrap();
        let after = contents(&layout);
        assert_ne!(after["admin.key"], after["core-api.key"]);
        assert!(!after["sa.pub"].is_empty());
    }
}
