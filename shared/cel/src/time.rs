//! Points and spans of time, as CEL reads, writes and reckons with them.
//!
//! Contract: a point lies in the years 1 to 9999 and remembers the offset it was written with, for its text only; a span is a count of
//! nanoseconds in 64 bits. What leaves these bounds is an error.

use std::cmp::Ordering;
use std::fmt;
use std::sync::LazyLock;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};
use jiff::tz::{Offset, TimeZone};
use regex::Regex;
use triptych_object::duration;
use triptych_schema::decode::parse_time;

use crate::error::EvalError;

const NANOS: i128 = 1_000_000_000;
/// The first second of year 1.
const MIN_SECONDS: i64 = -62_135_596_800;
/// The last second of year 9999.
const MAX_SECONDS: i64 = 253_402_300_799;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(i64);

impl Span {
    /// So many nanoseconds.
    pub fn of_nanos(nanos: i64) -> Span {
        Span(nanos)
    }

    /// Its nanoseconds.
    pub fn nanos(self) -> i64 {
        self.0
    }

    fn checked(nanos: i128) -> Result<Span, EvalError> {
        i64::try_from(nanos)
            .map(Span)
            .map_err(|_| EvalError::new("duration overflow"))
    }

    /// The sum.
    pub fn plus(self, other: Span) -> Result<Span, EvalError> {
        Span::checked(i128::from(self.0) + i128::from(other.0))
    }

    /// The difference.
    pub fn minus(self, other: Span) -> Result<Span, EvalError> {
        Span::checked(i128::from(self.0) - i128::from(other.0))
    }

    /// Backwards.
    pub fn negated(self) -> Result<Span, EvalError> {
        Span::checked(-i128::from(self.0))
    }

    /// Reads Go's form, `1h30m`.
    pub fn parse(text: &str) -> Option<Span> {
        duration::parse(text).ok().map(Span)
    }

    /// Reads Go's form, or counts of units in words, as the format `duration` of schemas allows.
    pub fn parse_lenient(text: &str) -> Result<Span, String> {
        static PART: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").ok());
        const UNITS: [(&[&str], i64); 8] = [
            (&["ns", "nano"], 1),
            (&["us", "µs", "micro"], 1_000),
            (&["ms", "milli"], 1_000_000),
            (&["s", "sec"], 1_000_000_000),
            (&["m", "min"], 60_000_000_000),
            (&["h", "hr", "hour"], 3_600_000_000_000),
            (&["d", "day"], 86_400_000_000_000),
            (&["w", "wk", "week"], 604_800_000_000_000),
        ];
        if let Some(span) = Span::parse(text) {
            return Ok(span);
        }
        let (mut total, mut found) = (0i64, false);
        for part in PART.iter().flat_map(|r| r.captures_iter(text)) {
            let count: i64 = part[1].parse().map_err(|e| format!("{e}"))?;
            let unit = part[2].to_lowercase();
            for (variants, nanos) in UNITS {
                let matches = variants.contains(&unit.as_str()) || variants.last().is_some_and(|v| unit.starts_with(v));
                if matches {
                    found = true;
                    total = total.wrapping_add(count.wrapping_mul(nanos));
                }
            }
        }
        match found {
            true => Ok(Span(total)),
            false => Err(format!("unable to parse {text} as duration")),
        }
    }

    /// Seconds with a fraction where needed, `1.5s`.
    pub fn seconds_text(self) -> String {
        format!("{}s", self.seconds())
    }

    fn seconds(self) -> f64 {
        (self.0 / 1_000_000_000) as f64 + (self.0 % 1_000_000_000) as f64 / 1e9
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::format(self.0))
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
    /// Seconds east of UTC, for the text.
    offset: i32,
}

impl Timestamp {
    /// A point in UTC; an error outside the years 1 to 9999.
    pub fn new(seconds: i64, nanos: u32) -> Result<Timestamp, EvalError> {
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            return Err(EvalError::new("timestamp overflow"));
        }
        Ok(Timestamp {
            seconds,
            nanos,
            offset: 0,
        })
    }

    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Result<Timestamp, String> {
        let moment = parse_time(text)?;
        let mut point = Timestamp::new(moment.seconds, moment.nanos).map_err(|e| e.to_string())?;
        point.offset = offset_of(text);
        Ok(point)
    }

    /// Reads a date, `2024-05-01`.
    pub fn parse_date(text: &str) -> Result<Timestamp, String> {
        let refuse = || {
            format!(
                "parsing time {0:?} as \"2006-01-02\": cannot parse {0:?} as \"2006\"",
                text
            )
        };
        let date: Date = text.parse().map_err(|_| refuse())?;
        let days = (date - Date::constant(1970, 1, 1)).get_days();
        Timestamp::new(i64::from(days) * 86_400, 0).map_err(|e| e.to_string())
    }

    /// Seconds since 1970.
    pub fn seconds(&self) -> i64 {
        self.seconds
    }

    /// Whether it is the first second of year 1, Go's zero.
    pub fn is_zero(&self) -> bool {
        self.seconds == MIN_SECONDS && self.nanos == 0
    }

    fn total(&self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }

    fn moved(&self, nanos: i128) -> Result<Timestamp, EvalError> {
        let total = self.total() + nanos;
        let seconds = i64::try_from(total.div_euclid(NANOS)).map_err(|_| EvalError::new("timestamp overflow"))?;
        let mut point = Timestamp::new(seconds, total.rem_euclid(NANOS) as u32)?;
        point.offset = self.offset;
        Ok(point)
    }

    /// Later by a span.
    pub fn plus(&self, span: Span) -> Result<Timestamp, EvalError> {
        self.moved(i128::from(span.0))
    }

    /// Earlier by a span.
    pub fn minus(&self, span: Span) -> Result<Timestamp, EvalError> {
        self.moved(-i128::from(span.0))
    }

    /// The span since another point.
    pub fn since(&self, other: &Timestamp) -> Result<Span, EvalError> {
        Span::checked(self.total() - other.total())
    }

    /// Year and date and time of day in UTC or another zone: a name, or `+hh:mm`.
    pub fn in_zone(&self, zone: Option<&str>) -> Result<(i64, DateTime), EvalError> {
        let offset = match zone {
            None => 0,
            Some(name) => {
                // The last hours of year 9999 are as those before.
                let point = jiff::Timestamp::new(self.seconds, 0).unwrap_or(jiff::Timestamp::MAX);
                named(name)?.to_offset(point).seconds()
            }
        };
        Ok(civil(self.seconds + i64::from(offset), self.nanos))
    }
}

/// Date and time of day so many seconds after those of 1970 began. The year is apart: where it has five digits, the date is that of 400 years
/// before, which has the same days.
fn civil(seconds: i64, nanos: u32) -> (i64, DateTime) {
    const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
    const CYCLE: i64 = 146_097 * 86_400;
    let (years, seconds) = match seconds > MAX_SECONDS {
        true => (400, seconds - CYCLE),
        false => (0, seconds),
    };
    let time = EPOCH.saturating_add(SignedDuration::new(seconds, nanos as i32));
    (years + i64::from(time.year()), time)
}

fn named(name: &str) -> Result<TimeZone, EvalError> {
    let unknown = || EvalError::new(format!("unknown time zone {name}"));
    let Some((hours, minutes)) = name.split_once(':') else {
        if matches!(name, "" | "UTC") {
            return Ok(TimeZone::UTC);
        }
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let number = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| EvalError::new(format!("strconv.Atoi: parsing {text:?}: invalid syntax")))
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let sign = if name.starts_with('-') { -1 } else { 1 };
    let seconds = hours
        .checked_mul(60)
        .and_then(|h| h.checked_add(sign * minutes))
        .and_then(|m| m.checked_mul(60))
        .ok_or_else(unknown)?;
    Ok(Offset::from_seconds(seconds).map_err(|_| unknown())?.to_time_zone())
}

/// The offset at the end of an RFC 3339 text.
fn offset_of(text: &str) -> i32 {
    let Some(at) = text.len().checked_sub(6).filter(|_| !text.ends_with('Z')) else {
        return 0;
    };
    let Some(offset) = text.get(at..) else { return 0 };
    let number = |range: std::ops::Range<usize>| offset.get(range).and_then(|t| t.parse::<i32>().ok()).unwrap_or(0);
    let seconds = number(1..3) * 3600 + number(4..6) * 60;
    if offset.starts_with('-') { -seconds } else { seconds }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Timestamp) -> bool {
        self.total() == other.total()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Timestamp) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Timestamp) -> Ordering {
        self.total().cmp(&other.total())
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with as many digits of a second as there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, time) = civil(self.seconds + i64::from(self.offset), 0);
        write!(
            f,
            "{year:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        )?;
        if self.nanos > 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        match self.offset {
            0 => f.write_str("Z"),
            offset => {
                let sign = if offset < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", offset.abs() / 3600, offset.abs() / 60 % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_keep_their_offset_in_their_text_only() {
        let a = Timestamp::parse("2024-05-01T12:00:00.120+02:00").unwrap();
        let b = Timestamp::parse("2024-05-01T10:00:00.12Z").unwrap();
        assert_eq!(a, b);
        assert_eq!(a.to_string(), "2024-05-01T12:00:00.12+02:00");
        assert_eq!(b.to_string(), "2024-05-01T10:00:00.12Z");
    }

    #[test]
    fn zones_are_names_or_offsets() {
        let point = Timestamp::parse("2024-07-01T12:00:00Z").unwrap();
        assert_eq!(
            point.in_zone(Some("-02:30")).unwrap().1.to_string(),
            "2024-07-01T09:30:00"
        );
        assert_eq!(point.in_zone(Some("Europe/Berlin")).unwrap().1.hour(), 14);
        assert_eq!(
            point.in_zone(Some("Nope/X")).unwrap_err().to_string(),
            "unknown time zone Nope/X"
        );
    }

    #[test]
    fn the_first_and_the_last_moment_have_texts_and_parts() {
        let last = Timestamp::parse("9999-12-31T23:59:59.999999999Z").unwrap();
        assert_eq!(last.to_string(), "9999-12-31T23:59:59.999999999Z");
        let (year, time) = last.in_zone(Some("+01:00")).unwrap();
        assert_eq!((year, time.month(), time.day(), time.hour()), (10_000, 1, 1, 0));
        let first = Timestamp::new(MIN_SECONDS, 0).unwrap();
        assert_eq!(first.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(first.in_zone(Some("-01:00")).unwrap().0, 0);
        let date = Timestamp::parse_date("9999-12-31").unwrap();
        assert_eq!(date.to_string(), "9999-12-31T00:00:00Z");
        assert_eq!(Timestamp::parse_date("0001-01-01").unwrap().seconds(), MIN_SECONDS);
    }

    #[test]
    fn spans_are_read_leniently_where_schemas_allow_it() {
        assert_eq!(Span::parse_lenient("3 days").unwrap().nanos(), 259_200_000_000_000);
        assert_eq!(Span::parse_lenient("x").unwrap_err(), "unable to parse x as duration");
        assert_eq!(Span::of_nanos(1_500_000_000).seconds_text(), "1.5s");
    }

    #[test]
    fn what_leaves_the_bounds_is_an_error() {
        let last = Timestamp::new(MAX_SECONDS, 0).unwrap();
        assert!(last.plus(Span::of_nanos(1_000_000_000)).is_err());
        assert!(Span::of_nanos(i64::MIN).negated().is_err());
    }
}
