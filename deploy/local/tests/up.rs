//! `triptych up` as a user meets it, against fake tiers: what it makes, prints, and does when something goes wrong.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A folder with `triptych` and three fake tiers, and a data directory yet to be made.
struct Installation {
    folder: tempfile::TempDir,
}

struct Running {
    child: Child,
    data: PathBuf,
    ready: String,
}

impl Installation {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let triptych = Path::new(env!("CARGO_BIN_EXE_triptych"));
        let fake = triptych.parent().unwrap().join("examples/fake-tier");
        std::fs::copy(triptych, folder.path().join("triptych")).unwrap();
        for tier in ["aggregator", "core-api", "extensions-api"] {
            std::fs::copy(&fake, folder.path().join(tier)).unwrap();
        }
        Self { folder }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.folder.path().join("triptych"));
        command
            .arg("up")
            .arg(format!("--data-dir={}", self.data().display()))
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn fails(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        assert!(!status.success());
        assert_eq!(String::from_utf8(stdout).unwrap(), "");
        String::from_utf8(stderr).unwrap()
    }

    fn up(&self, arguments: &[&str]) -> Running {
        let mut child = self
            .command(&[&["--secure-port=0"], arguments].concat())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        Running {
            child,
            data: self.data(),
            ready,
        }
    }
}

impl Running {
    fn pid(&self, tier: &str) -> Option<Pid> {
        let text = std::fs::read_to_string(self.data.join(format!("run/{tier}.pid"))).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }

    fn ends(mut self, signal: Option<Signal>) -> (Option<i32>, String) {
        if let Some(signal) = signal {
            kill_process(Pid::from_child(&self.child), signal).unwrap();
        }
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.child.wait().unwrap().code(), stderr)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        std::thread::yield_now();
    }
}

/// A process that has ended but was not yet reaped has no command line any more.
fn alive(pid: Pid) -> bool {
    std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).is_ok_and(|line| !line.is_empty())
}

#[test]
fn it_says_when_it_is_ready_and_ends_with_0_on_sigterm() {
    let installation = Installation::new();
    let up = installation.up(&[]);
    let kubeconfig = up.data.join("admin.kubeconfig");
    assert!(up.ready.starts_with("ready in "), "{}", up.ready);
    assert!(
        up.ready
            .ends_with(&format!(" s: export KUBECONFIG={}\n", kubeconfig.display())),
        "{}",
        up.ready
    );
    for file in [
        "pki/ca.crt",
        "pki/admin.crt",
        "pki/admin.key",
        "run/core-api.addr",
        "log/core-api.log",
    ] {
        assert!(up.data.join(file).exists(), "{file}");
    }
    let server = std::fs::read_to_string(up.data.join("run/aggregator.addr")).unwrap();
    assert!(
        std::fs::read_to_string(kubeconfig)
            .unwrap()
            .contains(&format!("https://{}", server.trim()))
    );
    let tiers = ["aggregator", "core-api", "extensions-api"].map(|tier| up.pid(tier).unwrap());
    let (code, stderr) = up.ends(Some(Signal::TERM));
    assert_eq!(code, Some(0), "{stderr}");
    assert!(!tiers.into_iter().any(alive));
}

#[test]
fn sigint_ends_it_with_0_too_and_the_next_start_keeps_the_inner_ports() {
    let installation = Installation::new();
    let addresses = |up: &Running| {
        ["core-api", "extensions-api"]
            .map(|tier| std::fs::read_to_string(up.data.join(format!("run/{tier}.addr"))).unwrap())
    };
    let up = installation.up(&[]);
    let first = addresses(&up);
    assert_eq!(up.ends(Some(Signal::INT)).0, Some(0));
    assert_eq!(addresses(&installation.up(&[])), first);
}

#[test]
fn a_tier_that_dies_ends_all_and_its_last_words_are_shown() {
    let installation = Installation::new();
    let up = installation.up(&["--core-api-arg=--die"]);
    assert_eq!(up.ready, "");
    let (code, stderr) = up.ends(None);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("core-api ended with exit code 3"), "{stderr}");
    assert!(stderr.contains("the store is on fire"), "{stderr}");
    assert!(!installation.data().join("run/aggregator.pid").exists());
}

#[test]
fn a_tier_that_is_killed_later_ends_all() {
    let installation = Installation::new();
    let up = installation.up(&[]);
    let others = ["aggregator", "core-api"].map(|tier| up.pid(tier).unwrap());
    kill_process(up.pid("extensions-api").unwrap(), Signal::KILL).unwrap();
    let (code, stderr) = up.ends(None);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("extensions-api was ended by signal 9"), "{stderr}");
    eventually("the other tiers end", || (!others.into_iter().any(alive)).then_some(()));
}

#[test]
fn with_restart_a_killed_tier_comes_back_at_its_address() {
    let installation = Installation::new();
    let up = installation.up(&["--restart"]);
    let first = up.pid("core-api").unwrap();
    let address = std::fs::read_to_string(up.data.join("run/core-api.addr")).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    eventually("core-api has another process", || {
        up.pid("core-api").filter(|pid| *pid != first)
    });
    eventually("core-api listens again", || {
        std::net::TcpStream::connect(address.trim()).ok()
    });
    let (code, stderr) = up.ends(Some(Signal::TERM));
    assert_eq!(code, Some(0));
    assert!(
        stderr.contains("core-api was ended by signal 9; starting it again"),
        "{stderr}"
    );
}

#[test]
fn tiers_that_outlived_a_killed_triptych_are_ended_by_the_next() {
    let installation = Installation::new();
    let up = installation.up(&[]);
    let orphan = up.pid("core-api").unwrap();
    up.ends(Some(Signal::KILL));
    assert!(alive(orphan));
    let next = installation.up(&[]);
    assert_ne!(next.pid("core-api"), Some(orphan));
    assert!(!alive(orphan));
    assert!(
        next.ends(Some(Signal::TERM))
            .1
            .contains("ending core-api of an earlier run")
    );
}

#[test]
fn a_second_up_on_the_same_directory_is_refused_and_the_first_goes_on() {
    let installation = Installation::new();
    let up = installation.up(&[]);
    let error = installation.fails(&["--secure-port=0"]);
    assert!(error.contains("another triptych runs on"), "{error}");
    assert!(up.pid("core-api").is_some_and(alive));
}

#[test]
fn a_port_in_use_is_told_and_nothing_is_made() {
    let installation = Installation::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = installation.fails(&[&format!("--secure-port={}", taken.local_addr().unwrap().port())]);
    assert!(
        error.contains("cannot listen on") && error.contains("in use"),
        "{error}"
    );
    assert!(!installation.data().exists());
}

#[test]
fn a_tier_of_another_build_is_refused_and_nothing_is_made() {
    let installation = Installation::new();
    let output = installation
        .command(&["--secure-port=0"])
        .env("FAKE_BUILD_ID", "other")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("is of build \"other\""), "{error}");
    assert!(!installation.data().exists());
}

#[test]
fn a_missing_tier_is_named() {
    let installation = Installation::new();
    std::fs::remove_file(installation.folder.path().join("core-api")).unwrap();
    let error = installation.fails(&["--secure-port=0"]);
    assert!(error.contains("core-api, which should lie beside triptych"), "{error}");
}
