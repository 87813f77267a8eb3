//! When a cron job runs: the five fields of a schedule, and time zones (github.com/robfig/cron's standard parser, whose
//! texts these are).

use triptych_object::field::quote;

/// Names of the IANA time zone database, sorted.
const TIME_ZONES: &str = include_str!("time_zones.txt");

struct Bounds {
    low: u64,
    high: u64,
    names: &'static [(&'static str, u64)],
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        low: 0,
        high: 59,
        names: &[],
    },
    Bounds {
        low: 0,
        high: 23,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 31,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 12,
        names: &[
            ("jan", 1),
            ("feb", 2),
            ("mar", 3),
            ("apr", 4),
            ("may", 5),
            ("jun", 6),
            ("jul", 7),
            ("aug", 8),
            ("sep", 9),
            ("oct", 10),
            ("nov", 11),
            ("dec", 12),
        ],
    },
    Bounds {
        low: 0,
        high: 6,
        names: &[
            ("sun", 0),
            ("mon", 1),
            ("tue", 2),
            ("wed", 3),
            ("thu", 4),
            ("fri", 5),
            ("sat", 6),
        ],
    },
];

/// What is wrong with a schedule.
pub fn check(schedule: &str) -> Result<(), String> {
    let mut rest = schedule;
    if rest.is_empty() {
        return Err("empty spec string".into());
    }
    if rest.starts_with("TZ=") || rest.starts_with("CRON_TZ=") {
        let (assignment, fields) = rest
            .split_once(' ')
            .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
        let zone = assignment.split_once('=').map_or("", |(_, zone)| zone);
        load_location(zone).map_err(|e| format!("provided bad location {zone}: {e}"))?;
        rest = fields.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let found = fields.len();
        return Err(format!(
            "expected exactly 5 fields, found {found}: [{}]",
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            self::range(range, bounds)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] = [
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    if KNOWN.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(every) => duration(every).map_err(|e| format!("failed to parse duration {text}: {e}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Whether Go's `time.ParseDuration` reads it.
fn duration(text: &str) -> Result<(), String> {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let invalid = || format!("time: invalid duration {}", quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        if !UNITS.contains(&unit) {
            return Err(format!(
                "time: unknown unit {} in duration {}",
                quote(unit),
                quote(text)
            ));
        }
        rest = next;
    }
    Ok(())
}

fn range(expr: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = expr.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (mut start, mut end) = (bounds.low, bounds.high);
    if !matches!(ends[0], "*" | "?") {
        start = number_or_name(ends[0], bounds)?;
        end = match ends.as_slice() {
            [_] => start,
            [_, last] => number_or_name(last, bounds)?,
            _ => return Err(format!("too many hyphens: {expr}")),
        };
    }
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {expr}")),
    };
    if start < bounds.low {
        return Err(format!(
            "beginning of range ({start}) below minimum ({}): {expr}",
            bounds.low
        ));
    }
    if end > bounds.high {
        return Err(format!("end of range ({end}) above maximum ({}): {expr}", bounds.high));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {expr}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expr}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().find(|(name, _)| *name == lower) {
        Some((_, number)) => Ok(*number),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    let parsed = text.parse::<i64>().map_err(|e| {
        let why = if matches!(e.kind(), PosOverflow | NegOverflow) {
            "value out of range"
        } else {
            "invalid syntax"
        };
        format!(
            "failed to parse int from {text}: strconv.Atoi: parsing {}: {why}",
            quote(text)
        )
    })?;
    u64::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}

/// Whether there is such a time zone; the error is that of Go's `time.LoadLocation`.
pub fn load_location(name: &str) -> Result<(), String> {
    if matches!(name, "" | "UTC" | "Local") || TIME_ZONES.lines().any(|zone| zone == name) {
        return Ok(());
    }
    if name.contains("..") || name.starts_with(['/', '\\']) {
        return Err("time: invalid location name".into());
    }
    Err(format!("unknown time zone {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_cron_does() {
        for good in [
            "* * * * *",
            "*/5 0-3 1,15 JAN-mar sun",
            "@daily",
            "@every 1h30m",
            "TZ=Europe/Paris 0 0 * * *",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let bad = |text: &str| check(text).err().unwrap_or_default();
        assert_eq!(bad("* * * *"), "expected exactly 5 fields, found 4: [* * * *]");
        assert_eq!(bad("60 * * * *"), "end of range (60) above maximum (59): 60");
        assert_eq!(bad("* * 0 * *"), "beginning of range (0) below minimum (1): 0");
        assert_eq!(
            bad("5-1 * * * *"),
            "beginning of range (5) beyond end of range (1): 5-1"
        );
        assert_eq!(bad("*/0 * * * *"), "step of range should be a positive number: */0");
        assert_eq!(
            bad("x * * * *"),
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"
        );
        assert_eq!(bad("@never"), "unrecognized descriptor: @never");
        assert_eq!(
            bad("@every x"),
            "failed to parse duration @every x: time: invalid duration \"x\""
        );
    }
}
