//! Namespaces as core-api has them, for NamespaceLifecycle.
//!
//! Contract (DESIGN §6): objects are created only on what was proven within a second, else core-api is asked, so that no
//! custom resource slips in after the namespace controller's last sweep. Without core-api every namespace is taken to be
//! there: the tier then serves alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use triptych_admission::namespace_lifecycle::{Namespace, Namespaces};
use triptych_client::mirror::Mirror;
use triptych_object::{Status, StatusResult, Value, meta};
use triptych_storage::Source;

/// How old knowledge may be.
const FRESH: Duration = Duration::from_secs(1);

/// Namespaces of core-api.
pub struct MirroredNamespaces(pub Option<Arc<Mirror>>);

impl MirroredNamespaces {
    async fn ask(&self, mirror: &Mirror, name: &str) -> StatusResult<Namespace> {
        let found = mirror.get_live("", name).await;
        let found = found.map_err(|status| match status.code {
            503 | 504 => Status::service_unavailable(
                format!("core-api cannot be asked about namespaces: {}", status.message),
                1,
            ),
            _ => status,
        })?;
        Ok(match found {
            None => Namespace::Absent,
            Some(namespace) if is_terminating(&namespace) => Namespace::Terminating,
            Some(_) => Namespace::Active,
        })
    }
}

fn is_terminating(namespace: &Value) -> bool {
    meta::deletion_timestamp(namespace).is_some() || namespace.str_at(&["status", "phase"]) == "Terminating"
}

impl Namespaces for MirroredNamespaces {
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, StatusResult<Namespace>> {
        Box::pin(async move {
            let Some(mirror) = &self.0 else {
                return Ok(Namespace::Active);
            };
            let known = mirror
                .snapshot()
                .and_then(|snapshot| snapshot.get(&mirror.config().key("", name)).cloned());
            match known {
                Some(namespace) if mirror.proven_within(FRESH) => {
                    Ok(match namespace.metadata_field("deletionTimestamp") {
                        Some(_) => Namespace::Terminating,
                        None => Namespace::Active,
                    })
                }
                _ => self.ask(mirror, name).await,
            }
        })
    }
}
