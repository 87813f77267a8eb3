//! Kubernetes' times: RFC 3339 in UTC, whole seconds (`Time`) or microseconds (`MicroTime`).

use jiff::Timestamp;
use jiff::fmt::temporal::DateTimeParser;

/// Writes whole seconds: `2026-01-02T03:04:05Z`.
pub fn rfc3339(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes microseconds: `2026-01-02T03:04:05.000006Z`.
pub fn rfc3339_micro(t: Timestamp) -> String {
    t.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Reads an RFC 3339 time of any offset; `None` if it is none (a date alone, a missing offset, a leading space).
pub fn parse_rfc3339(s: &str) -> Option<Timestamp> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let b = s.as_bytes();
    // Go demands the exact layout: upper-case T, two-digit fields, an offset of Z or ±hh:mm.
    let shape = b.len() >= 20 && b[4] == b'-' && b[7] == b'-' && b[10] == b'T' && b[13] == b':' && b[16] == b':';
    let offset = b.last() == Some(&b'Z') || (b.len() > 6 && matches!(b[b.len() - 6], b'+' | b'-'));
    (shape && offset).then(|| PARSER.parse_timestamp(s).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_offset_come_back_in_utc() {
        let t = parse_rfc3339("2026-01-02T05:04:05+02:00").map(rfc3339);
        assert_eq!(t.as_deref(), Some("2026-01-02T03:04:05Z"));
        let t = parse_rfc3339("2026-01-02T03:04:05.1234567Z").map(rfc3339_micro);
        assert_eq!(t.as_deref(), Some("2026-01-02T03:04:05.123456Z"));
        assert_eq!(parse_rfc3339("2026-01-02"), None);
        assert_eq!(parse_rfc3339("2026-01-02 03:04:05Z"), None);
    }
}
