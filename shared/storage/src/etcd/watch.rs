//! One watch stream of etcd as a stream of batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use etcd_client::{EventType, WatchClient, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use futures_util::StreamExt;
use tokio::sync::Notify;

use super::{at, end_of, failed, in_time};
use crate::error::Error;
use crate::store::{Batch, Change, Entry, Position, Revision, Watch, WatchControl};

struct Control {
    wanted: Notify,
    reliable: Arc<AtomicBool>,
}

impl WatchControl for Control {
    fn position(&self) -> Option<Position> {
        None
    }

    fn request_progress(&self) {
        // An etcd whose answer may be early is not asked.
        if self.reliable.load(Ordering::Relaxed) {
            self.wanted.notify_one();
        }
    }
}

struct Reader {
    requests: WatchRequestSender,
    responses: WatchResponseStream,
    control: Arc<Control>,
    done: bool,
}

/// Opens a stream; resolves when etcd has accepted it.
pub(super) async fn open(
    client: WatchClient,
    prefix: &str,
    after: Revision,
    reliable: Arc<AtomicBool>,
) -> Result<Watch, Error> {
    let start = if prefix.is_empty() { "\0" } else { prefix };
    let options = WatchOptions::new()
        .with_range(end_of(prefix))
        .with_start_revision(after as i64 + 1)
        .with_progress_notify();
    let mut client = client.max_decoding_message_size(usize::MAX);
    let stream = in_time(client.watch(start, Some(options))).await?;
    let (requests, responses) = stream.split();
    let control = Arc::new(Control {
        wanted: Notify::new(),
        reliable,
    });
    let reader = Reader {
        requests,
        responses,
        control: control.clone(),
        done: false,
    };
    let batches = futures_util::stream::unfold(reader, |mut reader| async move {
        let batch = reader.next().await?;
        reader.done = !matches!(batch, Ok(Batch::Changes(_) | Batch::Progress(_)));
        Some((batch, reader))
    });
    Ok(Watch {
        batches: batches.boxed(),
        control,
    })
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Batch, Error>> {
        if self.done {
            return None;
        }
        loop {
            tokio::select! {
                response = self.responses.next() => match response? {
                    Ok(response) => if let Some(batch) = batch(&response) {
                        return Some(batch);
                    },
                    Err(error) => return Some(Err(failed(error))),
                },
                () = self.control.wanted.notified() => {
                    if let Err(error) = self.requests.request_progress().await {
                        return Some(Err(failed(error)));
                    }
                }
            }
        }
    }
}

fn batch(response: &WatchResponse) -> Option<Result<Batch, Error>> {
    if response.compact_revision() > 0 {
        return Some(Ok(Batch::Compacted(response.compact_revision() as Revision)));
    }
    if response.canceled() {
        return Some(Err(Error::Unavailable(format!(
            "etcd cancelled the watch: {}",
            response.cancel_reason()
        ))));
    }
    if response.created() {
        return None;
    }
    let changes: Vec<_> = response.events().iter().filter_map(change).collect();
    Some(Ok(match response.events().is_empty() {
        true => Batch::Progress(at(response.header())),
        false => Batch::Changes(changes),
    }))
}

fn change(event: &etcd_client::Event) -> Option<Change> {
    let pair = event.kv()?;
    let (key, revision) = (pair.key_str().ok()?.into(), pair.mod_revision().max(0) as Revision);
    Some(match event.event_type() {
        EventType::Put => Change::Put(Entry {
            key,
            revision,
            value: pair.value().to_vec().into(),
        }),
        EventType::Delete => Change::Delete { key, revision },
    })
}
