//! Times as Go's `time` package reads and writes them, error texts included.

use triptych_object::Value;
use triptych_object::duration::quote;

/// Seconds since 1970 and nanoseconds within the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanos: u32,
}

impl Moment {
    /// Go's zero time, the first second of year 1.
    pub const ZERO: Moment = Moment {
        seconds: -62_135_596_800,
        nanos: 0,
    };
}

const RFC3339: &str = "2006-01-02T15:04:05Z07:00";
const RFC3339_MICRO: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads RFC 3339, fractions of a second allowed.
pub fn parse_time(text: &str) -> Result<Moment, String> {
    Parse {
        text,
        rest: text,
        layout: RFC3339,
    }
    .moment(false)
}

/// Reads RFC 3339 with exactly six digits of a second.
pub fn parse_micro_time(text: &str) -> Result<Moment, String> {
    Parse {
        text,
        rest: text,
        layout: RFC3339_MICRO,
    }
    .moment(true)
}

/// RFC 3339 in UTC, whole seconds; `null` for the zero time.
pub fn format_time(moment: &Moment) -> Value {
    if *moment == Moment::ZERO {
        return Value::Null;
    }
    Value::String(format!("{}Z", seconds_text(moment.seconds)))
}

/// RFC 3339 in UTC, six digits of a second; `null` for the zero time.
pub fn format_micro_time(moment: &Moment) -> Value {
    if *moment == Moment::ZERO {
        return Value::Null;
    }
    Value::String(format!("{}.{:06}Z", seconds_text(moment.seconds), moment.nanos / 1000))
}

fn seconds_text(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let sign = if year < 0 { "-" } else { "" };
    let year = year.abs();
    format!("{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Days since 1970 of a date in the proleptic Gregorian calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in(month: i64, year: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

struct Parse<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

impl<'a> Parse<'a> {
    fn cannot(&self, rest: &str, element: &str) -> String {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.text),
            quote(self.layout),
            quote(rest),
            quote(element)
        )
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }

    fn literal(&mut self, element: &str) -> Result<(), String> {
        self.rest = self
            .rest
            .strip_prefix(element)
            .ok_or_else(|| self.cannot(self.rest, element))?;
        Ok(())
    }

    /// As many digits as the element has; `loose`: one may do where it has two.
    fn number(&mut self, element: &str, loose: bool) -> Result<i64, String> {
        let wanted = element.len();
        let found = self.rest.bytes().take(wanted).take_while(u8::is_ascii_digit).count();
        if found < wanted && !(loose && found == 1) {
            return Err(self.cannot(self.rest, element));
        }
        let (digits, rest) = self.rest.split_at(found);
        self.rest = rest;
        digits.parse().map_err(|_| self.cannot(self.text, element))
    }

    fn ranged(&mut self, element: &str, loose: bool, below: i64, what: &str) -> Result<i64, String> {
        let n = self.number(element, loose)?;
        if n >= below {
            Err(self.out_of_range(what))
        } else {
            Ok(n)
        }
    }

    fn moment(mut self, micro: bool) -> Result<Moment, String> {
        let year = self.number("2006", false)?;
        self.literal("-")?;
        let month = self.number("01", false)?;
        if !(1..=12).contains(&month) {
            return Err(self.out_of_range("month"));
        }
        self.literal("-")?;
        let day = self.number("02", false)?;
        self.literal("T")?;
        let hour = self.ranged("15", true, 24, "hour")?;
        self.literal(":")?;
        let minute = self.ranged("04", false, 60, "minute")?;
        self.literal(":")?;
        let second = self.ranged("05", false, 60, "second")?;
        let nanos = if micro { self.micros()? } else { self.fraction() };
        let offset = self.zone()?;
        if !self.rest.is_empty() {
            return Err(format!(
                "parsing time {}: extra text: {}",
                quote(self.text),
                quote(self.rest)
            ));
        }
        if day < 1 || day > days_in(month, year) {
            return Err(self.out_of_range("day"));
        }
        let seconds = days_of(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        Ok(Moment { seconds, nanos })
    }

    fn fraction_digits(&self) -> usize {
        match self.rest.as_bytes() {
            [b'.' | b',', digits @ ..] => digits.iter().take_while(|b| b.is_ascii_digit()).count(),
            _ => 0,
        }
    }

    /// Any number of digits, or none.
    fn fraction(&mut self) -> u32 {
        let count = self.fraction_digits();
        if count == 0 {
            return 0;
        }
        let (digits, rest) = self.rest[1..].split_at(count);
        self.rest = rest;
        format!("{:0<9}", &digits[..count.min(9)]).parse().unwrap_or(0)
    }

    /// Exactly six digits.
    fn micros(&mut self) -> Result<u32, String> {
        if self.fraction_digits() < 6 {
            return Err(self.cannot(self.rest, ".000000"));
        }
        let (digits, rest) = self.rest[1..].split_at(6);
        self.rest = rest;
        Ok(digits.parse::<u32>().unwrap_or(0) * 1000)
    }

    fn zone(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bytes = self.rest.as_bytes();
        let digit = |i: usize| bytes.get(i).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'));
        let (Some(b':'), Some(sign @ (b'+' | b'-')), Some(h1), Some(h2), Some(m1), Some(m2)) =
            (bytes.get(3), bytes.first(), digit(1), digit(2), digit(4), digit(5))
        else {
            return Err(self.cannot(self.rest, "Z07:00"));
        };
        let (hours, minutes) = (h1 * 10 + h2, m1 * 10 + m2);
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        self.rest = &self.rest[6..];
        let offset = (hours * 60 + minutes) * 60;
        Ok(if *sign == b'-' { -offset } else { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> String {
        match parse_time(text) {
            Ok(m) => format_time(&m).as_str().unwrap_or("null").to_owned(),
            Err(e) => e,
        }
    }

    #[test]
    fn times_are_written_in_utc_and_whole_seconds() {
        for (text, want) in [
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59Z"),
            ("2024-01-01T00:30:00+01:00", "2023-12-31T23:30:00Z"),
            ("2024-01-01T00:00:00.987654321-02:30", "2024-01-01T02:30:00Z"),
            ("0001-01-01T00:00:00Z", "null"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
            ("2024-01-01T1:00:00Z", "2024-01-01T01:00:00Z"),
        ] {
            assert_eq!(time(text), want);
        }
        let m = parse_micro_time("2024-01-02T03:04:05.678901Z").unwrap();
        assert_eq!(format_micro_time(&m), "2024-01-02T03:04:05.678901Z".into());
    }

    #[test]
    fn times_that_are_none_are_refused_in_gos_words() {
        let layout = r#"as "2006-01-02T15:04:05Z07:00""#;
        for (text, want) in [
            (
                "never",
                format!(r#"parsing time "never" {layout}: cannot parse "never" as "2006""#),
            ),
            ("", format!(r#"parsing time "" {layout}: cannot parse "" as "2006""#)),
            (
                "2024-1-1",
                format!(r#"parsing time "2024-1-1" {layout}: cannot parse "1-1" as "01""#),
            ),
            (
                "2024-01-01",
                format!(r#"parsing time "2024-01-01" {layout}: cannot parse "" as "T""#),
            ),
            (
                "2024-13-01T00:00:00Z",
                r#"parsing time "2024-13-01T00:00:00Z": month out of range"#.into(),
            ),
            (
                "2023-02-29T00:00:00Z",
                r#"parsing time "2023-02-29T00:00:00Z": day out of range"#.into(),
            ),
            (
                "2024-01-01T00:00:00",
                format!(r#"parsing time "2024-01-01T00:00:00" {layout}: cannot parse "" as "Z07:00""#),
            ),
            (
                "2024-01-01T00:00:00Zx",
                r#"parsing time "2024-01-01T00:00:00Zx": extra text: "x""#.into(),
            ),
        ] {
            assert_eq!(time(text), want);
        }
        assert_eq!(
            parse_micro_time("2024-01-02T03:04:05Z").unwrap_err(),
            r#"parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
        );
    }
}
