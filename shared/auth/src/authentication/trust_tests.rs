//! What certificates are worth: every way in which one can fail to prove anything.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

use super::*;

struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

fn ca(name: &str, until: i32) -> Ca {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_after = date_time_ymd(until, 1, 1);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Ca {
        issuer: Issuer::new(params, key),
        pem,
    }
}

struct Leaf {
    params: CertificateParams,
}

fn leaf(name: &str) -> Leaf {
    let mut params = CertificateParams::default();
    if !name.is_empty() {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
    } else {
        params.distinguished_name = rcgen::DistinguishedName::new();
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2090, 1, 1);
    Leaf { params }
}

impl Leaf {
    fn signed_by(self, ca: &Ca) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        self.params.signed_by(&key, &ca.issuer).unwrap().der().clone()
    }

    fn with(mut self, change: impl FnOnce(&mut CertificateParams)) -> Leaf {
        change(&mut self.params);
        self
    }
}

fn authorities(dir: &TempDir, file: &str, pem: &str) -> Authorities {
    let path = dir.path().join(file);
    std::fs::write(&path, pem).unwrap();
    Authorities::load(path).unwrap()
}

/// Clients of one authority and front proxies, named `aggregator`, of another.
fn trust(dir: &TempDir, clients: &Ca, proxies: &Ca) -> Trust {
    Trust::new(
        Some(authorities(dir, "ca.crt", &clients.pem)),
        Some(FrontProxyTrust {
            authorities: authorities(dir, "front-proxy-ca.crt", &proxies.pem),
            allowed_names: vec!["aggregator".to_owned()],
        }),
    )
}

fn show(verdict: &CertificateVerdict) -> String {
    match verdict {
        CertificateVerdict::FrontProxy => "front proxy".to_owned(),
        CertificateVerdict::Client(user) => format!("client {}", user.name),
        CertificateVerdict::None => "none".to_owned(),
        CertificateVerdict::Untrusted(_) => "untrusted".to_owned(),
    }
}

#[test]
fn each_certificate_is_worth_what_its_authority_says() {
    let dir = TempDir::new().unwrap();
    let (clients, proxies, others) = (ca("clients", 2090), ca("proxies", 2090), ca("clients", 2090));
    let trust = trust(&dir, &clients, &proxies);
    let server_use = |p: &mut CertificateParams| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let critical = |p: &mut CertificateParams| {
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        extension.set_criticality(true);
        p.custom_extensions = vec![extension];
    };
    for (what, certificate, want) in [
        ("a client", leaf("ann").signed_by(&clients), "client ann"),
        (
            "no key usage",
            leaf("ann").with(|p| p.extended_key_usages.clear()).signed_by(&clients),
            "client ann",
        ),
        (
            "for servers",
            leaf("ann").with(server_use).signed_by(&clients),
            "untrusted",
        ),
        (
            "for any use",
            leaf("ann")
                .with(|p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any])
                .signed_by(&clients),
            "client ann",
        ),
        (
            "expired",
            leaf("ann")
                .with(|p| p.not_after = date_time_ymd(2021, 1, 1))
                .signed_by(&clients),
            "untrusted",
        ),
        (
            "not valid yet",
            leaf("ann")
                .with(|p| p.not_before = date_time_ymd(2080, 1, 1))
                .signed_by(&clients),
            "untrusted",
        ),
        (
            "a stranger's, same issuer name",
            leaf("ann").signed_by(&others),
            "untrusted",
        ),
        (
            "a critical extension",
            leaf("ann").with(critical).signed_by(&clients),
            "untrusted",
        ),
        ("no name", leaf("").signed_by(&clients), "none"),
        ("the front proxy", leaf("aggregator").signed_by(&proxies), "front proxy"),
        ("another name", leaf("mallory").signed_by(&proxies), "untrusted"),
        (
            "the name alone",
            leaf("aggregator").signed_by(&clients),
            "client aggregator",
        ),
        ("rubbish", CertificateDer::from(vec![1, 2, 3]), "untrusted"),
    ] {
        let verdict = trust.judge(&[certificate], &ConnectionIdentity::default());
        assert_eq!(show(&verdict), want, "{what}: {verdict:?}");
    }
    assert_eq!(show(&trust.judge(&[], &ConnectionIdentity::default())), "none");
}

#[test]
fn a_user_has_groups_uid_and_the_certificates_fingerprint() {
    let dir = TempDir::new().unwrap();
    let clients = ca("clients", 2090);
    let trust = Trust::new(Some(authorities(&dir, "ca.crt", &clients.pem)), None);
    let certificate = leaf("ann")
        .with(|p| {
            p.distinguished_name.push(DnType::OrganizationName, "devs");
            let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
            p.distinguished_name.push(uid, "u-1");
        })
        .signed_by(&clients);
    let verdict = trust.judge(&[certificate], &ConnectionIdentity::default());
    let CertificateVerdict::Client(user) = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(user.uid, "u-1");
    assert_eq!(user.groups, ["devs", "system:authenticated"]);
    let id = &user.extra[x509::CREDENTIAL_ID][0];
    assert!(id.starts_with("X509SHA256=") && id.len() == 11 + 64, "{id}");
}

#[test]
fn an_intermediate_is_followed_when_it_is_presented() {
    let dir = TempDir::new().unwrap();
    let root = ca("root", 2090);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "between");
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &root.issuer).unwrap();
    let between = Ca {
        issuer: Issuer::new(params, key),
        pem: String::new(),
    };
    let trust = Trust::new(Some(authorities(&dir, "ca.crt", &root.pem)), None);
    let client = leaf("ann").signed_by(&between);
    let alone = trust.judge(std::slice::from_ref(&client), &ConnectionIdentity::default());
    assert_eq!(show(&alone), "untrusted");
    let chain = [client, certificate.der().clone()];
    assert_eq!(show(&trust.judge(&chain, &ConnectionIdentity::default())), "client ann");
}

#[test]
fn an_expired_authority_vouches_for_nobody() {
    let dir = TempDir::new().unwrap();
    let old = ca("old", 2021);
    let trust = Trust::new(Some(authorities(&dir, "ca.crt", &old.pem)), None);
    let client = leaf("ann").signed_by(&old);
    assert_eq!(
        show(&trust.judge(&[client], &ConnectionIdentity::default())),
        "untrusted"
    );
}

#[test]
fn a_connection_is_judged_anew_when_authorities_change_or_something_expires() {
    let dir = TempDir::new().unwrap();
    let (first, second) = (ca("first", 2090), ca("second", 2090));
    let trust = Trust::new(Some(authorities(&dir, "ca.crt", &first.pem)), None);
    let client = [leaf("ann").signed_by(&first)];
    let connection = ConnectionIdentity::default();
    assert_eq!(show(&trust.judge(&client, &connection)), "client ann");

    std::fs::write(dir.path().join("ca.crt"), &second.pem).unwrap();
    assert!(trust.reload().unwrap());
    assert!(!trust.reload().unwrap());
    assert_eq!(show(&trust.judge(&client, &connection)), "untrusted");

    std::fs::write(dir.path().join("ca.crt"), "rubbish").unwrap();
    assert!(trust.reload().is_err());
    let other = [leaf("bob").signed_by(&second)];
    assert_eq!(show(&trust.judge(&other, &ConnectionIdentity::default())), "client bob");

    let (_, until) = trust.judge_at(&other, unix_now());
    let (later, _) = trust.judge_at(&other, until + 1);
    assert_eq!(show(&later), "untrusted");
}

#[test]
fn a_file_without_certificates_is_refused() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("ca.crt");
    assert!(matches!(Authorities::load(&path), Err(TrustError::Read { .. })));
    std::fs::write(&path, "nothing").unwrap();
    assert!(matches!(Authorities::load(&path), Err(TrustError::Parse { .. })));
}
