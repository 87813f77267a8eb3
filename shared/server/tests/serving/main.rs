//! Tiers on real sockets: the chain, forwarding, hostile clients, drain.
#![allow(clippy::unwrap_used, clippy::expect_used)] // what a helper of a test cannot do fails the test

mod chain;
mod forwarding;
mod harness;
mod hostile;
mod lifecycle;
mod mirror;
