//! Load on a control plane and what it costs: latencies of single requests, watches by the hundred.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::task::JoinSet;
use triptych_local::client::{Answer, ApiClient, ClientError};

/// Watches that share one connection: as many streams as every HTTP/2 server allows.
const WATCHES_PER_CONNECTION: usize = 50;

/// How long requests took.
#[derive(Clone, Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Of these requests.
    pub fn new(mut times: Vec<Duration>) -> Latencies {
        times.sort_unstable();
        Latencies(times)
    }

    /// How many requests.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time within which this share of the requests was answered, 0.5 for the median.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )] // an index into few
        let at = (last as f64 * share).round() as usize;
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// A GET, with a bearer token if there is one.
pub fn get(path: &str, token: Option<&str>) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    Ok(request.body(Full::default())?)
}

/// Sends the same GET again and again for `time`, `at_once` at a time on each client; every answer must pass `check`.
///
/// # Panics
/// When an answer fails or does not pass.
pub async fn gets(
    clients: &[ApiClient],
    at_once: usize,
    path: &str,
    token: Option<&str>,
    time: Duration,
    check: fn(&Answer) -> bool,
) -> Latencies {
    let end = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for client in clients.iter().flat_map(|client| std::iter::repeat_n(client, at_once)) {
        let (client, path, token) = (client.clone(), path.to_owned(), token.map(str::to_owned));
        tasks.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let begun = Instant::now();
                let answer = client.collect(get(&path, token.as_deref())?).await?;
                times.push(begun.elapsed());
                assert!(check(&answer), "GET {path}: {} {}", answer.status, answer.text());
            }
            Ok::<_, ClientError>(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = tasks.join_next().await {
        match times {
            Ok(Ok(times)) => all.extend(times),
            Ok(Err(error)) => panic!("GET {path}: {error}"),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    Latencies::new(all)
}

/// The bytes of an answer's body, which is not kept: the reader of a huge list shall not be what is measured.
///
/// # Panics
/// When the answer is no 200.
pub async fn drain(client: &ApiClient, path: &str) -> Result<usize, ClientError> {
    let (head, mut body) = client.send(get(path, None)?).await?.into_parts();
    assert_eq!(head.status, 200, "GET {path}");
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, Bytes::len);
    }
    Ok(bytes)
}

/// Watches that are open: some read as fast as events come, the others never.
#[derive(Debug)]
pub struct Watches {
    delivered: Arc<AtomicU64>,
    _readers: JoinSet<()>,
    _stalled: Vec<Incoming>,
}

impl Watches {
    /// How many connections so many watches are spread over; those that read and those that do not share none.
    pub fn connections(readers: usize, stalled: usize) -> usize {
        readers.div_ceil(WATCHES_PER_CONNECTION) + stalled.div_ceil(WATCHES_PER_CONNECTION)
    }

    /// Opens `readers + stalled` watches of `path`, each of `clients` a connection of its own.
    ///
    /// # Panics
    /// When a watch is not answered with 200.
    pub async fn open(
        clients: &[ApiClient],
        path: &str,
        readers: usize,
        stalled: usize,
    ) -> Result<Watches, ClientError> {
        let delivered = Arc::<AtomicU64>::default();
        let (mut tasks, mut held) = (JoinSet::new(), Vec::new());
        let numbers = (0..readers).map(|number| (number, true));
        let first = readers.next_multiple_of(WATCHES_PER_CONNECTION);
        for (number, reads) in numbers.chain((first..first + stalled).map(|number| (number, false))) {
            let Some(client) = clients.get(number / WATCHES_PER_CONNECTION) else {
                break;
            };
            let (head, mut body) = client.send(get(path, None)?).await?.into_parts();
            assert_eq!(head.status, 200, "GET {path}");
            if !reads {
                held.push(body);
                continue;
            }
            let delivered = delivered.clone();
            tasks.spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let events = frame
                        .data_ref()
                        .map_or(0, |data| memchr::memchr_iter(b'\n', data).count());
                    delivered.fetch_add(events as u64, Ordering::Relaxed);
                }
            });
        }
        Ok(Watches {
            delivered,
            _readers: tasks,
            _stalled: held,
        })
    }

    /// Events that arrived at those that read.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let latencies = Latencies::new((1..=100).rev().map(Duration::from_millis).collect());
        assert_eq!(latencies.quantile(0.0), Duration::from_millis(1));
        assert_eq!(latencies.quantile(0.99), Duration::from_millis(99));
        assert_eq!(latencies.quantile(1.0), Duration::from_millis(100));
        assert_eq!(Latencies::default().quantile(0.5), Duration::ZERO);
    }
}
