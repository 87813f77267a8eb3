//! One tier process: spawned with its own log file and process group, signalled, waited for, never left behind.
//!
//! The process group of its own keeps a terminal's Ctrl-C from reaching the tiers past `triptych`, which stops them in
//! order.

use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::sync::watch;

use crate::files::{self, Access};
use crate::layout::Layout;
use crate::tier::Instance;

/// How a process is started, again and again.
#[derive(Clone, Debug)]
pub struct Program {
    /// Which tier's which replica.
    pub instance: Instance,
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to its environment.
    pub environment: Vec<(String, String)>,
}

/// A process that was started.
#[derive(Debug)]
pub struct Process {
    instance: Instance,
    pid: Pid,
    pid_file: PathBuf,
    ended: watch::Receiver<Option<ExitStatus>>,
}

/// What keeps glibc's allocator from holding on to what a burst needed, a large list or an OpenAPI document: freed blocks of
/// more than 128 KiB go back to the system, and threads share two arenas. An idle control plane is megabytes smaller for it.
const ALLOCATOR: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "131072"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

impl Program {
    /// Starts it. Its log is appended to, its pid file written.
    pub fn spawn(&self, layout: &Layout) -> io::Result<Process> {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(layout.log(self.instance))?;
        let mut child = Command::new(&self.executable)
            .args(&self.arguments)
            .envs(
                ALLOCATOR
                    .iter()
                    .filter(|(name, _)| std::env::var_os(name).is_none())
                    .copied(),
            )
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .ok_or_else(|| io::Error::other("the process ended at once"))?;
        let pid_file = layout.pid(self.instance);
        files::write(&pid_file, format!("{}\n", pid.as_raw_pid()).as_bytes(), Access::Public)?;
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            // Waiting for a child that is ours fails only when it was already waited for: then it has ended, too.
            let status = child.wait().await.unwrap_or_default();
            tell.send_replace(Some(status));
        });
        Ok(Process {
            instance: self.instance,
            pid,
            pid_file,
            ended,
        })
    }
}

impl Process {
    /// Which tier's which replica.
    pub fn instance(&self) -> Instance {
        self.instance
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// How it ended, if it has.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.ended.borrow()
    }

    /// Waits until it has ended.
    pub async fn ended(&self) -> ExitStatus {
        let mut ended = self.ended.clone();
        let status = ended.wait_for(Option::is_some).await.map(|status| *status);
        status.ok().flatten().unwrap_or_default()
    }

    /// Sends a signal; nothing happens when it has ended.
    pub fn signal(&self, signal: Signal) {
        if self.status().is_none() {
            // It may end between the two lines; then there is nobody to tell, which is as well.
            let _ = kill_process(self.pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        // The pid file of a process that was started again in its place is not ours any more.
        let ours = std::fs::read_to_string(&self.pid_file).is_ok_and(|text| text.trim() == self.id().to_string());
        if ours {
            let _ = std::fs::remove_file(&self.pid_file);
        }
    }
}

/// Says how a process ended, for a message.
pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
