//! Durations as Go writes and reads them on command lines: `5m0s`, `1h30m`, `150ms`.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use triptych_object::field::quote;

/// A flag value of Go's type `time.Duration`, not negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// Nothing for zero, which switches many things off.
    pub fn unless_zero(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_go(text)?
            .map(Self)
            .ok_or_else(|| format!("time: invalid duration {}", quote(text)))
    }
}

/// A duration as Go writes it (`1h30m`, `1.5s`, `300ms`); `None` if it is negative. Errors are Go's.
pub fn parse_go(text: &str) -> Result<Option<Duration>, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let whole_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (whole, after) = rest.split_at(whole_end);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(f) => f.split_at(f.find(|c: char| !c.is_ascii_digit()).unwrap_or(f.len())),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_end = after
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quote(text)));
        }
        let scale: u128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                return Err(format!(
                    "time: unknown unit {} in duration {}",
                    quote(unit),
                    quote(text)
                ));
            }
        };
        let digits: u128 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        nanos += digits.checked_mul(scale).ok_or_else(invalid)?;
        if !fraction.is_empty() {
            let kept = &fraction[..fraction.len().min(18)];
            let value: u128 = kept.parse().map_err(|_| invalid())?;
            nanos += value * scale / 10u128.pow(kept.len() as u32);
        }
        if nanos > i64::MAX as u128 {
            return Err(invalid());
        }
        rest = after;
    }
    Ok((!negative).then(|| Duration::from_nanos(nanos as u64)))
}

impl Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos();
        let seconds = self.0.as_secs();
        match (seconds, nanos) {
            (0, 0) => return f.write_str("0s"),
            (0, 1..1_000) => return write!(f, "{nanos}ns"),
            (0, 1_000..1_000_000) => return write!(f, "{}µs", f64::from(nanos) / 1e3),
            (0, _) => return write!(f, "{}ms", f64::from(nanos) / 1e6),
            _ => {}
        }
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if seconds >= 60 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{}s", (seconds % 60) as f64 + f64::from(nanos) / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, want) in [
            ("10s", Ok(Some(10_000))),
            ("1h1m", Ok(Some(3_660_000))),
            ("1.5s", Ok(Some(1_500))),
            (".5m", Ok(Some(30_000))),
            ("0", Ok(Some(0))),
            ("-5s", Ok(None)),
            ("x", Err(r#"time: invalid duration "x""#)),
            ("10", Err(r#"time: missing unit in duration "10""#)),
            ("3y", Err(r#"time: unknown unit "y" in duration "3y""#)),
            (
                "9999999999999999999999h",
                Err(r#"time: invalid duration "9999999999999999999999h""#),
            ),
        ] {
            let got = parse_go(text).map(|d| d.map(|d| d.as_millis() as u64));
            assert_eq!(got, want.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        for (text, millis, shown) in [
            ("5m", 300_000, "5m0s"),
            ("1h30m", 5_400_000, "1h30m0s"),
            ("1.5s", 1500, "1.5s"),
            ("150ms", 150, "150ms"),
            ("0", 0, "0s"),
            ("1m0.5s", 60_500, "1m0.5s"),
        ] {
            let duration: GoDuration = text.parse().unwrap_or(GoDuration(Duration::MAX));
            assert_eq!(
                (duration.0.as_millis(), duration.to_string().as_str()),
                (millis, shown),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_duration_is_told() {
        for (text, problem) in [
            ("", "time: invalid duration \"\""),
            ("5", "time: missing unit in duration \"5\""),
            ("5x", "time: unknown unit \"x\" in duration \"5x\""),
            ("-5s", "time: invalid duration \"-5s\""),
            ("s", "time: invalid duration \"s\""),
        ] {
            assert_eq!(text.parse::<GoDuration>(), Err(problem.into()));
        }
    }
}
