//! The etcd store: kube-apiserver's keys, transactions, leases and compaction, over one gRPC channel per set of servers.
//!
//! The channel connects when it is first used and again whenever it has to; requests of an unreachable etcd fail, they do
//! not hang. One watch stream per resource, as many caches as there are.

mod compactor;
mod lease;
mod revision;
mod version;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KeyValue, KvClient, PutOptions,
    ResponseHeader, TlsOptions, Txn, TxnOp, TxnOpResponse,
};
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;

use crate::error::{Conflict, Error, WriteError};
use crate::metrics::Metrics;
use crate::store::{Entry, Expect, Page, ProgressSupport, Range, Revision, Store, Watch, Write};
use lease::Leases;
use revision::CurrentRevision;

/// How long a request may take; kube-apiserver's requests end after a minute at most, its reads much earlier.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// kube-apiserver's keep-alive towards etcd: a dead connection is found within 40 s, and sooner by the kernel.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// How to reach an etcd.
#[derive(Debug, Clone, Default)]
pub struct EtcdOptions {
    /// URLs of its members.
    pub servers: Vec<String>,
    /// PEM of the CA its certificates are signed by.
    pub ca: Option<Vec<u8>>,
    /// PEM of certificate and key to present.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// How often history is compacted; `None`: not from here.
    pub compaction_interval: Option<Duration>,
    /// How long a lease may be shared by keys with the same time to live.
    pub lease_reuse: Duration,
}

/// A store in etcd.
pub struct Etcd {
    client: Client,
    kv: KvClient,
    leases: Leases,
    current: CurrentRevision,
    reliable: Arc<AtomicBool>,
    _tasks: JoinSet<()>,
}

impl Etcd {
    /// Prepares the channel and starts what runs beside it on the current tokio runtime; does not wait for etcd.
    pub async fn connect(options: &EtcdOptions, metrics: &Metrics) -> Result<Self, Error> {
        let client = connect(options, &options.servers).await?;
        let kv = client
            .kv_client()
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let reliable = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        tasks.spawn(version::check(options.clone(), reliable.clone()));
        if let Some(interval) = options.compaction_interval {
            tasks.spawn(compactor::run(kv.clone(), interval));
        }
        let leases = Leases::new(
            client.lease_client(),
            options.lease_reuse,
            metrics.lease_objects.clone(),
        );
        Ok(Self {
            current: CurrentRevision::new(kv.clone()),
            client,
            kv,
            leases,
            reliable,
            _tasks: tasks,
        })
    }
}

async fn connect(options: &EtcdOptions, servers: &[String]) -> Result<Client, Error> {
    let mut connect = ConnectOptions::new()
        .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
        .with_keep_alive_while_idle(true)
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_tcp_keepalive(KEEP_ALIVE.0)
        .with_require_leader(true);
    if servers.iter().any(|server| !server.starts_with("http://")) {
        let mut tls = TlsOptions::new();
        if let Some(ca) = &options.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca));
        }
        if let Some((certificate, key)) = &options.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        connect = connect.with_tls(tls);
    }
    Client::connect(servers, Some(connect)).await.map_err(failed)
}

/// Bounds a request in time.
async fn in_time<T>(request: impl Future<Output = Result<T, etcd_client::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(result) => result.map_err(failed),
        Err(_) => Err(Error::Timeout),
    }
}

/// etcd's errors are recognised by their text, as by every etcd client.
fn failed(error: etcd_client::Error) -> Error {
    /// gRPC codes (google.rpc.Code).
    const DEADLINE_EXCEEDED: i32 = 4;
    const RESOURCE_EXHAUSTED: i32 = 8;
    const UNAVAILABLE: i32 = 14;
    let etcd_client::Error::GRpcStatus(status) = &error else {
        return Error::Unavailable(chain(&error));
    };
    let (code, message) = (i32::from(status.code()), status.message());
    let says = |text: &str| message.contains(text);
    match code {
        _ if says("required revision has been compacted") => Error::Compacted { oldest: 0 },
        _ if says("required revision is a future revision") => Error::FutureRevision { current: 0 },
        _ if says("request is too large") => Error::TooLarge,
        RESOURCE_EXHAUSTED if says("message larger than max") => Error::TooLarge,
        _ if says("database space exceeded") => Error::NoSpace,
        _ if says("request timed out") => Error::Timeout,
        DEADLINE_EXCEEDED => Error::Timeout,
        UNAVAILABLE => Error::Unavailable(chain(&error)),
        _ => Error::Other(message.to_owned()),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn at(header: Option<&ResponseHeader>) -> Revision {
    header.map_or(0, |header| header.revision().max(0) as Revision)
}

/// Keys of an API server are text; others are not ours.
fn entry(pair: KeyValue) -> Option<Entry> {
    let revision = pair.mod_revision().max(0) as Revision;
    let (key, value) = pair.into_key_value();
    Some(Entry {
        key: String::from_utf8(key).ok()?.into(),
        revision,
        value: value.into(),
    })
}

/// The key after all keys with this prefix.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end;
        }
    }
    // etcd's way to say "to the very end".
    vec![0]
}

impl Store for Etcd {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<Entry>, Revision), Error>> {
        Box::pin(async move {
            let mut response = in_time(self.kv.clone().get(key, None)).await?;
            Ok((response.take_kvs().into_iter().find_map(entry), at(response.header())))
        })
    }

    fn range<'a>(&'a self, range: Range<'a>) -> BoxFuture<'a, Result<Page, Error>> {
        Box::pin(async move {
            let start = range.from.filter(|from| *from > range.prefix).unwrap_or(range.prefix);
            // An empty start would mean a single key to etcd.
            let start = if start.is_empty() { "\0" } else { start };
            let options = GetOptions::new()
                .with_range(end_of(range.prefix))
                .with_limit(range.limit as i64)
                .with_revision(range.at.unwrap_or(0) as i64);
            let mut response = in_time(self.kv.clone().get(start, Some(options))).await?;
            let pairs = response.take_kvs();
            let remaining = (response.count().max(0) as u64).saturating_sub(pairs.len() as u64);
            let revision = range.at.unwrap_or_else(|| at(response.header()));
            Ok(Page {
                entries: pairs.into_iter().filter_map(entry).collect(),
                remaining,
                revision,
            })
        })
    }

    fn write<'a>(&'a self, write: Write<'a>) -> BoxFuture<'a, Result<Revision, WriteError>> {
        Box::pin(async move {
            let expected = match write.expect {
                Expect::Absent => 0,
                Expect::Revision(revision) => revision as i64,
            };
            let change = match write.put {
                None => TxnOp::delete(write.key, None),
                Some(value) => {
                    let mut options = PutOptions::new();
                    if let Some(ttl) = write.ttl {
                        options = options.with_lease(self.leases.get(ttl).await?);
                    }
                    TxnOp::put(write.key, Vec::from(value), Some(options))
                }
            };
            let transaction = Txn::new()
                .when([Compare::mod_revision(write.key, CompareOp::Equal, expected)])
                .and_then([change])
                .or_else([TxnOp::get(write.key, None)]);
            let response = in_time(self.kv.clone().txn(transaction)).await?;
            let revision = at(response.header());
            if response.succeeded() {
                return Ok(revision);
            }
            let current = response.op_responses().into_iter().find_map(|response| match response {
                TxnOpResponse::Get(mut found) => found.take_kvs().into_iter().find_map(entry),
                _ => None,
            });
            Err(Conflict { current, revision }.into())
        })
    }

    fn watch<'a>(&'a self, prefix: &'a str, after: Revision) -> BoxFuture<'a, Result<Watch, Error>> {
        Box::pin(watch::open(
            self.client.watch_client(),
            prefix,
            after,
            self.reliable.clone(),
        ))
    }

    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(self.current.read())
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move { in_time(self.kv.clone().compact(revision as i64, None)).await.map(drop) })
    }

    fn progress(&self) -> ProgressSupport {
        match self.reliable.load(Ordering::Relaxed) {
            true => ProgressSupport::Reliable,
            false => ProgressSupport::Unreliable,
        }
    }

    fn size(&self) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let status = in_time(self.client.clone().status()).await?;
            Ok(status.db_size().max(0) as u64)
        })
    }
}
