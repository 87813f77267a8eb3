//! What is claimed because of APIServices: proxied group-versions, and groups of CRDs that skip core-api.
//!
//! Contract: without remote APIServices and without `--extensions-api-servers` nothing here is ever claimed. A
//! group-version of a remote APIService is claimed whole, whatever our tiers may have of the same name.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use triptych_client::pool::Pool;
use triptych_object::RequestInfo;
use triptych_server::{Claim, Claims};

use super::custom_groups::CustomGroups;
use super::remotes::Remotes;
use crate::changes::ring;

/// The claims of remote APIServices.
pub struct Proxied(pub Arc<Remotes>);

impl Claims for Proxied {
    fn find(&self, info: &RequestInfo) -> Claim {
        let remote = group_version(&info.path).and_then(|(group, version)| self.0.find(group, version));
        match remote {
            Some(remote) => Claim::Proxy(remote),
            None => Claim::Unclaimed { certain: true },
        }
    }
}

/// The claims of groups that extensions-api serves: forwarded there directly.
pub struct Shortcut {
    extensions_api: Arc<Pool>,
    groups: ArcSwap<BTreeSet<String>>,
}

impl Shortcut {
    /// No groups yet.
    pub fn new(extensions_api: Arc<Pool>) -> Arc<Shortcut> {
        Arc::new(Shortcut {
            extensions_api,
            groups: ArcSwap::default(),
        })
    }

    /// Follows the groups of CRDs, for ever.
    pub async fn follow(self: Arc<Self>, custom: Arc<CustomGroups>) {
        let bell = Arc::new(Notify::new());
        let learn = async {
            loop {
                bell.notified().await;
                if let Some(groups) = custom.groups() {
                    self.groups.store(Arc::new(groups));
                }
            }
        };
        tokio::join!(learn, ring(custom.source(), bell.clone()));
    }
}

impl Claims for Shortcut {
    fn find(&self, info: &RequestInfo) -> Claim {
        let custom = group_version(&info.path).is_some_and(|(group, _)| self.groups.load().contains(group));
        if custom {
            return Claim::Forward(Arc::clone(&self.extensions_api));
        }
        Claim::Unclaimed { certain: true }
    }
}

/// Whose a path is: `/apis/<group>/<version>…`, `/api/<version>…` or the OpenAPI document of either.
fn group_version(path: &str) -> Option<(&str, &str)> {
    let path = path.strip_prefix("/openapi/v3").unwrap_or(path);
    let (group, rest) = match path.strip_prefix("/apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", path.strip_prefix("/api/")?),
    };
    let version = rest.split('/').next().filter(|v| !v.is_empty())?;
    Some((group, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_version_is_claimed_with_everything_below_it() {
        for (path, want) in [
            ("/apis/a.io/v1", Some(("a.io", "v1"))),
            ("/apis/a.io/v1/", Some(("a.io", "v1"))),
            ("/apis/a.io/v1/namespaces/n/x", Some(("a.io", "v1"))),
            ("/openapi/v3/apis/a.io/v1", Some(("a.io", "v1"))),
            ("/api/v1/pods", Some(("", "v1"))),
            ("/openapi/v3/api/v1", Some(("", "v1"))),
            ("/apis/a.io", None),
            ("/apis/a.io/", None),
            ("/apis", None),
            ("/api/", None),
            ("/livez", None),
        ] {
            assert_eq!(group_version(path), want, "{path}");
        }
    }
}
