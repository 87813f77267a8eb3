//! Documents that were made for a reader and are kept for the next one, for a short time and within a budget.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an unread document stays.
const STAYS: Duration = Duration::from_secs(10);
/// Bytes of all documents kept; the oldest go first. A document larger than this is not kept.
const BUDGET: usize = 8 * 1024 * 1024;

struct Item {
    key: Arc<str>,
    body: Bytes,
    read: Instant,
}

/// Documents by a key that names content and form.
#[derive(Default)]
pub struct Kept(Mutex<VecDeque<Item>>);

impl Kept {
    /// The document, if it is still there.
    pub fn get(&self, key: &str) -> Option<Bytes> {
        let mut items = self.0.lock();
        let at = items.iter().position(|i| &*i.key == key)?;
        let mut item = items.remove(at)?;
        item.read = Instant::now();
        let body = item.body.clone();
        items.push_back(item);
        Some(body)
    }

    /// Keeps a document; forgets it when nobody read it for a while.
    pub fn put(self: &Arc<Self>, key: &str, body: &Bytes) {
        if body.len() > BUDGET {
            return;
        }
        {
            let mut items = self.0.lock();
            items.retain(|i| &*i.key != key);
            items.push_back(Item {
                key: key.into(),
                body: body.clone(),
                read: Instant::now(),
            });
            let mut size: usize = items.iter().map(|i| i.body.len()).sum();
            while size > BUDGET {
                size -= items.pop_front().map_or(size, |i| i.body.len());
            }
        }
        let kept = Arc::downgrade(self);
        tokio::spawn(async move {
            while let Some(next) = kept.upgrade().and_then(|k| k.expire()) {
                tokio::time::sleep_until(next).await;
            }
        });
    }

    /// Drops what is too old; when the next one will be, none if nothing is left.
    fn expire(&self) -> Option<Instant> {
        let mut items = self.0.lock();
        let now = Instant::now();
        items.retain(|i| now < i.read + STAYS);
        items.shrink_to_fit();
        items.front().map(|i| i.read + STAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_document_goes_when_nobody_reads_it() {
        let kept = Arc::new(Kept::default());
        kept.put("a", &Bytes::from_static(b"A"));
        tokio::time::sleep(STAYS / 2).await;
        assert_eq!(kept.get("a"), Some(Bytes::from_static(b"A")));
        tokio::time::sleep(STAYS / 2 + Duration::from_millis(1)).await;
        assert!(kept.get("a").is_some(), "it was read in between");
        tokio::time::sleep(STAYS + Duration::from_millis(1)).await;
        assert_eq!(kept.0.lock().len(), 0);
    }

    #[tokio::test]
    async fn the_budget_is_kept() {
        let kept = Arc::new(Kept::default());
        let big = Bytes::from(vec![0; BUDGET / 2 + 1]);
        kept.put("a", &big);
        kept.put("b", &big);
        assert!(kept.get("a").is_none());
        assert!(kept.get("b").is_some());
        kept.put("c", &Bytes::from(vec![0; BUDGET + 1]));
        assert!(kept.get("c").is_none());
    }
}
