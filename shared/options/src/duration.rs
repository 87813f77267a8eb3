//! Durations as Go writes and reads them on command lines: `5m0s`, `1h30m`, `150ms`.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

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
        let invalid = || format!("time: invalid duration {text:?}");
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        let mut rest = text.strip_prefix('+').unwrap_or(text);
        let mut seconds = 0.0;
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit() && c != '.')
                .unwrap_or(rest.len());
            let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
            let letters = rest[digits..]
                .find(|c: char| c.is_ascii_digit() || c == '.')
                .unwrap_or(rest.len() - digits);
            seconds += number
                * match &rest[digits..digits + letters] {
                    "ns" => 1e-9,
                    "us" | "µs" | "μs" => 1e-6,
                    "ms" => 1e-3,
                    "s" => 1.0,
                    "m" => 60.0,
                    "h" => 3600.0,
                    "" => return Err(format!("time: missing unit in duration {text:?}")),
                    unit => return Err(format!("time: unknown unit {unit:?} in duration {text:?}")),
                };
            rest = &rest[digits + letters..];
        }
        if text.is_empty() {
            return Err(invalid());
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| invalid())
    }
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
