//! Reads an image reference as far as the default of `imagePullPolicy` needs it (github.com/distribution/reference).

use std::sync::LazyLock;

use regex::Regex;

static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    const DOMAIN_PART: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    const PATH_PART: &str = "[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*";
    let host = format!(r"(?:{DOMAIN_PART}(?:\.{DOMAIN_PART})*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?");
    let name = format!("(?:{host}/)?{PATH_PART}(?:/{PATH_PART})*");
    let tag = r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}";
    let digest = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}";
    Regex::new(&format!("^({name})(?::({tag}))?(?:@({digest}))?$")).ok()
});

/// `Always` for the tag `latest`, which a reference without tag and digest means; else `IfNotPresent`, also for what is
/// no reference.
pub fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) { "Always" } else { "IfNotPresent" }
}

fn is_latest(image: &str) -> bool {
    // 64 hexadecimal digits are an image's id, not its name
    if image.len() == 64 && image.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return false;
    }
    let (domain, remainder) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first => {
            (first, rest.to_owned())
        }
        Some(_) => ("docker.io", image.to_owned()),
        None => ("docker.io", format!("library/{image}")),
    };
    let path = remainder.split(':').next().unwrap_or("");
    if path.to_lowercase() != path {
        return false;
    }
    let full = format!("{domain}/{remainder}");
    let Some(found) = REFERENCE.as_ref().and_then(|r| r.captures(&full)) else {
        return false;
    };
    if found.get(1).is_none_or(|name| name.len() > 255) {
        return false;
    }
    match (found.get(2), found.get(3)) {
        (Some(tag), digest) => tag.as_str() == "latest" && digest.is_none_or(|d| is_digest(d.as_str())),
        (None, Some(_)) => false,
        (None, None) => true,
    }
}

/// A digest of a known algorithm in its length.
fn is_digest(text: &str) -> bool {
    let (algorithm, hex) = text.split_once(':').unwrap_or((text, ""));
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_latest_is_always_pulled() {
        for image in ["a", "a:latest", "b/a", "example.com:5000/b/a", "localhost/a", "a__b"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        let digest = format!("a@sha256:{}", "0".repeat(64));
        for image in [
            "a:1",
            "",
            "A",
            "a:",
            "b/A:latest",
            "a b",
            digest.as_str(),
            "example.com:5000/a:v2",
        ] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }
}
