//! Compaction of etcd's history, coordinated between API servers the way kube-apiserver's compactors are: the version of
//! the key `compact_rev_key` is a clock, whoever advances it first compacts to where it saw the store one interval ago.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, KvClient, Txn, TxnOp, TxnOpResponse};

use super::{at, in_time};
use crate::error::Error;

/// kube-apiserver's key; not below any prefix.
const KEY: &str = "compact_rev_key";

/// What was seen of the clock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// The version of the key.
    time: i64,
    /// The store's revision then.
    revision: i64,
}

/// Runs until it is dropped; the first compaction comes after the second interval.
pub(super) async fn run(kv: KvClient, interval: Duration) {
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep(interval).await;
        match tick(kv.clone(), seen).await {
            Ok(now) => seen = now,
            Err(error) => tracing::info!(%error, "etcd was not compacted"),
        }
    }
}

async fn tick(mut kv: KvClient, seen: Seen) -> Result<Seen, Error> {
    let transaction = Txn::new()
        .when([Compare::version(KEY, CompareOp::Equal, seen.time)])
        .and_then([TxnOp::put(KEY, seen.revision.to_string(), None)])
        .or_else([TxnOp::get(KEY, None)]);
    let response = in_time(kv.txn(transaction)).await?;
    let revision = at(response.header()) as i64;
    if !response.succeeded() {
        // Somebody else's turn; the clock is what they left.
        let time = response.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(found) => found.kvs().first().map(|pair| pair.version()),
            _ => None,
        });
        return Ok(Seen {
            time: time.unwrap_or(0),
            revision,
        });
    }
    if seen.revision > 0 {
        match in_time(kv.compact(seen.revision, None)).await {
            Ok(_) => tracing::debug!(revision = seen.revision, "etcd compacted"),
            // Somebody without the clock compacted further.
            Err(Error::Compacted { .. }) => {}
            // The clock has been advanced all the same.
            Err(error) => tracing::info!(%error, "etcd was not compacted"),
        }
    }
    Ok(Seen {
        time: seen.time + 1,
        revision,
    })
}
