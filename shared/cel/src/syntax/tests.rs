//! Texts that are not of the language, with what the recorded server and cel-go's own tests say of them.

use crate::Environment;

const EXPRESSION: &str =
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

fn errors(text: &str) -> Vec<String> {
    let issues = Environment::new().compile(text).unwrap_err();
    let all = issues.to_string();
    all.lines()
        .filter_map(|line| line.strip_prefix("ERROR: <input>:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn syntax_errors_are_those_of_antlr() {
    let mismatched =
        |at: &str, token: &str| format!("{at}: Syntax error: mismatched input '{token}' expecting {{{EXPRESSION}");
    for (text, want) in [
        ("self ==", vec![mismatched("1:8", "<EOF>")]),
        ("self +", vec![mismatched("1:7", "<EOF>")]),
        ("", vec![mismatched("1:0", "<EOF>")]),
        ("*", vec![mismatched("1:1", "*"), mismatched("1:2", "<EOF>")]),
        (
            "nope(",
            vec![format!(
                "1:6: Syntax error: mismatched input '<EOF>' expecting {{{}",
                EXPRESSION.replacen("'.'", "')', '.'", 1)
            )],
        ),
        (
            "object.",
            vec!["1:8: Syntax error: no viable alternative at input '.'".to_owned()],
        ),
        (
            "Not valid!",
            vec!["1:5: Syntax error: mismatched input 'valid' expecting <EOF>".to_owned()],
        ),
        (
            "..",
            vec!["1:2: Syntax error: no viable alternative at input '..'".to_owned()],
        ),
        (
            "Object{",
            vec![
                "1:8: Syntax error: mismatched input '<EOF>' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"
                    .to_owned(),
            ],
        ),
        (
            "self.size( > 3",
            vec![
                format!(
                    "1:12: Syntax error: extraneous input '>' expecting {{{}",
                    EXPRESSION.replacen("'.'", "')', '.'", 1)
                ),
                "1:15: Syntax error: missing ')' at '<EOF>'".to_owned(),
            ],
        ),
        (
            "1 + $",
            vec![
                "1:5: Syntax error: token recognition error at: '$'".to_owned(),
                mismatched("1:6", "<EOF>"),
            ],
        ),
        (
            "\"unclosed",
            vec![
                "1:1: Syntax error: token recognition error at: '\"unclosed'".to_owned(),
                mismatched("1:10", "<EOF>"),
            ],
        ),
        (
            "a.true",
            vec!["1:3: Syntax error: mismatched input 'true' expecting IDENTIFIER".to_owned()],
        ),
        (
            "1 2",
            vec!["1:3: Syntax error: extraneous input '2' expecting <EOF>".to_owned()],
        ),
        (
            "a.#",
            vec![
                "1:3: Syntax error: token recognition error at: '#'".to_owned(),
                "1:4: Syntax error: no viable alternative at input '.'".to_owned(),
            ],
        ),
    ] {
        assert_eq!(errors(text), want, "{text}");
    }
}

#[test]
fn hostile_texts_are_given_up() {
    for text in [
        "(".repeat(240),
        "[".repeat(99_000),
        ")".repeat(99_000),
        "a ".repeat(40_000),
        "1+".repeat(49_000),
        "!".repeat(99_000),
    ] {
        assert!(!errors(&text).is_empty());
    }
}
