//! How long ago something was, as Tables show it.

use jiff::Timestamp;
use triptych_object::{Value, meta, time};

/// How old an object is, as kubectl shows it; `<unknown>` without a creation time.
pub fn age(object: &Value, now: Timestamp) -> String {
    since(meta::text(object, "creationTimestamp"), now)
}

/// Time since an RFC 3339 time, as kubectl shows it; `<unknown>` if there is none.
pub fn since(then: &str, now: Timestamp) -> String {
    match time::parse_rfc3339(then) {
        Some(then) => human_duration(now.duration_since(then).as_secs()),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds as kubectl shows them: `5s`, `3m20s`, `2d3h`, `1y20d` (duration.HumanDuration).
pub fn human_duration(seconds: i64) -> String {
    let (s, m, h, d) = (seconds, seconds / 60, seconds / 3600, seconds / 86400);
    let pair = |a: i64, ua: &str, b: i64, ub: &str| {
        if b == 0 {
            format!("{a}{ua}")
        } else {
            format!("{a}{ua}{b}{ub}")
        }
    };
    match seconds {
        i64::MIN..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{s}s"),
        120..600 => pair(m, "m", s % 60, "s"),
        600..10800 => format!("{m}m"),
        10800..28800 => pair(h, "h", m % 60, "m"),
        28800..172800 => format!("{h}h"),
        172800..691200 => pair(d, "d", h % 24, "h"),
        691200..63072000 => format!("{d}d"),
        63072000..252288000 => pair(d / 365, "y", d % 365, "d"),
        _ => format!("{}y", d / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        for (seconds, want) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10800, "3h"),
            (10860, "3h1m"),
            (28800, "8h"),
            (172800, "2d"),
            (180000, "2d2h"),
            (691200, "8d"),
            (63072000, "2y"),
            (300000000, "9y"),
            (-5, "<invalid>"),
        ] {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }
}
