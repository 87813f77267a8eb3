//! The extensions-api process: parse, check, run, exit code.

use std::process::ExitCode;

use clap::Parser;
use triptych_extensions_api::options::Options;
use triptych_extensions_api::{assemble, schema};
use triptych_server::launch;

fn main() -> ExitCode {
    let build = triptych_options::build_id!();
    if launch::asked_for_build_id(&build) {
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let log = options.log.clone();
    let check = || {
        let table = schema::load().map_err(|e| e.to_string())?;
        let settings = options.validate(&table.resources).map_err(|e| e.to_string())?;
        Ok((settings, table))
    };
    launch::run(&log, check, |(settings, table), shutdown| {
        assemble::run(settings, table, build, shutdown)
    })
}
