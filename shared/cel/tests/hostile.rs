//! Whatever text is compiled and evaluated: nothing panics, nothing goes on for ever.
#![allow(clippy::unwrap_used)] // what a helper of a test cannot do fails the test

use proptest::prelude::*;
use triptych_cel::{Activation, Budget, Declared, Environment, NoSizes, Type, Value};
use triptych_object::json;

const DOCUMENT: &str = r#"{"s":"hé","n":3,"f":1.5,"b":true,"z":null,"l":[3,1,2],"m":{"a":1},"t":["x"],"o":{"p":{"q":"r"}},"x":[[{"k":"a"}]]}"#;
const SCHEMA: &str = r#"{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"integer"},"f":{"type":"number"},"b":{"type":"boolean"},
    "z":{"type":"string","nullable":true},"l":{"type":"array","items":{"type":"integer"},"x-kubernetes-list-type":"set"},
    "m":{"type":"object","additionalProperties":{"type":"integer"}},"t":{"type":"array","items":{"type":"string","format":"date-time"}},
    "o":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"x":{"type":"array","items":{"type":"array","x-kubernetes-list-type":"map",
    "x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}}}}"#;

/// Compiles and evaluates with and without types.
fn run(text: &str) {
    let document = json::from_slice(DOCUMENT.as_bytes()).unwrap();
    let declared = Declared::read(&json::from_slice(SCHEMA.as_bytes()).unwrap(), true);
    for typed in [false, true] {
        let (ty, value) = match typed {
            true => (declared.cel_type().unwrap().clone(), declared.view(&document).unwrap()),
            false => (Type::Dyn, Value::of(&document)),
        };
        let program = match Environment::new().variable("self", ty).compile(text) {
            Ok(program) => program,
            Err(issues) => {
                assert!(!issues.to_string().is_empty());
                continue;
            }
        };
        let estimate = program.estimate(&NoSizes);
        assert!(estimate.min <= estimate.max, "{text}");
        let variables = [("self", value)];
        let mut budget = Budget::new(20_000);
        if let Ok(value) = program.evaluate(&variables as &dyn Activation<'_>, &mut budget) {
            let _ = (value.to_string(), value.to_json(), value.size(), value.is_zero());
        }
    }
}

/// Pieces of the language, well and badly joined.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "self",
        "self.s",
        "self.n",
        "self.f",
        "self.l",
        "self.m",
        "self.t",
        "self.o.p",
        "self.x",
        "self.z",
        "1",
        "-1",
        "0",
        "2u",
        "1.5",
        "'a'",
        "\"é\"",
        "b'x'",
        "true",
        "null",
        "[]",
        "{}",
        "[1, 2]",
        "['b', 'a']",
        "{'a': 1}",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "duration('1h')",
        "timestamp('2024-01-01T00:00:00Z')",
        "int",
        "type(1)",
        "optional.none()",
        "optional.of(1)",
        "quantity('1Gi')",
        "ip('::1')",
        "cidr('10.0.0.0/8')",
        "url('https://a/b?c=d')",
        "semver('1.2.3')",
        "format.dns1123Label()",
        "dyn('x')",
        "lists.range(5)",
    ];
    prop::sample::select(words.to_vec()).prop_map(str::to_owned)
}

fn expression() -> impl Strategy<Value = String> {
    piece().prop_recursive(5, 40, 3, |inner| {
        let binary = prop::sample::select(vec![
            "+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in", "&&", "||",
        ]);
        let method = prop::sample::select(vec![
            "size",
            "contains",
            "startsWith",
            "matches",
            "find",
            "findAll",
            "split",
            "replace",
            "substring",
            "charAt",
            "indexOf",
            "lastIndexOf",
            "join",
            "trim",
            "format",
            "sort",
            "flatten",
            "slice",
            "distinct",
            "reverse",
            "sum",
            "max",
            "min",
            "isSorted",
            "value",
            "hasValue",
            "orValue",
            "or",
            "first",
            "last",
            "add",
            "sub",
            "compareTo",
            "asInteger",
            "family",
            "masked",
            "containsIP",
            "containsCIDR",
            "getHost",
            "getQuery",
            "validate",
            "getHours",
            "getFullYear",
            "getMilliseconds",
            "unwrapOpt",
            "lowerAscii",
        ]);
        let function = prop::sample::select(vec![
            "size",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "bool",
            "duration",
            "timestamp",
            "type",
            "dyn",
            "optional.ofNonZeroValue",
            "sets.contains",
            "isIP",
            "isURL",
            "isQuantity",
            "isSemver",
            "strings.quote",
            "jsonpatch.escapeKey",
            "lists.range",
            "format.named",
        ]);
        let fold = prop::sample::select(vec![
            "all",
            "exists",
            "exists_one",
            "map",
            "filter",
            "sortBy",
            "optMap",
            "optFlatMap",
        ]);
        prop_oneof![
            (inner.clone(), binary, inner.clone()).prop_map(|(a, op, b)| format!("({a} {op} {b})")),
            (inner.clone(), method.clone()).prop_map(|(a, m)| format!("{a}.{m}()")),
            (inner.clone(), method.clone(), inner.clone()).prop_map(|(a, m, b)| format!("{a}.{m}({b})")),
            (inner.clone(), method, inner.clone(), inner.clone()).prop_map(|(a, m, b, c)| format!("{a}.{m}({b}, {c})")),
            (function, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
            (inner.clone(), fold, inner.clone()).prop_map(|(a, f, b)| format!("{a}.{f}(x, x == {b} || {b} == x)")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}.transformMap(k, v, {b})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}[?{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, ?{b}]")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            inner.clone().prop_map(|a| format!("{a}.?q")),
            inner.clone().prop_map(|a| format!("has({a}.q)")),
            inner.clone().prop_map(|a| format!("!{a}")),
            inner.prop_map(|a| format!("-{a}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn well_formed_expressions_do_not_panic(text in expression()) {
        run(&text);
    }

    #[test]
    fn tokens_in_any_order_do_not_panic(
        tokens in prop::collection::vec(prop::sample::select(vec![
            "self", "a", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "!", "-", "+", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "in",
            "&&", "||", "1", "2u", "1.5", "0x1F", "'a'", "\"b\"", "r'c'", "b'd'", "true", "null", "`e`", "//", "\n", "has", ".all(x,", "'", "$", "&",
        ]), 0..40)
    ) {
        run(&tokens.join(" "));
        run(&tokens.concat());
    }

    #[test]
    fn arbitrary_text_does_not_panic(text in ".{0,200}") {
        run(&text);
    }

    #[test]
    fn arbitrary_literals_do_not_panic(text in "[\\PC\\\\'\"x0-9]{0,40}", pattern in "[\\[\\](){}*+?|.^$\\\\a-z0-9,:=<>!P-]{0,30}") {
        run(&format!("'{text}'"));
        run(&format!("b\"{text}\""));
        run(&format!("self.s.matches(r'{pattern}')"));
        run(&format!("'{pattern}'.format([self.l, 1.5])"));
        run(&format!("duration('{pattern}') == timestamp('{text}') - timestamp('{text}')"));
    }
}
