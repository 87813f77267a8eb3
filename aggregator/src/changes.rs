//! Waking whoever derives something from copies of objects when one of them changes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use triptych_storage::Source;
use triptych_storage::cache::{Interest, Start, WatchError};

/// Until a copy that is still being filled is looked at again.
const FILLING: Duration = Duration::from_millis(20);

/// Rings `bell` when `source` was filled and whenever it changes, until it is closed. A bell that was rung already stays
/// rung: changes are seen, not counted.
pub async fn ring(source: Arc<dyn Source>, bell: Arc<Notify>) {
    loop {
        match source.watch(Start::Now, Interest::all()) {
            Ok((_, mut watcher)) => {
                bell.notify_one();
                while watcher.next().await.is_some() {
                    while watcher.try_next().is_some() {}
                    bell.notify_one();
                }
            }
            Err(WatchError::Closed) => return,
            Err(_) => tokio::time::sleep(FILLING).await,
        }
    }
}
