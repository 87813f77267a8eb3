//! Numbers as Go writes them.

/// As Go's `%g`: the shortest text that reads back, with an exponent when it is below -4 or at least 6.
pub fn shortest(number: f64) -> String {
    general(number, 6)
}

fn general(number: f64, limit: i32) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..limit).contains(&exponent) {
        return format!("{number}");
    }
    exponential(mantissa, exponent)
}

/// A mantissa and exponent with Go's sign and at least two digits.
pub fn exponential(mantissa: &str, exponent: i32) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (number, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e21, "1e+21"),
            (1_000_000.0, "1e+06"),
            (123456789.0, "1.23456789e+08"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "+Inf"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(shortest(number), text);
        }
    }
}
