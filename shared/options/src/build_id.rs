//! The build id: what `--build-id` of every binary answers, so that `triptych` starts only tiers built with it.
//!
//! It is a macro, expanded in each thin `main.rs`: a new commit then recompiles four small files, where a build script in
//! this crate (everything depends on it) would recompile the workspace. `./up` and the image builds set the variable.

/// The build id of the binary whose `main.rs` expands it: the workspace version and `TRIPTYCH_BUILD_ID` of the build's
/// environment (a commit), or `+local` when that was not set.
#[macro_export]
macro_rules! build_id {
    () => {
        match option_env!("TRIPTYCH_BUILD_ID") {
            Some(commit) => format!("{}+{commit}", env!("CARGO_PKG_VERSION")),
            None => format!("{}+local", env!("CARGO_PKG_VERSION")),
        }
    };
}
