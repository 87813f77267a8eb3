//! One certificate with its key: made when missing, kept while it is what would be made and has time left.
//!
//! What is on disk is trusted only after a look: key and certificate belong together, subject and names are the wanted
//! ones, the issuer is the present authority, and it does not expire soon. Whatever fails is made anew, so that a start
//! that was killed half-way, a changed bind address or an old directory all heal by themselves.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::files::{self, Access};
use crate::layout::Layout;
use crate::pki::PkiError;

const AUTHORITY_LIFETIME: Duration = Duration::days(3650);
const LIFETIME: Duration = Duration::days(365);
/// What is closer to its end than this is made anew at the next start.
const RENEW_BEFORE: Duration = Duration::days(30);
/// Clocks of other machines may be behind.
const CLOCK_SKEW: Duration = Duration::hours(1);

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    Authority,
    Server,
    Client,
}

/// What a certificate should say.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The file name without `.crt` or `.key`.
    pub(crate) file: String,
    pub(crate) common_name: String,
    pub(crate) organization: Option<&'static str>,
    pub(crate) dns_names: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) usage: Usage,
}

/// An authority that signs other certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    key_identifier: Vec<u8>,
}

impl Wanted {
    pub(crate) fn new(file: impl Into<String>, common_name: impl Into<String>, usage: Usage) -> Self {
        Self {
            file: file.into(),
            common_name: common_name.into(),
            organization: None,
            dns_names: Vec::new(),
            addresses: Vec::new(),
            usage,
        }
    }

    /// Makes sure that this authority is there.
    pub(crate) fn authority(&self, layout: &Layout) -> Result<Authority, PkiError> {
        let key = self.ensure(layout, None)?;
        let params = self.params()?;
        let key_identifier = params.key_identifier(&key);
        Ok(Authority {
            issuer: Issuer::new(params, key),
            key_identifier,
        })
    }

    /// Makes sure that this certificate, signed by `authority`, is there.
    pub(crate) fn signed_by(&self, layout: &Layout, authority: &Authority) -> Result<(), PkiError> {
        self.ensure(layout, Some(authority)).map(drop)
    }

    fn ensure(&self, layout: &Layout, authority: Option<&Authority>) -> Result<KeyPair, PkiError> {
        let certificate_path = layout.pki(format!("{}.crt", self.file));
        let key_path = layout.pki(format!("{}.key", self.file));
        let present = std::fs::read(&certificate_path)
            .ok()
            .zip(std::fs::read_to_string(&key_path).ok());
        if let Some((certificate, key)) = present
            && let Some(key) = self.usable(&certificate, &key, authority)
        {
            return Ok(key);
        }
        let make = |e: rcgen::Error| PkiError::Make {
            name: self.file.clone(),
            source: e,
        };
        let key = KeyPair::generate().map_err(make)?;
        let params = self.params()?;
        let certificate = match authority {
            Some(authority) => params.signed_by(&key, &authority.issuer),
            None => params.self_signed(&key),
        }
        .map_err(make)?;
        let write = |path: &std::path::Path, text: &str, access| {
            files::write(path, text.as_bytes(), access).map_err(|source| PkiError::Write {
                path: path.to_owned(),
                source,
            })
        };
        write(&key_path, &key.serialize_pem(), Access::Private)?;
        write(&certificate_path, &certificate.pem(), Access::Public)?;
        Ok(key)
    }

    fn params(&self) -> Result<CertificateParams, PkiError> {
        let mut params = CertificateParams::default();
        let mut subject = DistinguishedName::new();
        if let Some(organization) = self.organization {
            subject.push(DnType::OrganizationName, organization);
        }
        subject.push(DnType::CommonName, self.common_name.as_str());
        params.distinguished_name = subject;
        for name in &self.dns_names {
            let name = name.as_str().try_into().map_err(|e| PkiError::Make {
                name: self.file.clone(),
                source: e,
            })?;
            params.subject_alt_names.push(SanType::DnsName(name));
        }
        params
            .subject_alt_names
            .extend(self.addresses.iter().map(|a| SanType::IpAddress(*a)));
        let now = OffsetDateTime::now_utc();
        params.not_before = now - CLOCK_SKEW;
        match self.usage {
            Usage::Authority => {
                params.not_after = now + AUTHORITY_LIFETIME;
                params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
                params.key_usages = vec![
                    KeyUsagePurpose::DigitalSignature,
                    KeyUsagePurpose::KeyCertSign,
                    KeyUsagePurpose::CrlSign,
                ];
            }
            Usage::Server | Usage::Client => {
                params.not_after = now + LIFETIME;
                params.is_ca = IsCa::ExplicitNoCa;
                params.use_authority_key_identifier_extension = true;
                params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
                params.extended_key_usages = vec![match self.usage {
                    Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
                    _ => ExtendedKeyUsagePurpose::ClientAuth,
                }];
            }
        }
        Ok(params)
    }

    /// The key, when certificate and key are what would be made and have time left.
    fn usable(&self, certificate: &[u8], key: &str, authority: Option<&Authority>) -> Option<KeyPair> {
        let key = KeyPair::from_pem(key).ok()?;
        let der = CertificateDer::from_pem_slice(certificate).ok()?;
        let (_, certificate) = X509Certificate::from_der(&der).ok()?;
        let renew = OffsetDateTime::now_utc() + RENEW_BEFORE;
        let fresh = certificate.validity().not_after.timestamp() > renew.unix_timestamp();
        let same_key = certificate.public_key().raw == key.subject_public_key_info();
        (fresh && same_key && self.named_by(&certificate) && issued_by(&certificate, authority)).then_some(key)
    }

    fn named_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let subject = certificate.subject();
        let common_name = subject.iter_common_name().next().and_then(|v| v.as_str().ok());
        let organization = subject.iter_organization().next().and_then(|v| v.as_str().ok());
        let (mut dns_names, mut addresses) = (Vec::new(), Vec::new());
        for name in certificate
            .subject_alternative_name()
            .ok()
            .flatten()
            .iter()
            .flat_map(|san| &san.value.general_names)
        {
            match name {
                GeneralName::DNSName(name) => dns_names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => return false,
            }
        }
        common_name == Some(self.common_name.as_str())
            && organization == self.organization
            && dns_names == self.dns_names
            && addresses == self.addresses
    }
}

fn issued_by(certificate: &X509Certificate<'_>, authority: Option<&Authority>) -> bool {
    let Some(authority) = authority else {
        return certificate.is_ca();
    };
    certificate
        .extensions()
        .iter()
        .any(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => id
                .key_identifier
                .as_ref()
                .is_some_and(|id| id.0 == authority.key_identifier),
            _ => false,
        })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(IpAddr::from(v4));
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
