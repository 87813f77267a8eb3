//! Collects what is wrong with a command line, so that one run tells all of it.

use std::fmt::{self, Display};

/// What was found wrong so far; each problem names its flag.
#[derive(Debug, Default)]
pub struct Problems(Vec<String>);

impl Problems {
    /// Notes a problem with a flag (with its dashes: `--data-dir`).
    pub fn add(&mut self, flag: &str, problem: impl Display) {
        self.0.push(format!("{flag}: {problem}"));
    }

    /// The value, or nothing and a note why not.
    pub fn check<T, E: Display>(&mut self, flag: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|problem| self.add(flag, problem)).ok()
    }

    /// Whether nothing was found yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The settings if there was no problem. `None` without a problem is a bug of the caller and reported as one.
    pub fn finish<T>(self, settings: Option<T>) -> Result<T, InvalidOptions> {
        match settings {
            Some(settings) if self.0.is_empty() => Ok(settings),
            _ if self.0.is_empty() => Err(InvalidOptions(vec!["the options could not be read".into()])),
            _ => Err(InvalidOptions(self.0)),
        }
    }
}

/// Everything that is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidOptions(Vec<String>);

impl Display for InvalidOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid options:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for InvalidOptions {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_told_at_once() {
        let mut problems = Problems::default();
        assert_eq!(problems.check("--a", Ok::<_, String>(1)), Some(1));
        assert_eq!(problems.check("--b", Err::<i32, _>("must be even")), None);
        problems.add("--c", "is missing");
        let error = problems.finish(Some(1)).map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("invalid options:\n  --b: must be even\n  --c: is missing".into())
        );
        assert_eq!(Problems::default().finish(Some(1)), Ok(1));
    }
}
