//! The user that a verified client certificate names.
//!
//! Contract: common name → name, organizations → groups, the attribute 1.3.6.1.4.1.57683.2 → uid; the certificate's
//! SHA-256 becomes the credential id. Names are read as Go's `pkix.Name` reads them: the last common name counts.

use sha2::{Digest, Sha256};
use triptych_object::UserInfo;
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, ParsedExtension, X509Certificate};

/// Key of `extra` under which a credential's identifier is told.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The attribute of a subject that holds the uid (KEP 4633).
const UID: &str = "1.3.6.1.4.1.57683.2";
const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";

/// The user, or `None` if the certificate has no common name.
pub fn user(certificate: &[u8]) -> Result<Option<UserInfo>, String> {
    let parsed = parse(certificate)?;
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for (oid, text) in attributes(&parsed) {
        match oid.as_str() {
            COMMON_NAME => user.name = text.unwrap_or_default(),
            ORGANIZATION => user.groups.extend(text),
            UID => uids.push(text.ok_or("unable to parse UID into a string")?),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    match uids.as_slice() {
        [] => {}
        [uid] if uid.is_empty() => return Err("UID cannot be an empty string".to_owned()),
        [uid] => user.uid.clone_from(uid),
        _ => return Err(format!("expected 1 UID, but found multiple: [{}]", uids.join(" "))),
    }
    let digest: String = Sha256::digest(certificate).iter().map(|b| format!("{b:02x}")).collect();
    user.extra
        .insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")]);
    Ok(Some(user))
}

/// The subject's common name, empty if it has none.
pub(super) fn common_name(certificate: &[u8]) -> Result<String, String> {
    let parsed = parse(certificate)?;
    let names = attributes(&parsed).filter(|(oid, _)| oid == COMMON_NAME);
    Ok(names.filter_map(|(_, text)| text).last().unwrap_or_default())
}

/// The end of validity, in seconds since 1970.
pub(super) fn not_after(certificate: &[u8]) -> Result<i64, String> {
    Ok(parse(certificate)?.validity().not_after.timestamp())
}

/// The certificate as kube-apiserver's log names it.
pub(super) fn identifier(certificate: &[u8]) -> String {
    let Ok(parsed) = parse(certificate) else {
        return "(unreadable)".to_owned();
    };
    let mut subject_key = String::new();
    let mut authority_key = String::new();
    for extension in parsed.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => subject_key = hex(id.0),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                authority_key = id.key_identifier.as_ref().map(|k| hex(k.0)).unwrap_or_default();
            }
            _ => {}
        }
    }
    format!(
        "SN={}, SKID={subject_key}, AKID={authority_key}",
        parsed.tbs_certificate.serial
    )
}

fn hex(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|b| format!("{b:02X}")).collect();
    pairs.join(":")
}

fn parse(certificate: &[u8]) -> Result<X509Certificate<'_>, String> {
    X509Certificate::from_der(certificate)
        .map(|(_, parsed)| parsed)
        .map_err(|e| e.to_string())
}

/// The subject's attributes in order: type, and text if it is one.
fn attributes<'a>(certificate: &'a X509Certificate<'_>) -> impl Iterator<Item = (String, Option<String>)> + 'a {
    certificate
        .subject()
        .iter_attributes()
        .map(|a| (a.attr_type().to_id_string(), text(a)))
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    const TELETEX: u32 = 20;
    const BMP: u32 = 30;
    let value = attribute.attr_value();
    match value.header.tag().0 {
        // Go reads T.61 as ISO 8859-1 and the basic plane as UTF-16.
        TELETEX => Some(value.data.iter().map(|b| char::from(*b)).collect()),
        BMP => {
            let units = value
                .data
                .chunks(2)
                .map(|c| c.iter().fold(0, |u, b| u << 8 | u16::from(*b)));
            char::decode_utf16(units).collect::<Result<_, _>>().ok()
        }
        _ => attribute.as_str().ok().map(str::to_owned),
    }
}
