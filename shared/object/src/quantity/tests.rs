//! Cases of upstream's quantity_test.go, and those where Go surprises.

use super::*;

fn canonical(text: &str) -> String {
    text.parse::<Quantity>()
        .map_or_else(|e| e.to_string(), |q| q.to_string())
}

#[test]
fn quantities_are_written_canonically() {
    for (text, want) in [
        ("0", "0"),
        ("0n", "0"),
        ("0Ki", "0"),
        ("0.0e3", "0"),
        ("100m", "100m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.1", "100m"),
        ("1.5Gi", "1536Mi"),
        ("1.5", "1500m"),
        ("1024Ki", "1Mi"),
        ("1024", "1024"),
        ("0.5Mi", "512Ki"),
        ("1.1Ki", "1126400m"),
        ("0.001Ki", "1024m"),
        ("0.0001Ki", "102400u"),
        ("1e3", "1e3"),
        ("1000e3", "1e6"),
        ("1E6", "1E6"),
        ("12.3e3", "12300"),
        ("1e-3", "1e-3"),
        ("1e-9", "1e-9"),
        ("1e-10", "1e-9"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1000k", "1M"),
        ("10E", "10E"),
        // No suffix reaches that far, so Go writes none.
        ("1000E", "1"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775808"),
        ("8Ei", "9223372036854775807"),
        ("-8Ei", "-9223372036854775807"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("1.000000000000000000001", "1000000001n"),
    ] {
        assert_eq!(canonical(text), want, "{text}");
    }
}

#[test]
fn what_go_takes_for_canonical_keeps_its_text() {
    for text in ["+5", "05", "100.500", "0050", "5Ki", "1e0"] {
        assert_eq!(canonical(text), text, "{text}");
    }
    assert_eq!(canonical("-"), "0");
    assert_eq!(canonical("."), "0");
    assert_eq!(canonical("1.000"), "1");
}

#[test]
fn errors_are_those_of_go() {
    let format = ParseError::Format.to_string();
    for text in ["", "1.1.1", "1 Ki", "a", "1,5", "1+1e"] {
        assert_eq!(canonical(text), format, "{text}");
    }
    for text in ["1mi", "1Kii", "1e", "1ee3", "1i", "1ki", "1+1", "--1"] {
        assert_eq!(canonical(text), "unable to parse quantity's suffix", "{text}");
    }
}

#[test]
fn comparing_and_adding_ignore_how_numbers_are_written() {
    let q = |s: &str| s.parse::<Quantity>().unwrap();
    assert_eq!(q("1Gi"), q("1024Mi"));
    assert_eq!(q("1"), q("1000m"));
    assert!(q("1G") < q("1Gi"));
    assert!(q("-1") < q("1n"));
    assert!(q("1e999999999") > q("123456789012345678901234567890"));
    assert!(q("-1e999999999") < q("-1"));
    let mut sum = q("0");
    sum.add(&q("1Gi"));
    sum.add(&q("512Mi"));
    assert_eq!(sum.to_string(), "1536Mi");
    sum.sub(&q("1536Mi"));
    assert!(sum.is_zero());
    let mut cpu = q("1");
    cpu.add(&q("500m"));
    assert_eq!(cpu.to_string(), "1500m");
    assert_eq!(cpu.milli_value(), 1500);
    assert_eq!(cpu.value(), 2);
    assert_eq!(q("-1500m").value(), -2);
    assert_eq!(q("1n").value(), 1);
    assert_eq!(q("1e30").value(), i64::MAX);
    assert_eq!(q("1Ki").as_i64(), Some(1024));
    assert_eq!(q("1500m").as_i64(), None);
    assert_eq!(q("1.5Gi").as_f64(), 1_610_612_736.0);
}

#[test]
fn huge_exponents_cost_nothing() {
    for text in [
        "1e2147483647",
        "1e-2147483648",
        "123456789012345678901234567890e2000000000",
        "1e99999999999",
    ] {
        let Ok(q) = text.parse::<Quantity>() else { continue };
        let mut sum = q.clone();
        sum.add(&"1".parse().unwrap());
        let _ = (q.to_string(), q.value(), q.as_f64(), sum.to_string(), q == sum);
    }
}
