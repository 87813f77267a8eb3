//! Runs the recorded stories against a control plane of its own and holds each folder against its floor.
//!
//! `stories FOLDER [--etcd] [--raise] [replay.py's flags…]`: FOLDER holds replay.py and stories/. `--raise` writes what was
//! reached into tests/replay-floor.toml; with `-v` or `--only`, which replay.py understands, floors are not looked at.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokio::process::Command;
use triptych_local::cluster::Cluster;
use triptych_local::etcd::Etcd;
use triptych_local::kubeconfig::server_url;
use triptych_local::tier::Tier;
use triptych_tests::replay::{self, Row};

/// The administrator's bearer token. With a client certificate the stories of bad credentials could not be told: it is tried first.
const TOKEN: &str = "admintoken";

/// The token file of the recorded server.
const TOKENS: &str = "admintoken,admin,admin,system:masters\nusertoken,alice,alice,devs\n";

/// Stories at a time: most of their time is spent waiting for watches to end.
const JOBS: &str = "16";

type Failure = Box<dyn std::error::Error>;

struct Arguments {
    folder: PathBuf,
    etcd: bool,
    raise: bool,
    others: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let result = match arguments() {
        Some(arguments) => run(&arguments).await,
        None => Err("usage: stories FOLDER [--etcd] [--raise] [replay.py's flags…]".into()),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("stories: {e}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Option<Arguments> {
    let mut rest: Vec<String> = std::env::args().skip(1).collect();
    let mut take = |flag: &str| {
        let before = rest.len();
        rest.retain(|argument| argument != flag);
        rest.len() < before
    };
    let (etcd, raise) = (take("--etcd"), take("--raise"));
    if rest.is_empty() || rest[0].starts_with('-') {
        return None;
    }
    Some(Arguments {
        folder: PathBuf::from(rest.remove(0)),
        etcd,
        raise,
        others: rest,
    })
}

async fn run(arguments: &Arguments) -> Result<bool, Failure> {
    let etcd = match (arguments.etcd, Etcd::binary()) {
        (false, _) => None,
        (true, Some(binary)) => Some(Etcd::start(binary).await?),
        (true, None) => return Err("--etcd needs TRIPTYCH_ETCD, the path of an etcd".into()),
    };
    let builder = match &etcd {
        Some(etcd) => Cluster::builder().etcd(etcd.url()),
        None => Cluster::builder().embedded(),
    };
    let mut tokens = tempfile::NamedTempFile::new()?;
    tokens.write_all(TOKENS.as_bytes())?;
    let flag = format!("--token-auth-file={}", tokens.path().display());
    let builder = Tier::ALL
        .iter()
        .fold(builder, |builder, tier| builder.arg(*tier, &flag));
    let cluster = builder.start().await?;
    let (output, finished) = (play(&cluster, arguments).await?, cluster.finish(&[]).await);
    print!("{output}");
    if let Err(e) = &finished {
        println!("{e}");
    }
    let whole = arguments.others.is_empty();
    Ok(finished.is_ok() && (!whole || judge(&output, arguments.raise)?))
}

async fn play(cluster: &Cluster, arguments: &Arguments) -> Result<String, Failure> {
    let layout = &cluster.wiring().layout;
    let server = cluster
        .wiring()
        .address(Tier::Aggregator.first())
        .map(server_url)
        .unwrap_or_default();
    let output = Command::new("python3")
        .arg(arguments.folder.join("replay.py"))
        .args(["--server", &server, "--ca"])
        .arg(layout.pki("ca.crt"))
        .args(["--token", TOKEN, "--jobs", JOBS])
        .args(&arguments.others)
        .arg(arguments.folder.join("stories"))
        .stdin(std::process::Stdio::null())
        .stderr(std::process::Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Prints how each folder stands; false when one is below its floor.
fn judge(output: &str, raise: bool) -> Result<bool, Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("replay-floor.toml");
    let text = std::fs::read_to_string(&path)?;
    let (floors, results) = (replay::parse_floors(&text)?, replay::parse_table(output));
    if raise {
        let header: String = text
            .lines()
            .take_while(|l| l.starts_with('#'))
            .map(|l| format!("{l}\n"))
            .collect();
        std::fs::write(&path, replay::raised(&floors, &results, &header))?;
    }
    let rows = replay::compare(&floors, &results);
    println!();
    rows.iter().for_each(|row| println!("{row}"));
    Ok(raise || !rows.iter().any(Row::fails))
}
