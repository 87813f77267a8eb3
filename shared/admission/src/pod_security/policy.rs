//! Which policy a namespace's labels ask for.

use triptych_object::field::{Error, ErrorList};

/// What all labels of pod security begin with.
pub const PREFIX: &str = "pod-security.kubernetes.io/";

/// How strict a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Nothing that is known to raise privileges.
    Baseline,
    /// What is good practice.
    Restricted,
}

/// The checks of which release count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The newest.
    Latest,
    /// Those of 1.x, which may be newer than this server.
    Minor(u64),
}

/// A level at a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelVersion {
    /// How strict.
    pub level: Level,
    /// As of which release.
    pub version: Version,
}

/// What a namespace wants of its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// A pod that violates it is refused.
    pub enforce: LevelVersion,
    /// A violation is written into the audit log.
    pub audit: LevelVersion,
    /// A violation is told to the client.
    pub warn: LevelVersion,
}

impl std::fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

impl Policy {
    /// Whether no pod can violate it.
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn]
            .iter()
            .all(|mode| mode.level == Level::Privileged)
    }

    /// Of labels; with the errors of those that cannot be read. A level that cannot be read is enforced as the
    /// strictest, but neither audited nor warned of.
    pub fn of<'a>(label: impl Fn(&str) -> Option<&'a str>) -> (Policy, ErrorList) {
        let mut errors = ErrorList::new();
        let mut mode = |name: &str, unreadable: Level| {
            let mut read = Mode {
                level: None,
                readable: true,
                version: None,
            };
            let field = format!("{PREFIX}{name}");
            if let Some(text) = label(&field) {
                let level = parse_level(text);
                if level.is_none() {
                    let detail = "must be one of privileged, baseline, restricted";
                    errors.push(Error::invalid(format!("metadata.labels[{field}]"), text, detail));
                }
                read.readable = level.is_some();
                read.level = Some(level.unwrap_or(unreadable));
            }
            let field = format!("{PREFIX}{name}-version");
            if let Some(text) = label(&field) {
                let version = parse_version(text);
                if version.is_none() {
                    let detail = "must be \"latest\" or \"v1.x\"";
                    errors.push(Error::invalid(format!("metadata.labels[{field}]"), text, detail));
                }
                read.version = Some(version.unwrap_or(Version::Latest));
            }
            read
        };
        let enforce = mode("enforce", Level::Restricted);
        let audit = mode("audit", Level::Privileged);
        let mut warn = mode("warn", Level::Privileged);
        // who enforces more than nothing is also warned of it, unless he says otherwise
        if warn.level.is_none() && enforce.readable && enforce.level.is_some_and(|level| level > Level::Privileged) {
            warn.level = enforce.level;
            warn.version = warn.version.or(enforce.version);
        }
        let policy = Policy {
            enforce: enforce.resolved(),
            audit: audit.resolved(),
            warn: warn.resolved(),
        };
        (policy, errors)
    }
}

/// What the labels say of one mode.
struct Mode {
    level: Option<Level>,
    readable: bool,
    version: Option<Version>,
}

impl Mode {
    fn resolved(&self) -> LevelVersion {
        LevelVersion {
            level: self.level.unwrap_or(Level::Privileged),
            version: self.version.unwrap_or(Version::Latest),
        }
    }
}

fn parse_version(text: &str) -> Option<Version> {
    if text == "latest" {
        return Some(Version::Latest);
    }
    let minor = text.strip_prefix("v1.")?;
    let canonical = minor == "0" || (!minor.starts_with('0') && minor.bytes().all(|b| b.is_ascii_digit()));
    minor
        .parse::<i64>()
        .ok()
        .filter(|_| canonical)
        .and_then(|minor| u64::try_from(minor).ok())
        .map(Version::Minor)
}

fn parse_level(text: &str) -> Option<Level> {
    match text {
        "privileged" => Some(Level::Privileged),
        "baseline" => Some(Level::Baseline),
        "restricted" => Some(Level::Restricted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(labels: &[(&str, &str)]) -> (String, usize) {
        let find = |key: &str| {
            let name = key.strip_prefix(PREFIX)?;
            labels.iter().find(|(k, _)| *k == name).map(|(_, v)| *v)
        };
        let (policy, errors) = Policy::of(find);
        let text = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (text, errors.len())
    }

    #[test]
    fn labels_say_what_is_enforced_audited_and_warned_of() {
        for (labels, says, errors) in [
            (vec![], "privileged:latest privileged:latest privileged:latest", 0),
            (
                vec![("enforce", "baseline"), ("enforce-version", "v1.20")],
                "baseline:v1.20 privileged:latest baseline:v1.20",
                0,
            ),
            (
                vec![("enforce", "restricted"), ("warn", "privileged")],
                "restricted:latest privileged:latest privileged:latest",
                0,
            ),
            (
                vec![("enforce", "x"), ("audit", "x"), ("warn", "x")],
                "restricted:latest privileged:latest privileged:latest",
                3,
            ),
            (
                vec![("enforce", "x")],
                "restricted:latest privileged:latest privileged:latest",
                1,
            ),
            (
                vec![
                    ("warn-version", "v1.01"),
                    ("audit-version", "v2.0"),
                    ("enforce-version", "v1.99999999999999999999"),
                ],
                "privileged:latest privileged:latest privileged:latest",
                3,
            ),
        ] {
            assert_eq!(policy(&labels), (says.to_owned(), errors), "{labels:?}");
        }
    }
}
