//! Finds out who asks.
//!
//! The order is DESIGN §3's: front-proxy headers, x509, bearer tokens, anonymous. A bad credential is remembered, not
//! fatal: a later good one still counts; if there is none, the request is answered 401, never served as anonymous.

pub mod cache;
pub mod issuer;
pub mod jwt;
pub mod keys;
pub mod remote;
pub mod request_header;
pub mod review;
pub mod service_account;
pub mod token;
pub mod token_file;
pub mod trust;
pub mod x509;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_object::UserInfo;
use triptych_object::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};

use crate::authenticator::{Authenticator, CertificateVerdict, Credentials, Identity};
use request_header::RequestHeaders;
use token::{Presented, TokenAuthenticator, TokenVerdict};
use trust::Trust;

/// All authenticators of a tier.
pub struct Authentication {
    /// Judges certificates.
    pub trust: Arc<Trust>,
    /// What an allowed front proxy says.
    pub request_headers: RequestHeaders,
    /// Judges bearer tokens; `None` if no kind of token is configured.
    pub tokens: Option<Arc<dyn TokenAuthenticator>>,
    /// Towards whom a request's token must be good: the server itself.
    pub audiences: Vec<String>,
    /// The user of requests without credentials; `None` refuses them.
    pub anonymous: Option<Arc<UserInfo>>,
}

impl Authentication {
    /// What certificates and headers say, which needs no waiting: the user, or what was wrong so far.
    fn without_waiting(&self, credentials: &Credentials<'_>) -> Result<Arc<UserInfo>, Option<String>> {
        match self.trust.judge(credentials.certificates, credentials.connection) {
            CertificateVerdict::FrontProxy => match self.request_headers.user(credentials.headers) {
                Some(user) => Ok(with_authenticated(Arc::new(user))),
                None => Err(None),
            },
            CertificateVerdict::Client(user) => Ok(user),
            CertificateVerdict::None => Err(None),
            CertificateVerdict::Untrusted(why) => Err(Some(why)),
        }
    }

    /// What the request's tokens say, after `problem` was found with its certificate.
    async fn by_token(&self, credentials: &Credentials<'_>, mut problem: Option<String>) -> Identity {
        if let Some(tokens) = &self.tokens {
            let header = Presented::in_header(credentials.headers);
            let protocol = Presented::in_protocol(credentials.headers);
            for presented in [&header, &protocol] {
                let token = match presented {
                    Presented::No => continue,
                    Presented::Malformed(why) => {
                        problem = Some((*why).to_owned());
                        continue;
                    }
                    Presented::Header(token) => token,
                    Presented::Protocol(token) => token.as_str(),
                };
                match tokens.authenticate_token(token, &self.audiences).await {
                    TokenVerdict::Known { user, .. } => return Identity::User(user),
                    TokenVerdict::Unknown => problem = Some("invalid bearer token".to_owned()),
                    TokenVerdict::Bad(why) => problem = Some(why),
                    TokenVerdict::Unavailable(why) => return Identity::Unavailable(why),
                }
            }
        }
        match (problem, &self.anonymous) {
            (None, Some(anonymous)) => Identity::User(anonymous.clone()),
            (None, None) => Identity::Unauthorized("no credentials".to_owned()),
            (Some(why), _) => Identity::Unauthorized(why),
        }
    }
}

impl Authenticator for Authentication {
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>) -> BoxFuture<'a, Identity> {
        match self.without_waiting(&credentials) {
            Ok(user) => std::future::ready(Identity::User(user)).boxed(),
            Err(problem) => async move { self.by_token(&credentials, problem).await }.boxed(),
        }
    }
}

/// The user with `system:authenticated` added, unless it is anonymous or says already which of both it is.
pub fn with_authenticated(user: Arc<UserInfo>) -> Arc<UserInfo> {
    if user.name == ANONYMOUS || user.in_group(AUTHENTICATED) || user.in_group(UNAUTHENTICATED) {
        return user;
    }
    let mut user = Arc::unwrap_or_clone(user);
    user.groups.push(AUTHENTICATED.to_owned());
    Arc::new(user)
}

#[cfg(test)]
mod tests;
