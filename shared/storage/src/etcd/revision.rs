//! etcd's current revision for consistent reads: readers that come while a request is under way share the next one.
//!
//! A reader must not take the answer of a request that began before it came, or it could miss a write it knows of.

use std::sync::Arc;

use etcd_client::{GetOptions, KvClient};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::{at, in_time};
use crate::error::Error;
use crate::store::Revision;

type Answer = Result<Revision, Error>;

#[derive(Clone)]
pub(super) struct CurrentRevision {
    kv: KvClient,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    next: Vec<oneshot::Sender<Answer>>,
    asking: bool,
}

impl CurrentRevision {
    pub(super) fn new(kv: KvClient) -> Self {
        Self {
            kv,
            waiting: Arc::default(),
        }
    }

    pub(super) async fn read(&self) -> Answer {
        let (sender, answer) = oneshot::channel();
        let asking = {
            let mut waiting = self.waiting.lock();
            waiting.next.push(sender);
            std::mem::replace(&mut waiting.asking, true)
        };
        if !asking {
            // A task of its own: the reader that happened to come first may go away.
            tokio::spawn(self.clone().ask());
        }
        answer.await.unwrap_or(Err(Error::Closed))
    }

    async fn ask(self) {
        loop {
            let readers = {
                let mut waiting = self.waiting.lock();
                waiting.asking = !waiting.next.is_empty();
                std::mem::take(&mut waiting.next)
            };
            if readers.is_empty() {
                return;
            }
            // A linearizable read of nothing; only the header counts.
            let options = GetOptions::new().with_count_only();
            let answer = in_time(self.kv.clone().get("\0", Some(options))).await;
            let answer = answer.map(|response| at(response.header()));
            for reader in readers {
                let _ = reader.send(answer.clone());
            }
        }
    }
}
