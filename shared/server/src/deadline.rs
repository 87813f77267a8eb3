//! How long a request may take: `--request-timeout`, the `timeout` parameter, and which requests have no limit.

use std::time::Duration;

use triptych_object::{RequestInfo, Status, StatusResult};
use triptych_options::parse_go;

/// True for requests that stay open: watches, and streams to and from a node.
pub fn is_long_running(info: &RequestInfo) -> bool {
    matches!(info.verb.as_str(), "watch" | "proxy")
        || info.is_resource
            && matches!(
                info.subresource.as_str(),
                "attach" | "exec" | "proxy" | "log" | "portforward"
            )
        || !info.is_resource && info.path.starts_with("/debug/pprof/")
}

/// The time that a request may take: what it asks for, at most `limit`.
pub fn of_request(query: &str, limit: Duration) -> StatusResult<Duration> {
    if !query.contains("timeout") {
        return Ok(limit);
    }
    let asked = triptych_object::request::param(query, "timeout").unwrap_or_default();
    if asked.is_empty() {
        return Ok(limit);
    }
    let asked = parse_go(&asked)
        .map_err(|why| Status::bad_request(format!("invalid timeout specified in the request URL - {why}")))?;
    // nothing and less than nothing mean: no wish
    Ok(asked.filter(|d| !d.is_zero() && *d < limit).unwrap_or(limit))
}

/// The answer to a request whose time is over.
pub fn exceeded() -> Box<Status> {
    Status::timeout("request did not complete within the allotted timeout", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_only_shortens_the_limit() {
        let limit = Duration::from_secs(60);
        for (query, want) in [
            ("timeout=10s", 10),
            ("timeout=2h", 60),
            ("timeout=0", 60),
            ("timeout=-1s", 60),
            ("timeoutSeconds=5", 60),
            ("timeout=", 60),
        ] {
            assert_eq!(of_request(query, limit).unwrap().as_secs(), want, "{query}");
        }
        let refused = of_request("timeout=x", limit).unwrap_err();
        assert_eq!(
            refused.message,
            r#"invalid timeout specified in the request URL - time: invalid duration "x""#
        );
    }
}
