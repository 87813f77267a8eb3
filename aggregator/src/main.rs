//! The aggregator process: parse, check, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use triptych_aggregator::options::Options;
use triptych_aggregator::{assemble, schema};
use triptych_server::Shutdown;

fn main() -> ExitCode {
    let build = triptych_options::build_id!();
    if std::env::args().skip(1).eq(["--build-id"]) {
        println!("{build}");
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    triptych_server::logging::init(&options.log);
    match start(options, build) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: Options, build: String) -> Result<(), String> {
    let table = schema::load().map_err(|e| e.to_string())?;
    let settings = options.validate(&table.resources).map_err(|e| e.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals().map_err(|e| e.to_string())?;
        assemble::run(settings, table, build, shutdown)
            .await
            .map_err(|e| triptych_options::chain(&e))
    })
}
