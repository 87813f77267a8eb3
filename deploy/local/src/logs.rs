//! Reading the tiers' logs: which lines are warnings and errors, so that a test fails on one that it does not expect.

/// The WARN and ERROR lines of a log, text or JSON, except those that contain one of `allowed`.
pub fn complaints<'a>(log: &'a str, allowed: &[String]) -> Vec<&'a str> {
    let unexpected = |line: &&str| !allowed.iter().any(|known| line.contains(known.as_str()));
    log.lines()
        .filter(|line| is_complaint(line))
        .filter(unexpected)
        .collect()
}

/// The level is one of the first words of a text line, or the field `level` of a JSON line. What a panic prints counts.
fn is_complaint(line: &str) -> bool {
    if line.starts_with('{') {
        return ["\"WARN\"", "\"ERROR\"", "\"warn\"", "\"error\""].iter().any(|level| {
            line.split_once("\"level\":")
                .is_some_and(|(_, rest)| rest.trim_start().starts_with(level))
        });
    }
    let level = line
        .split_whitespace()
        .take(3)
        .any(|word| matches!(word, "WARN" | "ERROR"));
    level || (line.starts_with("thread '") && line.contains("panicked at"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_told_from_what_merely_mentions_them() {
        let log = "2026-01-01T00:00:00Z  INFO server: a client sent WARN\n\
                   2026-01-01T00:00:00Z  WARN server: slow\n\
                   {\"timestamp\":\"x\",\"level\":\"ERROR\",\"message\":\"lost\"}\n\
                   {\"timestamp\":\"x\",\"level\":\"INFO\",\"message\":\"level ERROR\"}\n\
                   thread 'tokio' (7) panicked at x.rs:1\n\
                   2026-01-01T00:00:00Z ERROR store: away";
        let found = complaints(log, &["store: away".to_owned()]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].ends_with("slow") && found[1].contains("lost") && found[2].starts_with("thread"));
    }
}
