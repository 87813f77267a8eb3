//! Flags of authentication and authorization, under kube-apiserver's names, and the settings they make.
//!
//! Contract: every file a flag names is read when the flags are checked, so that a tier never starts half-configured.
//! Modes that are not built (ABAC, Webhook) are refused by name.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::HeaderName;
use triptych_object::UserInfo;
use triptych_options::{GoDuration, Problems};

use crate::authentication::Authentication;
use crate::authentication::cache::TokenCache;
use crate::authentication::issuer::{JWKS_PATH, OpenIdDocuments, TokenIssuer};
use crate::authentication::keys::{PublicKey, SigningKey};
use crate::authentication::request_header::RequestHeaders;
use crate::authentication::service_account::{Bound, ServiceAccountTokens};
use crate::authentication::token::{TokenAuthenticator, TokenUnion};
use crate::authentication::token_file::TokenFile;
use crate::authentication::trust::{Authorities, FrontProxyTrust, Trust};
use crate::authorization::node::NodeAuthorizer;
use crate::authorization::privileged::{AlwaysAllow, AlwaysDeny, Privileged};
use crate::authorization::rbac::Rbac;
use crate::authorization::{Authorization, Mode};

/// How long a good token is remembered.
const TOKEN_TTL: Duration = Duration::from_secs(10);

/// Flags that say whom to believe.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Authentication flags")]
pub struct AuthenticationOptions {
    /// Serves requests without credentials as system:anonymous
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub anonymous_auth: bool,
    /// Audiences of tokens for this API server, comma separated [default: the service account issuers]
    #[arg(long, value_delimiter = ',', value_name = "AUDIENCE")]
    pub api_audiences: Vec<String>,
    /// PEM file of the CAs whose client certificates are believed: common name is the user, organizations are groups
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// PEM file of the CAs of front proxies, whose headers name the user
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names of front proxies, comma separated [default: any that the CA signed]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers that name the user, comma separated
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "X-Remote-User")]
    pub requestheader_username_headers: Vec<String>,
    /// Headers that hold the user's uid, comma separated
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "X-Remote-Uid")]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers that name the user's groups, comma separated
    #[arg(long, value_delimiter = ',', value_name = "HEADER", default_value = "X-Remote-Group")]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers that tell more of the user, comma separated
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "PREFIX",
        default_value = "X-Remote-Extra-"
    )]
    pub requestheader_extra_headers_prefix: Vec<String>,
    /// Issuer of service account tokens; given again, more issuers whose tokens are accepted
    #[arg(long, value_name = "URL")]
    pub service_account_issuer: Vec<String>,
    /// PEM file of keys that verify service account tokens; may be given again [default: the signing key]
    #[arg(long, value_name = "FILE")]
    pub service_account_key_file: Vec<PathBuf>,
    /// PEM file of the private key that signs service account tokens
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Where relying parties find the keys of service account tokens [default: this server's own address]
    #[arg(long, value_name = "URL")]
    pub service_account_jwks_uri: Option<String>,
    /// Checks that the objects a token is bound to exist; cannot be switched off
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub service_account_lookup: bool,
    /// Longest lifetime of a service account token; 0 is what the token asks for
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub service_account_max_token_expiration: GoDuration,
    /// Lets pods' tokens live for a year and warns when they should have been renewed
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub service_account_extend_token_expiration: bool,
    /// File of static tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
}

/// What the flags say, checked and read.
#[derive(Debug)]
pub struct AuthenticationSettings {
    /// Judges certificates.
    pub trust: Arc<Trust>,
    /// Headers of front proxies.
    pub request_headers: RequestHeaders,
    /// Serves requests without credentials.
    pub anonymous: bool,
    /// Audiences of the API server.
    pub audiences: Vec<String>,
    /// Static tokens.
    pub token_file: Option<TokenFile>,
    /// Issuers whose tokens are accepted; the first issues.
    pub issuers: Vec<String>,
    /// Verify service account tokens.
    pub keys: Vec<PublicKey>,
    /// Issues service account tokens.
    pub issuer: Option<Arc<TokenIssuer>>,
    /// Where the keys are found.
    pub jwks_uri: Option<String>,
}

impl AuthenticationOptions {
    /// Checks the flags. Nothing when there was a problem, which is noted.
    pub fn settings(self, problems: &mut Problems) -> Option<AuthenticationSettings> {
        let Self {
            anonymous_auth,
            api_audiences,
            client_ca_file,
            requestheader_client_ca_file,
            requestheader_allowed_names,
            requestheader_username_headers,
            requestheader_uid_headers,
            requestheader_group_headers,
            requestheader_extra_headers_prefix,
            service_account_issuer,
            service_account_key_file,
            service_account_signing_key_file,
            service_account_jwks_uri,
            service_account_lookup,
            service_account_max_token_expiration,
            service_account_extend_token_expiration,
            token_auth_file,
        } = self;
        let mut authorities = |flag: &str, file: Option<PathBuf>| {
            let loaded = Authorities::load(file?).map_err(|e| crate::chain(&e));
            problems.check(flag, loaded)
        };
        let client = authorities("--client-ca-file", client_ca_file);
        let front_proxy = authorities("--requestheader-client-ca-file", requestheader_client_ca_file);
        let front_proxy = front_proxy.map(|authorities| FrontProxyTrust {
            authorities,
            allowed_names: requestheader_allowed_names,
        });
        let mut headers = |flag: &str, names: Vec<String>| -> Vec<HeaderName> {
            let parse = |name: String| {
                let parsed = name.trim().parse::<HeaderName>();
                problems.check(flag, parsed.map_err(|e| format!("{name:?}: {e}")))
            };
            names.into_iter().filter_map(parse).collect()
        };
        let request_headers = RequestHeaders {
            username: headers("--requestheader-username-headers", requestheader_username_headers),
            uid: headers("--requestheader-uid-headers", requestheader_uid_headers),
            group: headers("--requestheader-group-headers", requestheader_group_headers),
            extra_prefixes: headers(
                "--requestheader-extra-headers-prefix",
                requestheader_extra_headers_prefix,
            )
            .into_iter()
            .map(|prefix| prefix.as_str().to_owned())
            .collect(),
        };
        if front_proxy.is_some() && request_headers.username.is_empty() {
            problems.add(
                "--requestheader-username-headers",
                "is needed with --requestheader-client-ca-file",
            );
        }
        if !service_account_lookup {
            problems.add("--service-account-lookup", "false is not possible");
        }
        let signing = service_account_signing_key_file.as_deref().and_then(|file| {
            let key = SigningKey::load(file).map_err(|e| crate::chain(&e));
            problems.check("--service-account-signing-key-file", key)
        });
        let mut keys = Vec::new();
        for file in &service_account_key_file {
            let loaded = PublicKey::load(file).map_err(|e| crate::chain(&e));
            keys.extend(problems.check("--service-account-key-file", loaded).unwrap_or_default());
        }
        if service_account_key_file.is_empty() {
            keys.extend(signing.as_ref().map(|s| s.public.clone()));
        }
        if (signing.is_some() || !keys.is_empty()) && service_account_issuer.iter().all(String::is_empty) {
            problems.add(
                "--service-account-issuer",
                "is needed with keys of service account tokens",
            );
        }
        for issuer in &service_account_issuer {
            if issuer.contains(':') && !issuer.contains("://") {
                problems.add(
                    "--service-account-issuer",
                    format!("{issuer:?} has a colon but is not a URL"),
                );
            }
        }
        let max_expiration = service_account_max_token_expiration.unless_zero();
        if max_expiration.is_some_and(|d| d < Duration::from_secs(3600)) {
            problems.add("--service-account-max-token-expiration", "must be at least an hour");
        }
        let audiences = if api_audiences.is_empty() {
            service_account_issuer.clone()
        } else {
            api_audiences
        };
        let token_file = token_auth_file.as_deref().and_then(|file| {
            let loaded = TokenFile::load(file, audiences.clone()).map_err(|e| crate::chain(&e));
            problems.check("--token-auth-file", loaded)
        });
        let issuer = signing.map(|key| {
            Arc::new(TokenIssuer {
                key,
                issuer: service_account_issuer.first().cloned().unwrap_or_default(),
                audiences: audiences.clone(),
                max_expiration: max_expiration.and_then(|d| i64::try_from(d.as_secs()).ok()),
                extend_expiration: service_account_extend_token_expiration,
            })
        });
        problems.is_empty().then(|| AuthenticationSettings {
            trust: Arc::new(Trust::new(client, front_proxy)),
            request_headers,
            anonymous: anonymous_auth,
            audiences,
            token_file,
            issuers: service_account_issuer,
            keys,
            issuer,
            jwks_uri: service_account_jwks_uri,
        })
    }
}

impl AuthenticationSettings {
    /// The authenticators. `bound` knows the objects that service account tokens are bound to.
    pub fn build(self, bound: Bound) -> Authentication {
        let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
        if let Some(file) = self.token_file {
            tokens.push(Box::new(file));
        }
        if !self.keys.is_empty() {
            let accounts = ServiceAccountTokens::new(self.issuers, self.keys, self.audiences.clone(), bound);
            tokens.push(Box::new(accounts));
        }
        let tokens = (!tokens.is_empty()).then(|| -> Arc<dyn TokenAuthenticator> {
            Arc::new(TokenCache::new(Arc::new(TokenUnion::new(tokens)), TOKEN_TTL))
        });
        Authentication {
            trust: self.trust,
            request_headers: self.request_headers,
            tokens,
            audiences: self.audiences,
            anonymous: self.anonymous.then(|| Arc::new(UserInfo::anonymous())),
        }
    }

    /// The documents of OpenID discovery; `server` is this server's address as clients know it (host and port). `None`
    /// if no tokens are issued; an error is an issuer that OpenID does not allow.
    pub fn open_id(&self, server: &str) -> Option<Result<OpenIdDocuments, String>> {
        let issuer = self.issuers.first()?;
        let uri = match &self.jwks_uri {
            Some(uri) => uri.clone(),
            None => format!("https://{server}{JWKS_PATH}"),
        };
        (!self.keys.is_empty()).then(|| OpenIdDocuments::new(issuer, &uri, &self.keys))
    }
}

/// Flags that say what users may do.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Authorization flags")]
pub struct AuthorizationOptions {
    /// Authorizers in the order they are asked, comma separated [default: AlwaysAllow]
    #[arg(long, value_delimiter = ',', value_name = "MODE")]
    pub authorization_mode: Vec<String>,
}

/// An authorizer by its flag value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AuthorizationMode {
    /// Everybody may do everything.
    #[value(name = "AlwaysAllow")]
    AlwaysAllow,
    /// Nobody may do anything.
    #[value(name = "AlwaysDeny")]
    AlwaysDeny,
    /// Roles and bindings.
    #[value(name = "RBAC")]
    Rbac,
    /// What kubelets need.
    #[value(name = "Node")]
    Node,
}

/// The modes, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationSettings {
    /// At least one.
    pub modes: Vec<AuthorizationMode>,
}

impl AuthorizationOptions {
    /// Checks the flags. Nothing when there was a problem, which is noted.
    pub fn settings(self, problems: &mut Problems) -> Option<AuthorizationSettings> {
        const FLAG: &str = "--authorization-mode";
        let mut modes = Vec::new();
        let mut good = true;
        for name in &self.authorization_mode {
            let problem = match AuthorizationMode::from_str(name, false) {
                Ok(mode) if modes.contains(&mode) => format!("{name:?} is given more than once"),
                Ok(mode) => {
                    modes.push(mode);
                    continue;
                }
                Err(_) if matches!(name.as_str(), "ABAC" | "Webhook") => format!("{name:?} is not built yet"),
                Err(_) => format!("{name:?} is not a valid mode"),
            };
            problems.add(FLAG, problem);
            good = false;
        }
        if modes.is_empty() {
            modes.push(AuthorizationMode::AlwaysAllow);
        }
        good.then_some(AuthorizationSettings { modes })
    }
}

impl AuthorizationSettings {
    /// True if everybody may do everything; requests without credentials are then refused, as kube-apiserver does.
    pub fn allows_everything(&self) -> bool {
        self.modes.contains(&AuthorizationMode::AlwaysAllow)
    }

    /// The authorizers, behind the privileged identities. A tier without pods has no node authorizer: what it serves is
    /// none of a kubelet's business.
    pub fn build(&self, rbac: Arc<Rbac>, node: Option<Arc<NodeAuthorizer>>) -> Authorization {
        let mut modes: Vec<Arc<dyn Mode>> = vec![Arc::new(Privileged::new())];
        for mode in &self.modes {
            match mode {
                AuthorizationMode::AlwaysAllow => modes.push(Arc::new(AlwaysAllow)),
                AuthorizationMode::AlwaysDeny => modes.push(Arc::new(AlwaysDeny)),
                AuthorizationMode::Rbac => modes.push(rbac.clone()),
                AuthorizationMode::Node => modes.extend(node.clone().map(|n| n as Arc<dyn Mode>)),
            }
        }
        Authorization::new(modes)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Flags {
        #[command(flatten)]
        authentication: AuthenticationOptions,
        #[command(flatten)]
        authorization: AuthorizationOptions,
    }

    fn check(flags: &[&str]) -> Result<(AuthenticationSettings, AuthorizationSettings), String> {
        let flags = Flags::try_parse_from([&["tier"], flags].concat()).map_err(|e| e.to_string())?;
        let mut problems = Problems::default();
        let authentication = flags.authentication.settings(&mut problems);
        let authorization = flags.authorization.settings(&mut problems);
        problems
            .finish(authentication.zip(authorization))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn without_flags_only_anonymous_is_known_and_everything_allowed() {
        let (authentication, authorization) = check(&[]).unwrap();
        assert!(authentication.anonymous && authentication.token_file.is_none() && authentication.keys.is_empty());
        assert!(authorization.allows_everything());
    }

    #[test]
    fn all_that_is_wrong_is_told() {
        let error = check(&[
            "--authorization-mode=Node,RBAC,ABAC,Node,X",
            "--client-ca-file=/nowhere",
            "--service-account-signing-key-file=/nowhere",
            "--requestheader-group-headers=a b",
            "--service-account-max-token-expiration=1m",
        ])
        .unwrap_err();
        for part in [
            "--authorization-mode: \"ABAC\" is not built yet",
            "--authorization-mode: \"Node\" is given more than once",
            "--authorization-mode: \"X\" is not a valid mode",
            "--client-ca-file: cannot read",
            "--service-account-signing-key-file: cannot read",
            "--requestheader-group-headers: \"a b\"",
            "--service-account-max-token-expiration: must be at least an hour",
        ] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn tokens_need_keys_and_an_issuer() {
        let dir = tempfile::TempDir::new().unwrap();
        let file = dir.path().join("sa.key");
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&file, key.serialize_pem()).unwrap();
        let signing = format!("--service-account-signing-key-file={}", file.display());
        assert!(
            check(&[&signing])
                .unwrap_err()
                .contains("--service-account-issuer: is needed")
        );
        let (settings, _) = check(&[
            &signing,
            "--service-account-issuer=https://i",
            "--service-account-issuer=j",
        ])
        .unwrap();
        assert_eq!(settings.audiences, ["https://i", "j"]);
        assert_eq!(settings.issuer.as_ref().unwrap().issuer, "https://i");
        assert_eq!(settings.keys.len(), 1);
        let documents = settings.open_id("10.0.0.1:6443").unwrap().unwrap();
        let configuration = String::from_utf8_lossy(&documents.configuration).into_owned();
        assert!(configuration.contains("https://10.0.0.1:6443/openid/v1/jwks"));
    }
}
