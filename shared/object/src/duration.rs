//! Durations as Go's `time` package reads and writes them, error texts included: `1h15m30.5s`, `150ms`, `0s`.

/// Nanoseconds of a duration such as `1h15m30.5s`.
pub fn parse(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let whole_length = digits(rest);
        let (whole, mut tail) = rest.split_at(whole_length);
        let mut fraction = "";
        if let Some(after) = tail.strip_prefix('.') {
            (fraction, tail) = after.split_at(digits(after));
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let unit_length = tail
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_length);
        rest = after;
        let scale: u64 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", quote(text))),
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
        let whole: u64 = if whole.is_empty() {
            0
        } else {
            whole.parse().map_err(|_| invalid())?
        };
        let part = whole.checked_mul(scale).filter(|p| *p <= 1 << 63).ok_or_else(invalid)?;
        let below: f64 = format!("0.{fraction}0").parse().unwrap_or(0.0);
        let part = part + (below * scale as f64) as u64;
        total = total.checked_add(part).filter(|t| *t <= 1 << 63).ok_or_else(invalid)?;
    }
    match (negative, i64::try_from(total)) {
        (true, Ok(n)) => Ok(-n),
        (true, Err(_)) => Ok(i64::MIN),
        (false, Ok(n)) => Ok(n),
        (false, Err(_)) => Err(invalid()),
    }
}

/// Go's text of a duration: `1h15m30.5s`, `1.5ms`, `0s`.
pub fn format(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = |value: u64, unit: u64| {
        let (whole, part) = (value / unit, value % unit);
        if part == 0 {
            return whole.to_string();
        }
        let digits = unit.ilog10() as usize;
        let part = format!("{part:0digits$}");
        format!("{whole}.{}", part.trim_end_matches('0'))
    };
    match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{size}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", fraction(size, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", fraction(size, 1_000_000)),
        _ => {
            let (minutes, rest) = (size / 60_000_000_000, size % 60_000_000_000);
            let seconds = fraction(rest, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

/// Go's `time` package quotes byte by byte.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c => {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer)
                    .bytes()
                    .for_each(|b| out.push_str(&format!("\\x{b:02x}")));
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_in_go() {
        for (text, want) in [
            ("90s", "1m30s"),
            ("1.5h", "1h30m0s"),
            ("100ms", "100ms"),
            ("0", "0s"),
            ("1us500ns", "1.5µs"),
            ("-2m", "-2m0s"),
            (".5s", "500ms"),
        ] {
            assert_eq!(format(parse(text).unwrap()), want);
        }
        for (text, want) in [
            ("", r#"time: invalid duration """#),
            ("10", r#"time: missing unit in duration "10""#),
            ("1x", r#"time: unknown unit "x" in duration "1x""#),
            ("x", r#"time: invalid duration "x""#),
        ] {
            assert_eq!(parse(text).unwrap_err(), want);
        }
    }
}
