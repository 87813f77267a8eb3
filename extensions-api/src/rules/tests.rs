//! Rules on objects: what holds, what does not, what is said of it.

use triptych_object::field::ErrorList;
use triptych_object::{Value, json};

use super::{BUDGET, Validator};

fn parsed(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

/// Errors, then what is only warned of.
fn check(schema: &str, new: &str, old: Option<&str>) -> (Vec<String>, Vec<String>) {
    let rules = Validator::new(&parsed(schema), true).unwrap();
    let (new, old) = (parsed(new), old.map(parsed));
    let mut errors = ErrorList::new();
    rules.validate(&new, old.as_ref(), true, None, BUDGET, &mut errors);
    let tolerated = errors.tolerated().iter().map(ToString::to_string).collect();
    (errors.iter().map(ToString::to_string).collect(), tolerated)
}

fn spec(member: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"spec":{{"type":"object","properties":{{{member}}}}}}}}}"#)
}

#[test]
fn a_rule_that_does_not_hold_is_told_with_its_message_reason_and_path() {
    let schema = spec(
        r#""a":{"type":"string","x-kubernetes-validations":[{"rule":"self == 'x'"},{"rule":"self != 'y'","message":"not y","reason":"FieldValueForbidden"},
        {"rule":"self.size() > 3","messageExpression":"'too short: ' + self"}]},
        "o":{"type":"object","properties":{"b":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.b > 1","fieldPath":".b"}]}"#,
    );
    let (errors, _) = check(&schema, r#"{"spec":{"a":"y","o":{"b":1}}}"#, None);
    assert_eq!(
        errors,
        [
            "spec.a: Invalid value: \"y\": failed rule: self == 'x'",
            "spec.a: Forbidden: not y",
            "spec.a: Invalid value: \"y\": too short: y",
            "spec.o.b: Invalid value: failed rule: self.b > 1",
        ]
    );
}

#[test]
fn transition_rules_look_at_the_old_value_where_there_is_one() {
    let schema = spec(
        r#""n":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf"}]},
        "l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],
            "properties":{"k":{"type":"string"},"v":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf"}]}}}},
        "first":{"type":"integer","x-kubernetes-validations":[{"rule":"oldSelf.hasValue() || self == 1","optionalOldSelf":true}]}"#,
    );
    let old = r#"{"spec":{"n":5,"l":[{"k":"a","v":5},{"k":"b","v":1}]}}"#;
    let new = r#"{"spec":{"n":4,"l":[{"k":"b","v":2},{"k":"a","v":4},{"k":"c","v":0}],"first":2}}"#;
    let (errors, _) = check(&schema, new, Some(old));
    assert_eq!(
        errors,
        [
            "spec.n: Invalid value: 4: failed rule: self >= oldSelf",
            "spec.l[1].v: Invalid value: 4: failed rule: self >= oldSelf",
            "spec.first: Invalid value: 2: failed rule: oldSelf.hasValue() || self == 1",
        ]
    );
    assert_eq!(check(&schema, r#"{"spec":{"n":4}}"#, None).0, Vec::<String>::new());
}

#[test]
fn what_did_not_change_is_only_warned_of() {
    let schema =
        spec(r#""a":{"type":"string","x-kubernetes-validations":[{"rule":"self == 'x'"}]},"b":{"type":"string"}"#);
    let old = r#"{"spec":{"a":"bad","b":"1"}}"#;
    let (errors, tolerated) = check(&schema, r#"{"spec":{"a":"bad","b":"2"}}"#, Some(old));
    assert_eq!((errors.len(), tolerated.len()), (0, 1));
    assert_eq!(tolerated[0], "spec.a: Invalid value: \"bad\": failed rule: self == 'x'");
    let (errors, tolerated) = check(&schema, r#"{"spec":{"a":"worse","b":"1"}}"#, Some(old));
    assert_eq!((errors.len(), tolerated.len()), (1, 0));
}

#[test]
fn rules_that_fail_or_cost_too_much_are_told() {
    let schema = spec(
        r#""n":{"type":"integer","x-kubernetes-validations":[{"rule":"10 / self > 1"}]},
        "v":{"x-kubernetes-int-or-string":true,"x-kubernetes-validations":[{"rule":"self > 1"}]},
        "l":{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[{"rule":"self.all(x, self.all(y, self.all(z, x + y + z != '')))"}]}"#,
    );
    let (errors, _) = check(&schema, r#"{"spec":{"n":0,"v":"a"}}"#, None);
    assert_eq!(
        errors,
        [
            "spec.n: Invalid value: \"integer\": division by zero evaluating rule: 10 / self > 1",
            "spec.v: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self > 1",
        ]
    );
    let many = vec!["\"abc\""; 200].join(",");
    let (errors, _) = check(&schema, &format!(r#"{{"spec":{{"l":[{many}],"n":0}}}}"#), None);
    assert_eq!(
        errors,
        [
            "spec.l: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.all(x, self.all(y, self.all(z, x + y + z != '')))"
        ]
    );
}

#[test]
fn names_of_objects_and_of_embedded_ones_can_be_seen() {
    let schema = r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name.startsWith('a')"}],"properties":{"e":{"type":"object",
        "x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-validations":[{"rule":"self.kind == 'Pod'"}]},
        "a-b":{"type":"string"}}}"#;
    assert!(
        check(schema, r#"{"metadata":{"name":"ab"},"e":{"kind":"Pod"}}"#, None)
            .0
            .is_empty()
    );
    assert_eq!(
        check(schema, r#"{"metadata":{"name":"b"},"e":{"kind":"X"}}"#, None)
            .0
            .len(),
        2
    );
}
