//! What the `main` of each tier does around its own wiring.

use std::process::ExitCode;

use crate::lifecycle::Shutdown;
use crate::logging;
use crate::options::LogOptions;

/// Of every thread that answers requests: documents nest up to a thousand levels and some code recurses into them. Only what
/// is used becomes resident.
const STACK: usize = 16 * 1024 * 1024;

/// Answers `--build-id`, by which the launcher tells whether a binary belongs to it.
pub fn asked_for_build_id(build: &str) -> bool {
    if !std::env::args().skip(1).eq(["--build-id"]) {
        return false;
    }
    println!("{build}");
    true
}

/// Runs a tier until it is told to stop: `check` makes settings of the options, `run` serves with them. Exit code 1 and
/// a line in the log if either fails.
pub fn run<S, E, F>(
    log: &LogOptions,
    check: impl FnOnce() -> Result<S, String>,
    run: impl FnOnce(S, Shutdown) -> F,
) -> ExitCode
where
    E: std::error::Error,
    F: Future<Output = Result<(), E>>,
{
    logging::init(log);
    let outcome = check().and_then(|settings| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_stack_size(STACK)
            .build();
        runtime.map_err(|e| e.to_string())?.block_on(async {
            let shutdown = Shutdown::on_signals().map_err(|e| e.to_string())?;
            run(settings, shutdown).await.map_err(|e| triptych_options::chain(&e))
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            tracing::error!("{problem}");
            ExitCode::FAILURE
        }
    }
}
