//! Shell sessions as text: commands, and what they must print.
//!
//! ```text
//! # a comment                      @ cm.yaml            (a file for the commands, up to the next line `@`)
//! $ kubectl get configmap hello    apiVersion: v1
//! NAME    DATA   AGE               @
//! hello   1      [..]
//! $ kubectl get configmap nope
//! ? 1                              (its exit code, when not 0)
//! Error from server (NotFound): configmaps "nope" not found
//! ```
//!
//! Standard output and standard error are compared together, line by line; runs of blanks count as one and blank lines not
//! at all. `[..]` stands for any text within a line, a line `...` for any lines. A session goes on after a mismatch, so one
//! run shows all of them.

use std::fmt;
use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// How long one command may take.
const COMMAND_DEADLINE: std::time::Duration = std::time::Duration::from_secs(60);

/// A step of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    File {
        name: String,
        content: String,
    },
    Command {
        line: usize,
        text: String,
        exit_code: i32,
        expected: Vec<String>,
    },
}

/// A session that was read.
#[derive(Clone, Debug)]
pub struct Session {
    name: String,
    steps: Vec<Step>,
}

/// A command that did not do what it should.
#[derive(Clone, Debug)]
pub struct Mismatch {
    place: String,
    command: String,
    expected: String,
    printed: String,
}

impl Session {
    /// Reads a session; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut steps: Vec<Step> = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(name) = line.strip_prefix("@ ") {
                let content = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "@");
                let content = content.map(|line| format!("{line}\n")).collect();
                steps.push(Step::File {
                    name: name.trim().to_owned(),
                    content,
                });
            } else if let Some(text) = line.strip_prefix("$ ") {
                steps.push(Step::Command {
                    line: number + 1,
                    text: text.to_owned(),
                    exit_code: 0,
                    expected: Vec::new(),
                });
            } else if !line.starts_with('#') && !line.trim().is_empty() {
                let Some(Step::Command {
                    exit_code, expected, ..
                }) = steps.last_mut()
                else {
                    return Err(format!("{name}:{}: neither a command nor what one prints", number + 1));
                };
                match line.strip_prefix("? ") {
                    Some(code) => {
                        *exit_code = code.trim().parse().map_err(|_| format!("{name}: not a code: {line}"))?
                    }
                    None => expected.push(line.to_owned()),
                }
            }
        }
        Ok(Self {
            name: name.to_owned(),
            steps,
        })
    }

    /// How many commands it has.
    pub fn commands(&self) -> usize {
        self.steps
            .iter()
            .filter(|step| matches!(step, Step::Command { .. }))
            .count()
    }

    /// Runs it in `folder` with these variables; returns what did not match.
    pub async fn run(&self, folder: &Path, environment: &[(&str, &str)]) -> std::io::Result<Vec<Mismatch>> {
        let mut mismatches = Vec::new();
        for step in &self.steps {
            match step {
                Step::File { name, content } => std::fs::write(folder.join(name), content)?,
                Step::Command {
                    line,
                    text,
                    exit_code,
                    expected,
                } => {
                    let (code, printed) = execute(text, folder, environment).await?;
                    if code != Some(*exit_code) || !matches(expected, &printed) {
                        mismatches.push(Mismatch {
                            place: format!("{}:{line}", self.name),
                            command: text.clone(),
                            expected: format!("exit code {exit_code}\n{}", expected.join("\n")),
                            printed: format!("exit code {}\n{printed}", code.unwrap_or(-1)),
                        });
                    }
                }
            }
        }
        Ok(mismatches)
    }
}

async fn execute(text: &str, folder: &Path, environment: &[(&str, &str)]) -> std::io::Result<(Option<i32>, String)> {
    let command = Command::new("bash")
        .args(["-o", "pipefail", "-c", &format!("exec 2>&1; {text}")])
        .current_dir(folder)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(COMMAND_DEADLINE, command).await {
        Ok(output) => output.map(|o| (o.status.code(), String::from_utf8_lossy(&o.stdout).into_owned())),
        Err(_) => Ok((None, format!("(no end within {} s)", COMMAND_DEADLINE.as_secs()))),
    }
}

/// Whether what was printed is what was expected.
fn matches(expected: &[String], printed: &str) -> bool {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: Vec<_> = expected.iter().map(|line| words(line)).collect();
    let printed: Vec<_> = printed.lines().map(words).filter(|line| !line.is_empty()).collect();
    lines_match(&expected, &printed)
}

fn lines_match(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "..." => (0..=printed.len()).any(|skip| lines_match(rest, &printed[skip..])),
        Some((line, rest)) => match printed.split_first() {
            Some((first, others)) => line_matches(line, first) && lines_match(rest, others),
            None => false,
        },
    }
}

fn line_matches(expected: &str, printed: &str) -> bool {
    let Some((start, mut rest)) = expected.split_once("[..]") else {
        return expected == printed;
    };
    let Some(mut printed) = printed.strip_prefix(start) else {
        return false;
    };
    while let Some((middle, after)) = rest.split_once("[..]") {
        let Some(found) = printed.find(middle) else {
            return false;
        };
        printed = &printed[found + middle.len()..];
        rest = after;
    }
    printed.ends_with(rest)
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            command,
            expected,
            printed,
        } = self;
        write!(f, "{place}: $ {command}\n--- expected, {expected}\n--- got, {printed}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(expected: &str, printed: &str) -> bool {
        matches(&expected.lines().map(str::to_owned).collect::<Vec<_>>(), printed)
    }

    #[test]
    fn blanks_and_wildcards_match_and_other_text_does_not() {
        assert!(agree("NAME  AGE\nhello  [..]", "NAME    AGE\nhello   5s\n"));
        assert!(agree("a [..] b [..]c", "a x b y b c"));
        assert!(agree("...\nlast", "first\nsecond\nlast\n"));
        assert!(agree("first\n...", "first\n"));
        assert!(agree("", "\n"));
        assert!(!agree("hello [..]", "goodbye 5s"));
        assert!(!agree("a\n...\nz", "a\nb"));
        assert!(!agree("one", "one\ntwo"));
        assert!(!agree("one\ntwo", "one"));
        assert!(!agree("[..]x", "y"));
    }

    #[tokio::test]
    async fn a_session_runs_with_its_files_and_tells_every_mismatch() {
        let text = "# a comment\n@ a.txt\none\ntwo\n@\n$ cat a.txt\none\ntwo\n\n$ echo oops >&2; exit 3\n? 3\noops\n$ echo x\ny\n$ false\n";
        let session = Session::parse("s", text).unwrap();
        assert_eq!(session.commands(), 4);
        let folder = tempfile::tempdir().unwrap();
        let mismatches = session.run(folder.path(), &[]).await.unwrap();
        let places: Vec<_> = mismatches.iter().map(|m| m.place.as_str()).collect();
        assert_eq!(places, ["s:13", "s:15"]);
        assert!(mismatches[0].to_string().contains("--- expected, exit code 0\ny"));
    }

    #[test]
    fn output_without_a_command_is_told() {
        assert!(Session::parse("s", "hello\n").unwrap_err().starts_with("s:1"));
    }
}
