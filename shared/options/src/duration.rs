//! Durations on command lines, as Go has them: `5m0s`, `1h30m`, `150ms`.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

use triptych_object::duration::{self, quote};

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
    let nanos = duration::parse(text)?;
    Ok(u64::try_from(nanos).ok().map(Duration::from_nanos))
}

impl Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        f.write_str(&duration::format(nanos))
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
