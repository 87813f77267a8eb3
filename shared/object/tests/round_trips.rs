//! What is written reads back, whatever it is.
#![allow(clippy::unwrap_used)] // what a helper of a test cannot do fails the test

use proptest::prelude::*;
use triptych_object::{Object, Quantity, Value, json, yaml};

/// Trees of a few levels with texts that quoting rules stumble over.
fn tree() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[ -~]{0,12}",
        "[yn0-9.:_+eE-]{0,8}",
        "\\PC{0,8}",
        Just("  leading".to_owned()),
        Just("trailing\n\n".to_owned()),
        Just("a\n  b\n".to_owned()),
        Just("null".to_owned()),
        "([a-z]{1,9} ){20,40}[a-z]",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1.0e12..1.0e12).prop_map(|f: f64| Value::Float(f + 0.5)),
        text.clone().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        let members = prop::collection::vec((text.clone(), inner.clone()), 0..8);
        prop_oneof![
            prop::collection::vec(inner, 0..8).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Object>())),
        ]
    })
}

/// As JSON has it: a float without fraction is an integer.
fn settled(value: &Value) -> Value {
    json::from_slice(json::to_string(value).as_bytes()).unwrap()
}

proptest! {
    #[test]
    fn json_reads_back(value in tree()) {
        let text = json::to_string(&value);
        prop_assert_eq!(json::to_string(&settled(&value)), text);
    }

    #[test]
    fn yaml_reads_back(value in tree()) {
        let value = settled(&value);
        let text = yaml::to_string(&value);
        prop_assert_eq!(yaml::from_slice(text.as_bytes()).unwrap(), value, "{}", text);
    }

    #[test]
    fn json_is_yaml(value in tree()) {
        let value = settled(&value);
        prop_assert_eq!(yaml::from_slice(json::to_string(&value).as_bytes()).unwrap(), value);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "\\PC{0,40}|[-:{}\\[\\],\"'|>&*!%@`#?\n \\\\a1.]{0,60}") {
        let _ = yaml::parse(text.as_bytes());
        let _ = json::parse(text.as_bytes());
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn a_quantity_equals_its_canonical_form(number in "-?[0-9]{1,24}(\\.[0-9]{0,12})?", suffix in "|m|u|n|k|M|G|Ki|Mi|Gi|e3|e-3|E5") {
        let quantity: Quantity = format!("{number}{suffix}").parse().unwrap();
        let canonical = quantity.to_string();
        let again: Quantity = canonical.parse().unwrap();
        prop_assert!(quantity == again, "{} {}", quantity, again);
        prop_assert_eq!(again.to_string(), canonical);
    }

    #[test]
    fn adding_and_subtracting_a_quantity_gives_it_back(a in -1_000_000i64..1_000_000, b in -1_000_000i64..1_000_000) {
        let (a, b): (Quantity, Quantity) = (format!("{a}m").parse().unwrap(), format!("{b}Ki").parse().unwrap());
        let mut sum = a.clone();
        sum.add(&b);
        sum.sub(&b);
        prop_assert!(sum == a);
    }
}
