//! `triptych`: the command that runs a whole control plane on one machine. What it does is in the library.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use triptych_local::options::{Cli, Command, Settings};
use triptych_local::readiness::chain;

fn main() -> ExitCode {
    let since = Instant::now();
    let build_id = triptych_options::build_id!();
    let cli = Cli::parse();
    if cli.build_id {
        println!("{build_id}");
        return ExitCode::SUCCESS;
    }
    let Some(Command::Up(options)) = cli.command else {
        return ExitCode::SUCCESS;
    };
    let settings = match Settings::try_from(options) {
        Ok(settings) => settings,
        Err(problems) => return fail(&problems, 2),
    };
    // One thread is enough for one that waits; it counts towards the memory of the control plane.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => return fail(&chain(&e), 1),
    };
    match runtime.block_on(triptych_local::up::run(settings, &build_id, since)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&chain(&e), 1),
    }
}

fn fail(message: &str, code: u8) -> ExitCode {
    for line in message.lines() {
        eprintln!("triptych: {line}");
    }
    ExitCode::from(code)
}
