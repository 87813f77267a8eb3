//! The plugins that guard certificates: who may approve requests (CertificateApproval), who may sign them
//! (CertificateSigning), who may vouch for trust anchors (ClusterTrustBundleAttest), and that nobody asks to become a
//! member of `system:masters` (CertificateSubjectRestriction).

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::future::BoxFuture;
use triptych_object::{Gvr, RequestInfo, StatusResult, UserInfo, Value, field};
use triptych_registry::Permit;
use triptych_registry::admission::{Attributes, Operation, Warnings};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::chain::{Plugin, forbidden};
use crate::pods;

const GROUP: &str = "certificates.k8s.io";
/// The signer of certificates by which clients are known.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

fn is_request(resource: &Gvr) -> bool {
    pods::is(resource, GROUP, "certificatesigningrequests")
}

/// Whether a user may do something in the name of a signer, or of all signers of its domain.
async fn may(permit: &dyn Permit, user: &UserInfo, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let request = RequestInfo {
            is_resource: true,
            verb: verb.to_owned(),
            group: GROUP.to_owned(),
            version: "*".to_owned(),
            resource: "signers".to_owned(),
            name,
            ..RequestInfo::default()
        };
        if permit.permit(user, &request).await.is_ok() {
            return true;
        }
    }
    false
}

/// Who approves must be allowed to `approve` for the signer.
pub struct CertificateApproval(pub Arc<dyn Permit>);

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Update && is_request(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(old), "approval") = (old, attributes.subresource) else {
                return Ok(());
            };
            let signer = old.str_at(&["spec", "signerName"]);
            if may(&*self.0, attributes.user, "approve", signer).await {
                return Ok(());
            }
            let signer = field::quote(signer);
            let why = format!("user not permitted to approve requests with signerName {signer}");
            Err(forbidden(attributes, object, why))
        })
    }
}

/// Who signs must be allowed to `sign` for the signer.
pub struct CertificateSigning(pub Arc<dyn Permit>);

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Update && is_request(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let (Some(new), Some(old), "status") = (object, old, attributes.subresource) else {
                return Ok(());
            };
            let signed = ["certificate", "conditions"]
                .iter()
                .any(|member| new.at(&["status", member]) != old.at(&["status", member]));
            let signer = old.str_at(&["spec", "signerName"]);
            if !signed || may(&*self.0, attributes.user, "sign", signer).await {
                return Ok(());
            }
            let signer = field::quote(signer);
            let why = format!("user not permitted to sign requests with signerName {signer}");
            Err(forbidden(attributes, object, why))
        })
    }
}

/// Who publishes a signer's trust anchors must be allowed to `attest` for it.
pub struct ClusterTrustBundleAttest(pub Arc<dyn Permit>);

impl Plugin for ClusterTrustBundleAttest {
    fn name(&self) -> &'static str {
        "ClusterTrustBundleAttest"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        matches!(operation, Operation::Create | Operation::Update) && pods::is(resource, GROUP, "clustertrustbundles")
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        Box::pin(async move {
            let Some(new) = object else { return Ok(()) };
            let signer = new.str_at(&["spec", "signerName"]);
            if signer.is_empty()
                || old.is_some_and(|old| says_the_same(new, old))
                || may(&*self.0, attributes.user, "attest", signer).await
            {
                return Ok(());
            }
            let signer = field::quote(signer);
            let why = format!("user not permitted to attest for signerName {signer}");
            Err(forbidden(attributes, object, why))
        })
    }
}

/// Whether nothing but what the garbage collector changes is different.
fn says_the_same(new: &Value, old: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        for member in ["ownerReferences", "finalizers", "managedFields"] {
            object.remove_at(&["metadata", member]);
        }
        object
    };
    bare(new) == bare(old)
}

/// Nobody asks for a client certificate of `system:masters`.
pub struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn concerns(&self, operation: Operation, resource: &Gvr) -> bool {
        operation == Operation::Create && is_request(resource)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _old: Option<&'a Value>,
        _warnings: &'a mut Warnings,
    ) -> BoxFuture<'a, StatusResult<()>> {
        let concerned = object.filter(|request| {
            attributes.subresource.is_empty() && request.str_at(&["spec", "signerName"]) == CLIENT_SIGNER
        });
        let done = match concerned.map(|request| organizations(request.str_at(&["spec", "request"]))) {
            Some(Ok(names)) if names.iter().any(|name| name == MASTERS) => {
                let why = format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed");
                Err(forbidden(attributes, object, why))
            }
            Some(Err(why)) => Err(forbidden(attributes, object, format!("failed to parse CSR: {why}"))),
            Some(Ok(_)) | None => Ok(()),
        };
        Box::pin(std::future::ready(done))
    }
}

/// The organizations in the subject of a request, which is PEM in base64.
fn organizations(request: &str) -> Result<Vec<String>, String> {
    subject(request, |subject| subject.iter_organization().map(text).collect())
}

/// The common name in the subject of a request, which is PEM in base64; of several the last.
pub(crate) fn common_name(request: &str) -> Result<String, String> {
    subject(request, |subject| {
        subject.iter_common_name().last().map(text).unwrap_or_default()
    })
}

/// A name in an encoding that cannot be read is taken raw, so that an odd encoding is no way around a check.
fn text(attribute: &AttributeTypeAndValue<'_>) -> String {
    match attribute.as_str() {
        Ok(text) => text.to_owned(),
        Err(_) => String::from_utf8_lossy(attribute.as_slice()).into_owned(),
    }
}

fn subject<T>(request: &str, read: impl FnOnce(&X509Name<'_>) -> T) -> Result<T, String> {
    const NO_PEM: &str = "PEM block type must be CERTIFICATE REQUEST";
    let pem = BASE64_STANDARD.decode(request).map_err(|e| e.to_string())?;
    let (_, block) = x509_parser::pem::parse_x509_pem(&pem).map_err(|_| NO_PEM)?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(NO_PEM.to_owned());
    }
    let (_, request) = X509CertificationRequest::from_der(&block.contents).map_err(|e| e.to_string())?;
    Ok(read(&request.certification_request_info.subject))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use triptych_object::{GroupResource, Status};

    /// Allows what it was told: verb and name.
    struct Allows(&'static [(&'static str, &'static str)]);

    impl Permit for Allows {
        fn permit<'a>(&'a self, _: &'a UserInfo, request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>> {
            let asked = (request.verb.as_str(), request.name.as_str());
            let allowed = request.group == GROUP && request.resource == "signers" && self.0.contains(&asked);
            let refusal = || Status::forbidden(&GroupResource::new("", ""), "", "");
            Box::pin(std::future::ready(if allowed { Ok(()) } else { Err(refusal()) }))
        }
    }

    const RESOURCE: &str = "certificates.k8s.io/certificatesigningrequests";
    const OLD: &str = r#"{"metadata":{"name":"r"},"spec":{"signerName":"example.com/a"},"status":{}}"#;
    const SIGNED: &str =
        r#"{"metadata":{"name":"r"},"spec":{"signerName":"example.com/a"},"status":{"certificate":"AA=="}}"#;

    fn refused(what: &str) -> String {
        format!(
            "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: user not permitted to {what} requests with signerName \"example.com/a\""
        )
    }

    #[tokio::test]
    async fn approving_needs_the_right_to_approve_for_the_signer_or_its_domain() {
        let approve = || Write::update(RESOURCE, OLD, OLD).subresource("approval");
        for allowed in [&[("approve", "example.com/a")], &[("approve", "example.com/*")]] {
            let plugin = CertificateApproval(Arc::new(Allows(allowed)));
            assert_eq!(approve().refusal(&plugin).await, "");
        }
        let plugin = CertificateApproval(Arc::new(Allows(&[("sign", "example.com/a")])));
        assert_eq!(approve().refusal(&plugin).await, refused("approve"));
        assert_eq!(Write::update(RESOURCE, OLD, OLD).refusal(&plugin).await, "");
    }

    #[tokio::test]
    async fn signing_needs_the_right_to_sign() {
        let plugin = CertificateSigning(Arc::new(Allows(&[])));
        let write = |new| Write::update(RESOURCE, new, OLD).subresource("status");
        assert_eq!(write(SIGNED).refusal(&plugin).await, refused("sign"));
        assert_eq!(write(OLD).refusal(&plugin).await, "");
        let plugin = CertificateSigning(Arc::new(Allows(&[("sign", "example.com/*")])));
        assert_eq!(write(SIGNED).refusal(&plugin).await, "");
    }

    #[tokio::test]
    async fn attesting_is_not_needed_where_nothing_changes() {
        let resource = "certificates.k8s.io/clustertrustbundles";
        let plugin = ClusterTrustBundleAttest(Arc::new(Allows(&[])));
        let bundle = |extra: &str| format!(r#"{{"metadata":{{"name":"b"{extra}}},"spec":{{"signerName":"s/t"}}}}"#);
        let refusal = "clustertrustbundles.certificates.k8s.io \"b\" is forbidden: user not permitted to attest for signerName \"s/t\"";
        assert_eq!(Write::create(resource, &bundle("")).refusal(&plugin).await, refusal);
        let collected = bundle(r#","finalizers":["a/b"]"#);
        assert_eq!(
            Write::update(resource, &collected, &bundle("")).refusal(&plugin).await,
            ""
        );
        let labelled = bundle(r#","labels":{"a":"b"}"#);
        assert_eq!(
            Write::update(resource, &labelled, &bundle("")).refusal(&plugin).await,
            refusal
        );
    }

    fn request(organization: &str, signer: &str) -> String {
        let mut parameters = rcgen::CertificateParams::default();
        parameters
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, organization);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = parameters.serialize_request(&key).unwrap().pem().unwrap();
        let encoded = BASE64_STANDARD.encode(pem);
        format!(r#"{{"metadata":{{"name":"r"}},"spec":{{"signerName":"{signer}","request":"{encoded}"}}}}"#)
    }

    #[tokio::test]
    async fn nobody_asks_to_be_a_master() {
        let refusal = "certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
        for (organization, signer, told) in [
            (MASTERS, CLIENT_SIGNER, refusal),
            ("dev", CLIENT_SIGNER, ""),
            (MASTERS, "example.com/a", ""),
        ] {
            let write = Write::create(RESOURCE, &request(organization, signer));
            assert_eq!(write.refusal(&CertificateSubjectRestriction).await, told);
        }
    }
}
