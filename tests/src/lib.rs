//! What whole-process tests and their programs share beyond the harness, which is [`triptych_local::cluster`].

pub mod replay;
pub mod session;
