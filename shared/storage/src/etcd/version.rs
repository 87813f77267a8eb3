//! Whether an etcd's progress notices can be trusted: every member has to be 3.4.31, 3.5.13 or newer, which only tell a
//! progress after all events before it (etcd issue 15220).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{EtcdOptions, connect, in_time};

const RETRY: Duration = Duration::from_secs(5);

/// Asks every member; sets the flag when all have answered and all are new enough.
pub(super) async fn check(options: EtcdOptions, reliable: Arc<AtomicBool>) {
    for server in &options.servers {
        let server = std::slice::from_ref(server);
        loop {
            let status = match connect(&options, server).await {
                Ok(mut client) => in_time(client.status()).await,
                Err(error) => Err(error),
            };
            match status {
                Ok(status) if is_reliable(status.version()) => break,
                Ok(status) => {
                    let version = status.version();
                    tracing::warn!(
                        version,
                        "this etcd does not tell progress reliably; consistent reads go to it"
                    );
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "the version of an etcd member is not known yet");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
    reliable.store(true, Ordering::Relaxed);
}

fn is_reliable(version: &str) -> bool {
    let mut parts = version
        .split(['.', '-', '+'])
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) >= (3, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::is_reliable;

    #[test]
    fn versions_are_told_apart() {
        for version in ["3.4.31", "3.5.13", "3.5.16", "3.6.0", "3.6.0-rc.1", "4.0.0"] {
            assert!(is_reliable(version), "{version}");
        }
        for version in ["3.4.30", "3.5.12", "3.5.0", "3.3.99", "2.3.8", "", "unknown"] {
            assert!(!is_reliable(version), "{version}");
        }
    }
}
