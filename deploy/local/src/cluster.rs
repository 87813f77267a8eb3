//! A control plane for whole-process tests: real processes on real sockets, free ports, a directory that goes with it.
//!
//! ```no_run
//! # async fn example() -> Result<(), triptych_local::cluster::ClusterError> {
//! use triptych_local::cluster::Cluster;
//! use triptych_local::tier::Tier;
//!
//! let mut cluster = Cluster::builder().embedded().arg(Tier::CoreApi, "-v=4").start().await?;
//! cluster.kill(Tier::ExtensionsApi.first()).await;
//! assert_eq!(cluster.client().get("/api/v1/namespaces").await?.status, 200);
//! cluster.start_again(Tier::ExtensionsApi.first())?;
//! cluster.ready().await?;
//! cluster.finish(&["next tier unreachable"]).await
//! # }
//! ```
//!
//! A test ends with [`Cluster::finish`], which fails on an exit code other than 0 and on any WARN or ERROR in a log that the
//! test does not name. A cluster that is only dropped kills its processes; when the test is failing, it keeps the logs.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::AsyncWriteExt;

use crate::binaries::{Binaries, BinaryError};
use crate::client::{ApiClient, ClientError};
use crate::kubeconfig::{self, server_url};
use crate::layout::Layout;
use crate::pki::{self, PkiError};
use crate::ports::{self, PortError};
use crate::process::{self, Process, Program};
use crate::readiness::{self, NotReady};
use crate::tier::{Instance, Store, Tier, Wiring};
use crate::{files, logs};

/// How long the processes may take to become ready.
const READY_DEADLINE: Duration = Duration::from_secs(30);
/// How long a process may take to end after SIGTERM.
const END_DEADLINE: Duration = Duration::from_secs(30);

/// What goes wrong around a cluster of a test.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No binaries.
    #[error(transparent)]
    Binaries(#[from] BinaryError),
    /// No addresses.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// No certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// Not ready.
    #[error("{why}\n{logs}")]
    NotReady {
        /// Why.
        why: NotReady,
        /// The last lines of every log.
        logs: String,
    },
    /// A request that was not answered.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A file or process that cannot be had.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The processes did not end well.
    #[error("the control plane did not end well:\n{}", .0.join("\n"))]
    Unclean(Vec<String>),
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> ClusterError {
    move |source| ClusterError::System {
        what: what.into(),
        source,
    }
}

/// How a cluster is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    etcd: Option<String>,
    replicas: usize,
    binaries: Option<PathBuf>,
    ready_within: Duration,
    arguments: BTreeMap<Tier, Vec<String>>,
    environment: Vec<(String, String)>,
}

/// A running control plane.
#[derive(Debug)]
pub struct Cluster {
    wiring: Wiring,
    ready_within: Duration,
    client: ApiClient,
    slots: BTreeMap<Instance, Slot>,
    folder: Option<tempfile::TempDir>,
}

#[derive(Debug)]
struct Slot {
    program: Program,
    process: Option<Process>,
}

/// What a command printed.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Builder {
    /// Each process keeps its objects in a store of its own. This is the default.
    pub fn embedded(mut self) -> Self {
        self.etcd = None;
        self
    }

    /// All processes keep their objects in the etcd at `url`, below a prefix of this cluster's own.
    pub fn etcd(mut self, url: &str) -> Self {
        self.etcd = Some(url.to_owned());
        self
    }

    /// So many processes of every tier; more than one needs etcd.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas.max(1);
        self
    }

    /// A flag for a tier; it replaces one of the harness with the same name.
    pub fn arg(mut self, tier: Tier, flag: impl Into<String>) -> Self {
        self.arguments.entry(tier).or_default().push(flag.into());
        self
    }

    /// A variable in the environment of every process.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// How long the processes may take to become ready, instead of 30 s.
    pub fn ready_within(mut self, deadline: Duration) -> Self {
        self.ready_within = deadline;
        self
    }

    /// The folder of the tiers' binaries, instead of `TRIPTYCH_BIN_DIR` or where cargo built them.
    pub fn binaries(mut self, folder: impl Into<PathBuf>) -> Self {
        self.binaries = Some(folder.into());
        self
    }

    /// Starts the processes and waits until all are ready.
    pub async fn start(self) -> Result<Cluster, ClusterError> {
        let folder = tempfile::Builder::new()
            .prefix("triptych-")
            .tempdir()
            .map_err(system("make a directory"))?;
        let layout = Layout::new(folder.path()).map_err(system("find a directory"))?;
        layout.create().map_err(system("make directories"))?;
        let folder_of_binaries = self
            .binaries
            .map_or_else(binaries_folder, Ok)
            .map_err(system("find the binaries"))?;
        let binaries = Binaries::inspect(&folder_of_binaries, None).await?;
        let loopback = ([127, 0, 0, 1], 0).into();
        let addresses = ports::choose(&layout, loopback, self.replicas)?;
        pki::ensure(&layout, loopback.ip())?;
        let prefix = folder
            .path()
            .file_name()
            .map(|name| format!("/{}", name.to_string_lossy()));
        let store = match self.etcd {
            Some(url) => Store::Etcd {
                servers: vec![url],
                prefix,
            },
            None => Store::Embedded,
        };
        let wiring = Wiring {
            layout,
            store,
            addresses,
            arguments: self.arguments,
        };
        let url = wiring
            .address(Tier::Aggregator.first())
            .map(server_url)
            .unwrap_or_default();
        kubeconfig::write(&wiring.layout, &url).map_err(system("write the kubeconfig"))?;
        let client = ApiClient::administrator(&wiring.layout, &url)?;
        let program = |instance: Instance| Program {
            instance,
            executable: binaries.executable(instance.tier),
            arguments: wiring.command_line(instance),
            environment: self.environment.clone(),
        };
        let slots = wiring
            .instances()
            .map(|i| {
                (
                    i,
                    Slot {
                        program: program(i),
                        process: None,
                    },
                )
            })
            .collect();
        let mut cluster = Cluster {
            ready_within: self.ready_within,
            wiring,
            client,
            slots,
            folder: Some(folder),
        };
        for instance in cluster.wiring.instances().rev().collect::<Vec<_>>() {
            cluster.start_again(instance)?;
        }
        cluster.ready().await?;
        Ok(cluster)
    }
}

/// `TRIPTYCH_BIN_DIR`, or the folder into which cargo built the running test's binaries.
pub fn binaries_folder() -> io::Result<PathBuf> {
    if let Some(folder) = std::env::var_os("TRIPTYCH_BIN_DIR") {
        return std::path::absolute(folder);
    }
    let own = std::env::current_exe()?;
    let found = own
        .ancestors()
        .skip(1)
        .find(|folder| folder.join(Tier::CoreApi.name()).is_file());
    found
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other("set TRIPTYCH_BIN_DIR, or build the tiers first"))
}

impl Cluster {
    /// A cluster on embedded stores, one process a tier.
    pub fn builder() -> Builder {
        Builder {
            etcd: None,
            replicas: 1,
            binaries: None,
            ready_within: READY_DEADLINE,
            arguments: BTreeMap::new(),
            environment: Vec::new(),
        }
    }

    /// The administrator's client of the first aggregator.
    pub fn client(&self) -> &ApiClient {
        &self.client
    }

    /// A client of one process that shows the certificate `pki/<identity>.crt`, or none.
    pub fn client_of(&self, instance: Instance, identity: Option<&str>) -> Result<ApiClient, ClientError> {
        let url = self.wiring.address(instance).map(server_url).unwrap_or_default();
        ApiClient::with_identity(&self.wiring.layout, &url, identity)
    }

    /// The addresses, command lines and files.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// The process id of a running process.
    pub fn pid(&self, instance: Instance) -> Option<i32> {
        self.process(instance).map(Process::id)
    }

    /// A process's log so far.
    pub fn log(&self, instance: Instance) -> String {
        std::fs::read(self.wiring.layout.log(instance))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until every process is ready.
    pub async fn ready(&self) -> Result<(), ClusterError> {
        readiness::all_ready(&self.wiring, self.ready_within)
            .await
            .map_err(|why| ClusterError::NotReady {
                why,
                logs: self.last_words(),
            })
    }

    /// kill -9, and waits for the end.
    pub async fn kill(&mut self, instance: Instance) {
        self.end(instance, Signal::KILL).await;
    }

    /// SIGTERM, and waits for the end. `None` when it was not running or did not end in time.
    pub async fn terminate(&mut self, instance: Instance) -> Option<ExitStatus> {
        self.end(instance, Signal::TERM).await
    }

    async fn end(&mut self, instance: Instance, signal: Signal) -> Option<ExitStatus> {
        let process = self.slots.get_mut(&instance)?.process.take()?;
        process.signal(signal);
        tokio::time::timeout(END_DEADLINE, process.ended()).await.ok()
    }

    /// SIGSTOP: the process keeps its connections and answers nothing, until [`Cluster::resume`].
    pub fn pause(&self, instance: Instance) {
        if let Some(process) = self.process(instance) {
            process.signal(Signal::STOP);
        }
    }

    /// SIGCONT.
    pub fn resume(&self, instance: Instance) {
        if let Some(process) = self.process(instance) {
            process.signal(Signal::CONT);
        }
    }

    /// Starts a process that was ended, with the same command line. [`Cluster::ready`] waits for it.
    pub fn start_again(&mut self, instance: Instance) -> Result<(), ClusterError> {
        if let Some(slot) = self.slots.get_mut(&instance) {
            let process = slot
                .program
                .spawn(&self.wiring.layout)
                .map_err(system(format!("start {instance}")))?;
            slot.process = Some(process);
        }
        Ok(())
    }

    fn process(&self, instance: Instance) -> Option<&Process> {
        self.slots.get(&instance)?.process.as_ref()
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output, ClusterError> {
        self.kubectl_with(arguments, "", &[]).await
    }

    /// Runs kubectl as the administrator with this standard input and environment.
    pub async fn kubectl_with(
        &self,
        arguments: &[&str],
        input: &str,
        environment: &[(&str, &str)],
    ) -> Result<Output, ClusterError> {
        let mut child = tokio::process::Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.wiring.layout.kubeconfig())
            .env("HOME", self.wiring.layout.dir())
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(system("run kubectl"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // A command that does not read its input closes it early; that is no failure.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
        let output = child.wait_with_output().await.map_err(system("run kubectl"))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Output {
            status: output.status,
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        })
    }

    /// Ends all, outermost first. Fails when a process exits other than with 0, or when a log has a WARN or ERROR line that
    /// contains none of `allowed`.
    pub async fn finish(mut self, allowed: &[&str]) -> Result<(), ClusterError> {
        let allowed: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        let mut problems = Vec::new();
        for instance in self.wiring.instances().collect::<Vec<_>>() {
            if self.process(instance).is_some() {
                match self.terminate(instance).await {
                    Some(status) if status.success() => {}
                    Some(status) => problems.push(format!("{instance} {}", process::describe(status))),
                    None => problems.push(format!("{instance} did not end within {} s", END_DEADLINE.as_secs())),
                }
            }
            let log = self.log(instance);
            problems.extend(
                logs::complaints(&log, &allowed)
                    .iter()
                    .map(|line| format!("{instance} logged: {line}")),
            );
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(ClusterError::Unclean(problems))
        }
    }

    fn last_words(&self) -> String {
        let of = |instance: Instance| {
            let lines = files::last_lines(&self.wiring.layout.log(instance), 15).join("\n  ");
            format!("{instance}:\n  {lines}")
        };
        self.wiring.instances().map(of).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.last_words());
            if let Some(folder) = self.folder.take() {
                eprintln!("kept: {}", folder.keep().display());
            }
        }
    }
}
