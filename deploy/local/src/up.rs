//! `triptych up`: make what is missing, start the three tiers, wait until they are ready, watch over them, stop them.
//!
//! Order matters for "nothing half-made": everything that can be wrong with the flags, the directory, the binaries and
//! the port is found before the first file is made, and whatever fails later ends the tiers that were started.
//! Standard output carries the one line of readiness; everything else goes to standard error.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::binaries::{Binaries, BinaryError};
use crate::layout::Layout;
use crate::options::Settings;
use crate::pki::{self, PkiError};
use crate::ports::{self, PortError};
use crate::process::{self, Process, Program};
use crate::readiness::{self, NotReady};
use crate::tier::{Instance, Tier, Wiring};
use crate::{files, kubeconfig};

/// How long the tiers may take to become ready: etcd may still be electing.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// How long a tier may take to end its work after SIGTERM before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(30);
/// A tier that lived this long is started again at once.
const STABLE: Duration = Duration::from_secs(10);
const FIRST_RESTART_DELAY: Duration = Duration::from_millis(50);
const LONGEST_RESTART_DELAY: Duration = Duration::from_secs(10);
/// How much of a dead tier's log is shown.
const LOG_LINES: usize = 20;

/// Why `triptych up` ended other than by a signal.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The data directory cannot be used.
    #[error("--data-dir: {}", path.display())]
    Directory {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another `triptych` runs on it.
    #[error("--data-dir: another triptych runs on {}", .0.display())]
    Busy(PathBuf),
    /// The binaries are not there or not ours.
    #[error(transparent)]
    Binaries(#[from] BinaryError),
    /// No addresses.
    #[error(transparent)]
    Ports(#[from] PortError),
    /// No certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// Signals cannot be received.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
    /// A tier could not be started.
    #[error("cannot start {instance}")]
    Start {
        /// Which.
        instance: Instance,
        /// What the system says.
        source: io::Error,
    },
    /// A tier of an earlier run does not end.
    #[error("{instance} of an earlier run (process {pid}) does not end")]
    Leftover {
        /// Which.
        instance: Instance,
        /// Its process.
        pid: i32,
    },
    /// A tier died.
    #[error("{instance} {how}; the last lines of {}:\n{lines}", log.display())]
    Died {
        /// Which.
        instance: Instance,
        /// How.
        how: String,
        /// Its log.
        log: PathBuf,
        /// The end of its log.
        lines: String,
    },
    /// Not ready in time.
    #[error(transparent)]
    NotReady(#[from] NotReady),
}

/// Runs the control plane until SIGINT or SIGTERM. `build_id` is ours; `since` is when the program was started.
pub async fn run(settings: Settings, build_id: &str, since: Instant) -> Result<(), UpError> {
    let mut signals = Signals::new().map_err(UpError::Signals)?;
    let own = std::env::current_exe().map_err(|source| UpError::Directory {
        path: "triptych".into(),
        source,
    })?;
    let binaries = Binaries::inspect(own.parent().unwrap_or(Path::new(".")), Some(build_id)).await?;

    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| UpError::Directory { path, source }
    };
    let layout = Layout::new(&settings.data_dir).map_err(at(&settings.data_dir))?;
    // A port that is taken is told before the directory is made.
    ports::choose(&layout, settings.front, 1)?;
    layout.create().map_err(at(layout.dir()))?;
    let _lock = lock(&layout)?;
    end_leftovers(&layout).await?;
    let addresses = ports::choose(&layout, settings.front, 1)?;
    pki::ensure(&layout, settings.front.ip())?;

    let wiring = Wiring {
        layout,
        store: settings.store,
        addresses,
        arguments: settings.arguments,
    };
    let layout = &wiring.layout;
    let front = wiring.address(Tier::Aggregator.first()).unwrap_or(settings.front);
    kubeconfig::write(layout, &kubeconfig::server_url(front)).map_err(at(&layout.kubeconfig()))?;

    let mut tiers = Tiers::start(&wiring, &binaries)?;
    tokio::select! {
        biased;
        () = signals.received() => return { tiers.stop(&mut signals).await; Ok(()) },
        ended = tiers.ended() => return Err(died(layout, ended)),
        ready = readiness::all_ready(&wiring, START_DEADLINE) => ready?,
    }
    let (seconds, kubeconfig) = (since.elapsed().as_secs_f64(), layout.kubeconfig());
    let _ = writeln!(
        io::stdout(),
        "ready in {seconds:.2} s: export KUBECONFIG={}",
        kubeconfig.display()
    );

    loop {
        tokio::select! {
            biased;
            () = signals.received() => return { tiers.stop(&mut signals).await; Ok(()) },
            (instance, status) = tiers.ended() => {
                if !settings.restart {
                    return Err(died(layout, (instance, status)));
                }
                tell(format_args!("{instance} {}; starting it again", process::describe(status)));
                tiers.schedule(instance);
            }
            instance = tiers.due() => tiers.restart(layout, instance)?,
        }
    }
}

fn died(layout: &Layout, (instance, status): (Instance, ExitStatus)) -> UpError {
    let log = layout.log(instance);
    let lines = files::last_lines(&log, LOG_LINES)
        .iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n");
    UpError::Died {
        instance,
        how: process::describe(status),
        log,
        lines,
    }
}

/// Says something on standard error. Whoever reads it may have gone; the control plane serves all the same.
fn tell(message: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{message}");
}

/// Takes the data directory for this process; the lock ends with the file, however the process ends.
fn lock(layout: &Layout) -> Result<File, UpError> {
    let path = layout.lock();
    let at = |source| UpError::Directory {
        path: path.clone(),
        source,
    };
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(at)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(UpError::Busy(layout.dir().to_owned())),
        Err(std::fs::TryLockError::Error(source)) => Err(at(source)),
    }
}

/// Ends tiers that outlived a `triptych` that was killed: the lock says that it is gone, their command line that they
/// are of this directory.
async fn end_leftovers(layout: &Layout) -> Result<(), UpError> {
    for instance in Tier::ALL.map(Tier::first) {
        let pid_file = layout.pid(instance);
        let Some(pid) = std::fs::read_to_string(&pid_file)
            .ok()
            .and_then(|text| Pid::from_raw(text.trim().parse().ok()?))
        else {
            continue;
        };
        if is_tier_of(layout, instance, pid) {
            tell(format_args!(
                "ending {instance} of an earlier run (process {})",
                pid.as_raw_pid()
            ));
            let _ = kill_process(pid, Signal::KILL);
            let deadline = Instant::now() + Duration::from_secs(5);
            while is_tier_of(layout, instance, pid) {
                if Instant::now() > deadline {
                    return Err(UpError::Leftover {
                        instance,
                        pid: pid.as_raw_pid(),
                    });
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        let _ = std::fs::remove_file(pid_file);
    }
    Ok(())
}

/// Whether that process runs this tier of this directory; one that has ended and is only not yet reaped does not.
fn is_tier_of(layout: &Layout, instance: Instance, pid: Pid) -> bool {
    let flag = format!("--address-file={}", layout.address(instance).display());
    let command_line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
    command_line
        .split(|b| *b == 0)
        .any(|argument| argument == flag.as_bytes())
}

/// The signals that end it: SIGINT, SIGTERM, and SIGHUP when its terminal goes away.
struct Signals {
    hangup: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn received(&mut self) {
        tokio::select! {
            _ = self.hangup.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The processes that are watched over.
struct Tiers {
    slots: Vec<Slot>,
}

/// One process, or the plan to start it again.
struct Slot {
    program: Program,
    state: State,
    started: Instant,
    delay: Duration,
}

enum State {
    Running(Process),
    Due(tokio::time::Instant),
}

impl Tiers {
    fn start(wiring: &Wiring, binaries: &Binaries) -> Result<Self, UpError> {
        let mut slots = Vec::new();
        // Innermost first: what is forwarded to is there a little before what forwards.
        for instance in wiring.instances().rev() {
            let program = Program {
                instance,
                executable: binaries.executable(instance.tier),
                arguments: wiring.command_line(instance),
                environment: Vec::new(),
            };
            let process = program
                .spawn(&wiring.layout)
                .map_err(|source| UpError::Start { instance, source })?;
            let state = State::Running(process);
            slots.push(Slot {
                program,
                state,
                started: Instant::now(),
                delay: FIRST_RESTART_DELAY,
            });
        }
        Ok(Self { slots })
    }

    fn running(&self) -> impl DoubleEndedIterator<Item = &Process> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Running(process) => Some(process),
            State::Due(_) => None,
        })
    }

    /// Waits until one of the running processes has ended.
    async fn ended(&self) -> (Instance, ExitStatus) {
        let ends: Vec<_> = self
            .running()
            .map(|process| Box::pin(async { (process.instance(), process.ended().await) }))
            .collect();
        if ends.is_empty() {
            std::future::pending().await
        } else {
            select_all(ends).await.0
        }
    }

    /// Plans to start a process again that has ended; later and later when it keeps ending soon.
    fn schedule(&mut self, instance: Instance) {
        let Some(slot) = self.slot(instance) else { return };
        slot.delay = if slot.started.elapsed() > STABLE {
            FIRST_RESTART_DELAY
        } else {
            (slot.delay * 2).min(LONGEST_RESTART_DELAY)
        };
        slot.state = State::Due(tokio::time::Instant::now() + slot.delay);
    }

    /// Waits until a process is to be started again.
    async fn due(&self) -> Instance {
        let due = self.slots.iter().filter_map(|slot| match slot.state {
            State::Due(at) => Some((at, slot.program.instance)),
            State::Running(_) => None,
        });
        match due.min_by_key(|(at, _)| *at) {
            Some((at, instance)) => {
                tokio::time::sleep_until(at).await;
                instance
            }
            None => std::future::pending().await,
        }
    }

    fn restart(&mut self, layout: &Layout, instance: Instance) -> Result<(), UpError> {
        let Some(slot) = self.slot(instance) else { return Ok(()) };
        let process = slot
            .program
            .spawn(layout)
            .map_err(|source| UpError::Start { instance, source })?;
        slot.state = State::Running(process);
        slot.started = Instant::now();
        Ok(())
    }

    fn slot(&mut self, instance: Instance) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.program.instance == instance)
    }

    /// Ends all, the outermost tier first so that what it still forwards finds the next; a second signal kills them.
    async fn stop(&self, signals: &mut Signals) {
        for process in self.running().rev() {
            process.signal(Signal::TERM);
            tokio::select! {
                _ = process.ended() => {}
                () = tokio::time::sleep(STOP_DEADLINE) => {
                    tell(format_args!("{} does not end within {} s: killed", process.instance(), STOP_DEADLINE.as_secs()));
                    process.signal(Signal::KILL);
                }
                () = signals.received() => return,
            }
        }
    }
}
