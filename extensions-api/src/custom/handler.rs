//! What stands before a version's endpoint: a cache that is only just filling.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use triptych_registry::{Endpoint, Handler, Request, Response};
use triptych_storage::cache::CacheState;

/// The first readers of a custom resource wait so long for its cache before they are told to come again.
const FILL_WAIT: Duration = Duration::from_millis(500);

/// One version in service.
pub struct VersionHandler {
    /// Who does the work.
    pub endpoint: Arc<Endpoint>,
}

impl Handler for VersionHandler {
    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if let Ok(collection) = self.endpoint.collection()
                && collection.cache.state() == CacheState::Filling
            {
                // either way the endpoint knows what to say
                let _ = tokio::time::timeout(FILL_WAIT, collection.cache.filled()).await;
            }
            self.endpoint.handle(request).await
        })
    }
}
