//! Measures a control plane of its own on the release binaries: what DESIGN.md gives budgets for.
//!
//! `bench [start|get|list|watch|isolation]…` (all without a name) `[--etcd] [--seconds N]`. Every answer that is timed is
//! checked. CPU is that of the tiers (and of etcd), user and system, as `/proc` counts it: compare it rather than rates when
//! the load runs on the same machine. Run it with nothing else going on.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;
use triptych_local::client::{Answer, ApiClient};
use triptych_local::cluster::Cluster;
use triptych_local::etcd::Etcd;
use triptych_local::tier::Tier;
use triptych_tests::eventually;
use triptych_tests::isolation::{self, to_megabytes};
use triptych_tests::load::{self, Latencies, Watches};
use triptych_tests::usage::Usage;

type Failure = Box<dyn std::error::Error>;

const ALL: [&str; 5] = ["start", "get", "list", "watch", "isolation"];
/// An ordinary user, who may read by a RoleBinding.
const TOKEN: &str = "reader";
const CONFIG_MAPS: &str = "/api/v1/namespaces/bench/configmaps";
const CONNECTIONS: usize = 4;
const AT_ONCE: usize = 4;
const LISTED: usize = 5_000;
const WATCHERS: usize = 200;

struct Settings {
    names: Vec<String>,
    etcd: bool,
    time: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match settings() {
        Some(settings) => run(&settings).await,
        None => Err("usage: bench [start|get|list|watch|isolation]… [--etcd] [--seconds N]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn settings() -> Option<Settings> {
    let (mut names, mut etcd, mut seconds) = (Vec::new(), false, 5);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--etcd" => etcd = true,
            "--seconds" => seconds = arguments.next()?.parse().ok()?,
            name if ALL.contains(&name) => names.push(argument),
            _ => return None,
        }
    }
    if names.is_empty() {
        names = ALL.map(str::to_owned).into();
    }
    let time = Duration::from_secs(seconds);
    Some(Settings { names, etcd, time })
}

async fn run(settings: &Settings) -> Result<(), Failure> {
    let etcd = match (settings.etcd, Etcd::binary()) {
        (false, _) => None,
        (true, Some(binary)) => Some(Etcd::start(binary).await?),
        (true, None) => return Err("--etcd needs TRIPTYCH_ETCD, the path of an etcd".into()),
    };
    for name in &settings.names {
        println!("== {name}");
        let mut tokens = tempfile::NamedTempFile::new()?;
        writeln!(tokens, "{TOKEN},{TOKEN},{TOKEN}")?;
        let flag = format!("--token-auth-file={}", tokens.path().display());
        let builder = match &etcd {
            Some(etcd) => Cluster::builder().etcd(etcd.url()),
            None => Cluster::builder().embedded(),
        };
        let builder = Tier::ALL
            .iter()
            .fold(builder, |builder, tier| builder.arg(*tier, &flag));
        let begun = Instant::now();
        let cluster = builder.start().await?;
        let bench = Bench {
            cluster,
            etcd: etcd.as_ref().and_then(Etcd::id).map(u32::cast_signed),
            time: settings.time,
        };
        match name.as_str() {
            "start" => bench.start(begun.elapsed()).await?,
            "get" => bench.get().await?,
            "list" => bench.list().await?,
            "watch" => bench.watch().await?,
            _ => println!("{}", isolation::measure(&bench.cluster, settings.time).await?),
        }
        bench.cluster.finish(&[]).await?;
    }
    Ok(())
}

struct Bench {
    cluster: Cluster,
    etcd: Option<i32>,
    time: Duration,
}

/// What every process had used at some moment.
struct Moment(Vec<(&'static str, Usage)>);

impl Bench {
    fn client(&self, tier: Tier) -> Result<ApiClient, Failure> {
        Ok(self.cluster.client_of(tier.first(), Some("admin"))?)
    }

    /// Clients with connections of their own and no certificate.
    fn readers(&self, tier: Tier, connections: usize) -> Result<Vec<ApiClient>, Failure> {
        let clients = (0..connections).map(|_| self.cluster.client_of(tier.first(), None));
        Ok(clients.collect::<Result<_, _>>()?)
    }

    fn moment(&self) -> Result<Moment, Failure> {
        let mut all = Vec::new();
        for tier in Tier::ALL {
            let pid = self.cluster.pid(tier.first()).ok_or("a tier ended")?;
            all.push((tier.name(), Usage::of(pid)?));
        }
        if let Some(pid) = self.etcd {
            all.push(("etcd", Usage::of(pid)?));
        }
        Ok(Moment(all))
    }

    async fn start(&self, ready: Duration) -> Result<(), Failure> {
        println!("ready after {:.2} s, certificates made", ready.as_secs_f64());
        let client = self.client(Tier::Aggregator)?;
        for path in ["/api", "/apis", "/openapi/v2", "/openapi/v3"] {
            check(&client.get(path).await?, 200)?;
        }
        tokio::time::sleep(Duration::from_secs(10)).await; // idle memory is defined as that after 10 s
        let now = self.moment()?;
        let sum: u64 = now
            .0
            .iter()
            .filter(|(name, _)| *name != "etcd")
            .map(|(_, usage)| usage.resident)
            .sum();
        for (name, usage) in &now.0 {
            println!("{name:<16} {:>6.1} MB resident", to_megabytes(usage.resident));
        }
        println!("{:<16} {:>6.1} MB", "tiers together", to_megabytes(sum));
        Ok(())
    }

    /// The namespace, so many ConfigMaps of so many bytes, and who may read them.
    async fn fill(&self, count: usize, bytes: usize) -> Result<(), Failure> {
        let client = self.client(Tier::CoreApi)?;
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bench"}});
        check(
            &client.send_json(Method::POST, "/api/v1/namespaces", &namespace).await?,
            201,
        )?;
        let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/bench";
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": TOKEN},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}],
        });
        check(
            &client.send_json(Method::POST, &format!("{rbac}/roles"), &role).await?,
            201,
        )?;
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": TOKEN},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TOKEN},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TOKEN}],
        });
        check(
            &client
                .send_json(Method::POST, &format!("{rbac}/rolebindings"), &binding)
                .await?,
            201,
        )?;
        for number in 0..count {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}")},
                "data": {"filling": "x".repeat(bytes)},
            });
            check(&client.send_json(Method::POST, CONFIG_MAPS, &object).await?, 201)?;
        }
        // What authorizes follows roles and bindings by itself.
        let front = self.cluster.client_of(Tier::Aggregator.first(), None)?;
        let asked = load::get(CONFIG_MAPS, Some(TOKEN))?;
        eventually("the reader may read", async || {
            front.collect(asked.clone()).await.is_ok_and(|a| a.status == 200)
        })
        .await;
        Ok(())
    }

    async fn get(&self) -> Result<(), Failure> {
        self.fill(1, 700).await?;
        let one = |answer: &Answer| answer.status == 200 && answer.body.starts_with(b"{\"kind\":\"ConfigMap\"");
        for tier in [Tier::Aggregator, Tier::CoreApi] {
            for query in ["", "?resourceVersion=0"] {
                let (path, clients) = (format!("{CONFIG_MAPS}/c0{query}"), self.readers(tier, CONNECTIONS)?);
                load::gets(&clients, AT_ONCE, &path, Some(TOKEN), self.time / 5, one).await;
                let (before, begun) = (self.moment()?, Instant::now());
                let latencies = load::gets(&clients, AT_ONCE, &path, Some(TOKEN), self.time, one).await;
                let time = begun.elapsed();
                report(
                    &format!("GET c0{query} at {tier}"),
                    &latencies,
                    time,
                    &before,
                    &self.moment()?,
                );
            }
        }
        Ok(())
    }

    async fn list(&self) -> Result<(), Failure> {
        self.fill(LISTED, 1_100).await?;
        let whole = |answer: &Answer| {
            answer.status == 200
                && answer.body.ends_with(b"]}\n")
                && memchr::memmem::find_iter(&answer.body, b"\"filling\":\"x").count() == LISTED
        };
        for tier in [Tier::CoreApi, Tier::Aggregator] {
            let (path, clients) = (format!("{CONFIG_MAPS}?resourceVersion=0"), self.readers(tier, 2)?);
            let size = clients
                .first()
                .ok_or("no client")?
                .collect(load::get(&path, Some(TOKEN))?)
                .await?
                .body
                .len();
            let (before, begun) = (self.moment()?, Instant::now());
            let latencies = load::gets(&clients, 1, &path, Some(TOKEN), self.time, whole).await;
            let time = begun.elapsed();
            let after = self.moment()?;
            report(&format!("LIST {LISTED} at {tier}"), &latencies, time, &before, &after);
            #[allow(clippy::cast_precision_loss)] // a rate
            let megabytes = (size * latencies.count()) as f64 / 1e6;
            let cpu: f64 = used(&before, &after).iter().map(|(_, cpu, _)| cpu.as_secs_f64()).sum();
            println!(
                "    {:.1} MB each, {:.0} MB/s per core",
                to_megabytes(size as u64),
                megabytes / cpu
            );
        }
        Ok(())
    }

    async fn watch(&self) -> Result<(), Failure> {
        self.fill(1, 1_000).await?;
        let client = self.client(Tier::CoreApi)?;
        for tier in [Tier::CoreApi, Tier::Aggregator] {
            let path = format!("{CONFIG_MAPS}?watch=true");
            let clients = (0..Watches::connections(WATCHERS, 0)).map(|_| self.client(tier));
            let clients: Vec<ApiClient> = clients.collect::<Result<_, _>>()?;
            let watches = Watches::open(&clients, &path, WATCHERS, 0).await?;
            eventually("the watches begin", async || watches.delivered() >= WATCHERS as u64).await;
            let (before, begun, mut written) = (self.moment()?, Instant::now(), 0);
            while begun.elapsed() < self.time {
                let patch = json!({"data": {"number": written.to_string()}});
                check(
                    &client
                        .send_json(Method::PATCH, &format!("{CONFIG_MAPS}/c0"), &patch)
                        .await?,
                    200,
                )?;
                written += 1;
                tokio::time::sleep(Duration::from_millis(10)).await; // about 100 events a second
            }
            let expected = (written + 1) * WATCHERS as u64;
            eventually("every watcher is told of everything", async || {
                watches.delivered() >= expected
            })
            .await;
            let (time, delivered) = (begun.elapsed(), watches.delivered() - WATCHERS as u64);
            report(
                &format!("{WATCHERS} watchers at {tier}, {written} events"),
                &Latencies::default(),
                time,
                &before,
                &self.moment()?,
            );
            let cpu: Duration = used(&before, &self.moment()?).iter().map(|(_, cpu, _)| *cpu).sum();
            #[allow(clippy::cast_precision_loss)] // microseconds per event
            let each = cpu.as_secs_f64() * 1e6 / delivered as f64;
            println!("    {delivered} delivered, {each:.1} µs of CPU each, writes included");
        }
        Ok(())
    }
}

fn check(answer: &Answer, status: u16) -> Result<(), Failure> {
    match answer.status == status {
        true => Ok(()),
        false => Err(format!("{}: {}", answer.status, answer.text()).into()),
    }
}

/// CPU time since `before` and the peak of memory, by process.
fn used(before: &Moment, after: &Moment) -> Vec<(&'static str, Duration, u64)> {
    let pairs = before.0.iter().zip(&after.0);
    pairs
        .map(|((name, before), (_, after))| (*name, after.cpu.saturating_sub(before.cpu), after.peak))
        .collect()
}

fn report(what: &str, latencies: &Latencies, time: Duration, before: &Moment, after: &Moment) {
    println!("{what}");
    let count = latencies.count();
    let used = used(before, after);
    if count > 0 {
        #[allow(clippy::cast_precision_loss)] // rates
        let n = count as f64;
        let cpu: f64 = used.iter().map(|(_, cpu, _)| cpu.as_secs_f64()).sum();
        let (p50, p99) = (latencies.quantile(0.5), latencies.quantile(0.99));
        println!(
            "    {count} in {:.1} s: {:.0}/s, p50 {p50:.2?}, p99 {p99:.2?}, {:.4} ms of CPU each",
            time.as_secs_f64(),
            n / time.as_secs_f64(),
            cpu * 1000.0 / n
        );
    }
    for (name, cpu, peak) in used {
        println!(
            "    {name:<16} {:>7.2} s CPU, peak {:>6.1} MB",
            cpu.as_secs_f64(),
            to_megabytes(peak)
        );
    }
}
