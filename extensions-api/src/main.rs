//! The extensions-api process: parse, check, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use triptych_extensions_api::options::Options;
use triptych_extensions_api::unenforced::UNENFORCED;
use triptych_extensions_api::{assemble, schema};
use triptych_server::Shutdown;

fn main() -> ExitCode {
    let build = triptych_options::build_id!();
    if std::env::args().skip(1).eq(["--build-id"]) {
        println!("{build}\nunenforced: {}", UNENFORCED.join(", "));
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    runtime.block_on(async {
        let shutdown = Shutdown::on_signals().map_err(|e| e.to_string())?;
        let run = assemble::run(settings, table, build, shutdown).await;
        run.map_err(|e| triptych_options::chain(&e))
    })
}
