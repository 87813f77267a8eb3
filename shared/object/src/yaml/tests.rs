//! Documents, and what go-yaml v2 with sigs.k8s.io/yaml makes of them.

use super::*;
use crate::json;

fn as_json(text: &str) -> String {
    match parse(text.as_bytes()) {
        Ok(p) => json::to_string(&p.value),
        Err(e) => e.to_string(),
    }
}

#[test]
fn scalars_are_resolved_as_go_yaml_does() {
    for (text, want) in [
        ("", "null"),
        ("a: yes", r#"{"a":true}"#),
        ("a: 'yes'", r#"{"a":"yes"}"#),
        (
            "[y, n, on, off, ~, null, Null, nULL]",
            r#"[true,false,true,false,null,null,null,"nULL"]"#,
        ),
        (
            "[1, -1, +1, 010, 0x1F, 0b11, 0o17, 1_000, 08, 1e3, .5, 1.5]",
            "[1,-1,1,8,31,3,15,1000,8,1000,0.5,1.5]",
        ),
        (
            "[2001-01-01, 2001-13-01, 1:30, 1.2.3]",
            r#"["2001-01-01","2001-13-01","1:30","1.2.3"]"#,
        ),
        (
            "[18446744073709551615, 9223372036854775807]",
            "[18446744073709552000,9223372036854775807]",
        ),
        ("!!str 1", "\"1\""),
        ("!!float 1", "1"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("!!binary aGk=", "\"hi\""),
        ("!!binary '*'", "yaml: !!binary value contains invalid base64 data"),
        ("!foo 1", "\"1\""),
        ("a: .inf", "json: unsupported value: +Inf"),
        ("{1: a, true: b, 1.5: c, yes: d}", r#"{"1":"a","1.5":"c","true":"d"}"#),
        ("b: 1\na: 2\n---\nc: 3", r#"{"a":2,"b":1}"#),
        ("a: |\n  x\n  y\nb: >\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y\n"}"#),
        ("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#),
        (
            "a: &x {b: 1, d: 2}\nc: {b: 0, <<: *x, d: 3}",
            r#"{"a":{"b":1,"d":2},"c":{"b":1,"d":3}}"#,
        ),
    ] {
        assert_eq!(as_json(text), want, "{text}");
    }
}

#[test]
fn errors_are_those_of_go_yaml() {
    for (text, want) in [
        ("a: [", "yaml: line 1: did not find expected node content"),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        (
            "{a: b,\n c: d\n e: f\n",
            "yaml: line 2: did not find expected ',' or '}'",
        ),
        ("@a", "yaml: found character that cannot start any token"),
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("a: &b [*b]", "yaml: anchor 'b' value contains itself"),
        ("a: \u{1}", "yaml: control characters are not allowed"),
        ("<<: 1", "yaml: map merge requires map or sequence of maps as the value"),
        ("? [a]\n: b", "yaml: invalid map key: []interface {}{}"),
        (
            "null: b",
            "unsupported map key of type: %!s(<nil>), key: <nil>, value: interface {}(nil)",
        ),
    ] {
        assert_eq!(as_json(text), want, "{text}");
    }
    assert_eq!(
        parse(b"a: \xff").unwrap_err().to_string(),
        "yaml: invalid leading UTF-8 octet"
    );
}

#[test]
fn keys_that_stand_twice_are_reported_by_line() {
    let p = parse(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\ntrue: 1\nyes: 2").unwrap();
    assert_eq!(json::to_string(&p.value), r#"{"a":3,"b":{"c":2},"true":2}"#);
    assert_eq!(
        p.strict.unwrap(),
        "yaml: unmarshal errors:\n  line 4: key \"c\" already set in map\n  line 5: key \"a\" already set in map\n  line 7: key true already set in map"
    );
}

#[test]
fn aliases_cannot_be_used_to_exhaust_memory() {
    let mut laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..10 {
        let items = vec![format!("*a{}", i - 1); 9].join(",");
        laughs.push_str(&format!("a{i}: &a{i} [{items}]\n"));
    }
    assert_eq!(as_json(&laughs), "yaml: document contains excessive aliasing");
    let long = format!("a: &a {}\nb: [{}]", "x".repeat(1 << 20), vec!["*a"; 500].join(","));
    assert_eq!(as_json(&long), "yaml: document contains excessive aliasing");
}

#[test]
fn depth_is_bounded() {
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert_eq!(as_json(&text), "yaml: exceeded max depth of 10000", "{}", &text[..4]);
    }
}

#[test]
fn values_are_written_as_go_yaml_does() {
    for (text, want) in [
        ("{}", "{}\n"),
        ("[]", "[]\n"),
        ("null", "null\n"),
        ("\"\"", "\"\"\n"),
        (
            r#"{"b":1,"a":[1,{"c":"d","e":[]},[2,3]],"z":{}}"#,
            "a:\n- 1\n- c: d\n  e: []\n- - 2\n  - 3\nb: 1\nz: {}\n",
        ),
        (
            r##"{"a":"yes","b":"1","c":"a: b","d":"it's","e":"- x","f":"","g":"#x"}"##,
            "a: \"yes\"\nb: \"1\"\nc: 'a: b'\nd: it's\ne: '- x'\nf: \"\"\ng: '#x'\n",
        ),
        (
            r#"{"a":"x\ny","b":"x\ny\n","c":"x\n\n","d":" x\ny","e":"x \ny"}"#,
            "a: |-\n  x\n  y\nb: |\n  x\n  y\nc: |+\n  x\n\nd: |2-\n   x\n  y\ne: \"x \\ny\"\n",
        ),
        (
            r#"{"a10":1,"a2":2,"b":3,"a_":4,"B":5}"#,
            "B: 5\na_: 4\na2: 2\na10: 1\nb: 3\n",
        ),
        (
            r#"{"a":1.5,"b":1e21,"c":1000000.5,"d":"2001-01-01","e":"1:30"}"#,
            "a: 1.5\nb: 1e+21\nc: 1.0000005e+06\nd: \"2001-01-01\"\ne: \"1:30\"\n",
        ),
        (
            r#"{"a":"\u0001é😀","y":"\t"}"#,
            "a: \"\\x01é\\U0001F600\"\n\"y\": \"\\t\"\n",
        ),
    ] {
        assert_eq!(to_string(&json::from_slice(text.as_bytes()).unwrap()), want, "{text}");
    }
}

#[test]
fn long_text_is_folded_after_eighty_columns() {
    let words = vec!["word"; 40].join(" ");
    let text = to_string(&Value::from([("key", words.as_str().into())]));
    assert_eq!(parse(text.as_bytes()).unwrap().value.str_at(&["key"]), words);
    let lengths: Vec<usize> = text.lines().map(str::len).collect();
    assert_eq!(lengths, [84, 81, 41]);
}

#[test]
fn what_is_written_reads_back() {
    for text in [
        r#"{"a":["x","",null,true,1,-1.5,"null","~","0x1","a\"b'c","\\","multi\nline\n\n","  lead","trail ","\n"]}"#,
        r#"{"":{"x":[[],[{}],{"a":[]}]},"? a":": b","a\nb":"c"}"#,
    ] {
        let value = json::from_slice(text.as_bytes()).unwrap();
        let yaml = to_string(&value);
        assert_eq!(parse(yaml.as_bytes()).unwrap().value, value, "{yaml}");
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut state = 88172645463325252u64;
    let alphabet = b"ab:,-[]{}&*!|>'\"%#?\n\n  \t01.<~\\x\xc3\xa9";
    for _ in 0..300_000 {
        let mut bytes = Vec::new();
        for _ in 0..(state % 40) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(alphabet[(state % alphabet.len() as u64) as usize]);
        }
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        let _ = parse(&bytes);
    }
}

/// Every YAML answer among the recorded stories, where they are at hand.
#[test]
fn recorded_answers_are_written_as_recorded() {
    let stories = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/replay/stories");
    let Ok(folders) = std::fs::read_dir(stories) else {
        eprintln!("skipped: no recorded stories");
        return;
    };
    let mut compared = 0;
    for file in folders
        .flatten()
        .flat_map(|f| std::fs::read_dir(f.path()).unwrap().flatten())
    {
        let story = json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        for step in story.array_at(&["steps"]) {
            let text = step.str_at(&["expect", "body"]);
            if !step.str_at(&["expect", "headers", "Content-Type"]).contains("yaml") || text.is_empty() {
                continue;
            }
            // Placeholders stand for texts that were quoted.
            let text = text.replace("<time>", "2026-01-02T03:04:05Z").replace("<rv>", "12");
            let value = parse(text.as_bytes()).unwrap().value;
            assert_eq!(to_string(&value), text, "{:?}", file.file_name());
            compared += 1;
        }
    }
    assert!(compared > 0);
}

#[test]
fn what_is_too_deep_for_a_struct_is_left_out_or_refused() {
    let run = || {
        let deep = format!("a: {}{}", "[".repeat(2000), "]".repeat(2000));
        assert_eq!(as_json(&deep), "yaml: exceeded max depth");
        let parsed = parse_typed(deep.as_bytes()).unwrap();
        assert!(parsed.cut);
        assert_eq!(crate::json::depth(&parsed.value), crate::json::MAX_DEPTH);
    };
    // the frames of a build that is not optimised are large
    let stack = if cfg!(debug_assertions) { 16 * 1024 } else { 512 } * 1024;
    let thread = std::thread::Builder::new().stack_size(stack).spawn(run).unwrap();
    thread.join().unwrap();
}
