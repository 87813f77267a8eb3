//! Remembers for some seconds whom a token stands for, and asks only once for the same token at a time.
//!
//! Contract: only successes are kept (kube-apiserver's default: 10 s). Tokens stay out of memory: entries are found by a
//! keyed hash, so that nobody can choose colliding ones. At most [`MAX_ENTRIES`] are kept; when full, expired ones go
//! first and then arbitrary ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, Shared};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::token::{TokenAuthenticator, TokenVerdict};

/// How many tokens are remembered.
pub const MAX_ENTRIES: usize = 32 * 1024;

type Key = [u8; 32];

enum Entry {
    Known { verdict: TokenVerdict, until: Instant },
    Asking(Shared<BoxFuture<'static, TokenVerdict>>),
}

/// A [`TokenAuthenticator`] that remembers what another one said.
pub struct TokenCache {
    inner: Arc<dyn TokenAuthenticator>,
    ttl: Duration,
    secret: [u8; 32],
    entries: Arc<Mutex<HashMap<Key, Entry>>>,
}

impl TokenCache {
    /// Remembers successes of `inner` for `ttl`.
    pub fn new(inner: Arc<dyn TokenAuthenticator>, ttl: Duration) -> TokenCache {
        TokenCache {
            inner,
            ttl,
            secret: rand::random(),
            entries: Arc::default(),
        }
    }

    fn key(&self, token: &str, audiences: &[String]) -> Key {
        let mut hash = Sha256::new_with_prefix(self.secret);
        for text in std::iter::once(token).chain(audiences.iter().map(String::as_str)) {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        hash.finalize().into()
    }

    /// What is known, or the question that is being asked.
    fn look_up(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<TokenVerdict, Shared<BoxFuture<'static, TokenVerdict>>> {
        let key = self.key(token, audiences);
        let now = Instant::now();
        let mut entries = self.entries.lock();
        match entries.get(&key) {
            Some(Entry::Known { verdict, until }) if now < *until => return Ok(verdict.clone()),
            Some(Entry::Asking(question)) => return Err(question.clone()),
            _ => {}
        }
        if entries.len() >= MAX_ENTRIES {
            make_room(&mut entries, now);
        }
        let question = self.ask(key, token.to_owned(), audiences.to_vec());
        entries.insert(key, Entry::Asking(question.clone()));
        Err(question)
    }

    fn ask(&self, key: Key, token: String, audiences: Vec<String>) -> Shared<BoxFuture<'static, TokenVerdict>> {
        let (inner, entries, ttl) = (self.inner.clone(), self.entries.clone(), self.ttl);
        async move {
            let verdict = inner.authenticate_token(&token, &audiences).await;
            let mut entries = entries.lock();
            if matches!(verdict, TokenVerdict::Known { .. }) {
                let until = Instant::now() + ttl;
                let verdict = verdict.clone();
                entries.insert(key, Entry::Known { verdict, until });
            } else {
                entries.remove(&key);
            }
            verdict
        }
        .boxed()
        .shared()
    }
}

fn make_room(entries: &mut HashMap<Key, Entry>, now: Instant) {
    entries.retain(|_, e| !matches!(e, Entry::Known { until, .. } if *until <= now));
    if entries.len() >= MAX_ENTRIES {
        let mut excess = entries.len() - MAX_ENTRIES + MAX_ENTRIES / 16;
        entries.retain(|_, _| {
            let goes = excess > 0;
            excess = excess.saturating_sub(1);
            !goes
        });
    }
}

impl TokenAuthenticator for TokenCache {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        match self.look_up(token, audiences) {
            Ok(verdict) => std::future::ready(verdict).boxed(),
            Err(question) => question.boxed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl TokenAuthenticator for Counting {
        fn authenticate_token<'a>(&'a self, token: &'a str, _: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
            async move {
                self.0.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
                match token {
                    "good" => TokenVerdict::Known {
                        user: Arc::default(),
                        audiences: Vec::new(),
                    },
                    _ => TokenVerdict::Bad("no".to_owned()),
                }
            }
            .boxed()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_token_is_asked_about_once_until_it_is_old() {
        let inner = Arc::new(Counting::default());
        let cache = TokenCache::new(inner.clone(), Duration::from_secs(10));
        let both = futures_util::join!(
            cache.authenticate_token("good", &[]),
            cache.authenticate_token("good", &[])
        );
        assert_eq!(both.0, both.1);
        cache.authenticate_token("good", &[]).await;
        assert_eq!(inner.0.load(Ordering::Relaxed), 1);
        cache.authenticate_token("good", &["other".to_owned()]).await;
        assert_eq!(inner.0.load(Ordering::Relaxed), 2);
        tokio::time::advance(Duration::from_secs(11)).await;
        cache.authenticate_token("good", &[]).await;
        assert_eq!(inner.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_bad_token_is_not_remembered() {
        let inner = Arc::new(Counting::default());
        let cache = TokenCache::new(inner.clone(), Duration::from_secs(10));
        cache.authenticate_token("bad", &[]).await;
        cache.authenticate_token("bad", &[]).await;
        assert_eq!(inner.0.load(Ordering::Relaxed), 2);
        assert!(cache.entries.lock().is_empty());
    }
}
