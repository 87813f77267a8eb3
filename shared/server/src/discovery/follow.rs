//! Following a document of another server: read it, then ask for it again and again, each time waiting for a change.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::fetch::{Ask, Fetch, Fetched, LONGEST_WAIT};

const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MOST: Duration = Duration::from_secs(2);
/// Between questions to a server that does not wait.
const POLL: Duration = Duration::from_secs(1);
/// Between changes, so that a storm of them is read in batches.
const BREATH: Duration = Duration::from_millis(50);

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The document is new.
    Changed {
        /// Its body.
        body: Bytes,
        /// Its ETag.
        etag: Option<String>,
    },
    /// It is as it was.
    Same,
    /// Nobody answered, or not with a document; the last one stands.
    Trouble(String),
}

/// Follows `target` until dropped, telling of each answer.
pub async fn follow(server: Arc<dyn Fetch>, target: &str, accept: &'static str, mut tell: impl FnMut(News)) {
    let (mut etag, mut retry) = (None, RETRY_FIRST);
    loop {
        let asked = Instant::now();
        let ask = Ask {
            target: target.to_owned(),
            accept,
            etag: etag.clone(),
            wait: etag.is_some().then_some(LONGEST_WAIT),
        };
        let pause = match server.fetch(ask).await {
            Ok(Fetched::NotModified) => {
                tell(News::Same);
                POLL.saturating_sub(asked.elapsed())
            }
            Ok(Fetched::Document { etag: new, body, .. }) => {
                let polled = new.is_none();
                etag.clone_from(&new);
                let begun = std::time::Instant::now();
                tell(News::Changed { body, etag: new });
                if polled { POLL } else { BREATH.max(begun.elapsed() * 10) }
            }
            failed => {
                let why = match failed {
                    Ok(Fetched::Refused(code)) => format!("{target} was answered with {code}"),
                    Err(why) => why,
                    _ => String::new(),
                };
                tell(News::Trouble(why));
                let pause = retry;
                retry = (retry * 2).min(RETRY_MOST);
                tokio::time::sleep(pause).await;
                continue;
            }
        };
        retry = RETRY_FIRST;
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;

    /// Answers in order, then never again; keeps the questions.
    struct Script {
        answers: Mutex<Vec<Result<Fetched, String>>>,
        asked: Mutex<Vec<Ask>>,
    }

    impl Fetch for Script {
        fn fetch(&self, ask: Ask) -> BoxFuture<'_, Result<Fetched, String>> {
            self.asked.lock().push(ask);
            let mut answers = self.answers.lock();
            if answers.is_empty() {
                return Box::pin(std::future::pending());
            }
            let answer = answers.remove(0);
            Box::pin(std::future::ready(answer))
        }
    }

    fn document(text: &'static str) -> Result<Fetched, String> {
        Ok(Fetched::Document {
            kind: "application/json".into(),
            etag: Some(format!("\"{text}\"")),
            body: Bytes::from_static(text.as_bytes()),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_waited_for_and_trouble_is_told_and_retried() {
        let script = Arc::new(Script {
            answers: Mutex::new(vec![
                Err("refused".into()),
                document("one"),
                Ok(Fetched::NotModified),
                document("two"),
            ]),
            asked: Mutex::default(),
        });
        let news = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&news);
        let server: Arc<dyn Fetch> = script.clone();
        let following = follow(server, "/apis", super::super::fetch::AGGREGATED, move |n| {
            heard.lock().push(n)
        });
        assert!(tokio::time::timeout(Duration::from_secs(60), following).await.is_err());
        let kinds: Vec<String> = news
            .lock()
            .iter()
            .map(|n| match n {
                News::Changed { body, .. } => String::from_utf8_lossy(body).into_owned(),
                News::Same => "same".into(),
                News::Trouble(why) => why.clone(),
            })
            .collect();
        assert_eq!(kinds, ["refused", "one", "same", "two"]);
        let asked = script.asked.lock();
        assert_eq!((asked[1].etag.clone(), asked[1].wait), (None, None));
        assert_eq!(
            (asked[2].etag.as_deref(), asked[2].wait),
            (Some("\"one\""), Some(LONGEST_WAIT))
        );
        assert_eq!(asked[4].etag.as_deref(), Some("\"two\""));
    }
}
