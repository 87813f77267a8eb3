//! The name and text formats of the Kubernetes API, each as a check that returns what is wrong in Go's words.
//!
//! Contract: an empty list means valid; the messages, their order and the regular expressions quoted in them equal
//! those of k8s.io/apimachinery (`util/validation`, `api/validate/content`, `api/validation`). Lengths count bytes, as
//! there. Every check is linear in its input. The regular expressions are only quoted: each format is matched by hand,
//! since these run on every write.

mod ip;

pub use ip::{
    cidr, cidr_for_legacy_field, cidr_warnings, interface_address, ip, ip_for_legacy_field, ip_warnings, parse_cidr,
    parse_ip,
};

/// Longest DNS-1123 label, in bytes.
pub const DNS1123_LABEL_MAX: usize = 63;
/// Longest DNS-1123 subdomain, in bytes.
pub const DNS1123_SUBDOMAIN_MAX: usize = 253;
/// Longest DNS-1035 label, in bytes.
pub const DNS1035_LABEL_MAX: usize = 63;
/// Longest label value, in bytes.
pub const LABEL_VALUE_MAX: usize = 63;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_SUBDOMAIN_FORMAT: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const DNS1035_FORMAT: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const KEY_MESSAGE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// `must be no more than N characters` (the wording of `util/validation`).
pub fn max_length_message(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// `must be no more than N bytes` (the wording of `api/validate/content`: label keys, label values).
pub fn max_bytes_message(length: usize) -> String {
    format!("must be no more than {length} bytes")
}

/// `must be between LO and HI, inclusive`.
pub fn inclusive_range_message(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// `MESSAGE (e.g. 'A',  or 'B', regex used for validation is 'RE')`.
pub fn regex_message(message: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{regex}')");
    }
    let listed: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!(
        "{message} (e.g. {}regex used for validation is '{regex}')",
        listed.join(" or ")
    )
}

fn lower_alphanumeric(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
fn is_label(s: &str) -> bool {
    let b = s.as_bytes();
    match (b.first(), b.last()) {
        (Some(first), Some(last)) => {
            lower_alphanumeric(*first)
                && lower_alphanumeric(*last)
                && b.iter().all(|b| lower_alphanumeric(*b) || *b == b'-')
        }
        _ => false,
    }
}

/// `_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?`
fn is_underscore_label(s: &str) -> bool {
    let b = s.strip_prefix('_').unwrap_or(s).as_bytes();
    match (b.first(), b.last()) {
        (Some(first), Some(last)) => {
            lower_alphanumeric(*first)
                && lower_alphanumeric(*last)
                && b.iter().all(|b| lower_alphanumeric(*b) || matches!(b, b'-' | b'_'))
        }
        _ => false,
    }
}

fn is_subdomain(s: &str) -> bool {
    s.split('.').all(is_label)
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_key_name(s: &str) -> bool {
    let b = s.as_bytes();
    match (b.first(), b.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && b.iter()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        }
        _ => false,
    }
}

/// A label of DNS, RFC 1123.
pub fn dns1123_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_LABEL_MAX {
        errors.push(max_length_message(DNS1123_LABEL_MAX));
    }
    if !is_label(value) {
        errors.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            regex_message(LABEL_MESSAGE, LABEL_FORMAT, &["my-name", "123-abc"])
        });
    }
    errors
}

/// A subdomain of DNS, RFC 1123.
pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain(value, max_length_message)
}

fn subdomain(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(too_long(DNS1123_SUBDOMAIN_MAX));
    }
    if !is_subdomain(value) {
        errors.push(regex_message(SUBDOMAIN_MESSAGE, SUBDOMAIN_FORMAT, &["example.com"]));
    }
    errors
}

/// A DNS subdomain of either case (driver names of CSI and of dynamic resource allocation).
pub fn dns1123_subdomain_caseless(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_bytes_message(DNS1123_SUBDOMAIN_MAX));
    }
    if !is_subdomain(&value.to_ascii_lowercase()) {
        let message = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        errors.push(regex_message(message, SUBDOMAIN_FORMAT, &["Example.com"]));
    }
    errors
}

/// A DNS subdomain whose labels may contain underscores (search domains of a pod).
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_length_message(DNS1123_SUBDOMAIN_MAX));
    }
    if !value.split('.').all(is_underscore_label) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
        errors.push(regex_message(message, UNDERSCORE_SUBDOMAIN_FORMAT, &["example.com"]));
    }
    errors
}

/// A label of DNS, RFC 1035.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1035_LABEL_MAX {
        errors.push(max_length_message(DNS1035_LABEL_MAX));
    }
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        errors.push(regex_message(message, DNS1035_FORMAT, &["my-name", "abc-123"]));
    }
    errors
}

/// `*.` before a DNS subdomain (hosts of an Ingress).
pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_length_message(DNS1123_SUBDOMAIN_MAX));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        errors.push(regex_message(
            message,
            &format!(r"\*\.{SUBDOMAIN_FORMAT}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// A label key: an optional DNS subdomain and `/`, then a name.
pub fn qualified_name(value: &str) -> Vec<String> {
    let key_message = || regex_message(KEY_MESSAGE, KEY_FORMAT, &["MyName", "my.name", "123-abc"]);
    let mut errors = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            errors.push(format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                key_message()
            ));
            return errors;
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            errors.extend(
                subdomain(prefix, max_bytes_message)
                    .into_iter()
                    .map(|m| format!("prefix part {m}")),
            );
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_VALUE_MAX {
        errors.push(format!("name part {}", max_bytes_message(LABEL_VALUE_MAX)));
    }
    if !is_key_name(name) {
        errors.push(format!("name part {}", key_message()));
    }
    errors
}

/// A label value.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_VALUE_MAX {
        errors.push(max_bytes_message(LABEL_VALUE_MAX));
    }
    if !value.is_empty() && !is_key_name(value) {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        errors.push(regex_message(
            message,
            &format!("({KEY_FORMAT})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// An identifier of the C language.
pub fn c_identifier(value: &str) -> Vec<String> {
    let b = value.as_bytes();
    let starts = b.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    if starts && b.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        return Vec::new();
    }
    let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
    vec![regex_message(
        message,
        "[A-Za-z_][A-Za-z0-9_]*",
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// A port number.
pub fn port_num(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

/// A number within bounds.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![inclusive_range_message(low, high)]
    }
}

/// A user id.
pub fn user_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A group id.
pub fn group_id(id: i64) -> Vec<String> {
    in_range(id, 0, i64::from(i32::MAX))
}

/// A port's name (an IANA service name).
pub fn port_name(port: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let b = port.as_bytes();
    if b.len() > 15 {
        errors.push(max_length_message(15));
    }
    if b.is_empty() || !b.iter().all(|b| lower_alphanumeric(*b) || *b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !b.iter().any(u8::is_ascii_lowercase) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if port.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if port.starts_with('-') || port.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

/// A percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    let digits = value.strip_suffix('%');
    if digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit())) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_message(message, "[0-9]+%", &["1%", "93%"])]
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_message(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// The name of an environment variable, as it was required before RelaxedEnvironmentVariableValidation.
pub fn env_var_name(value: &str) -> Vec<String> {
    let ext = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let mut errors = Vec::new();
    let b = value.as_bytes();
    if !(b.first().is_some_and(|b| ext(b) && !b.is_ascii_digit()) && b.iter().all(ext)) {
        let message = "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must not start with a digit";
        let examples = ["my.env-name", "MY_ENV.NAME", "MyEnvName1"];
        errors.push(regex_message(message, "[-._a-zA-Z][-._a-zA-Z0-9]*", &examples));
    }
    errors.extend(relative_directory(value));
    errors
}

/// The name of an environment variable: printable ASCII other than `=`.
pub fn relaxed_env_var_name(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.is_empty() {
        errors.push("environment variable name must be non-empty".to_owned());
    }
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        errors.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    errors
}

/// A key of a ConfigMap or Secret.
pub fn config_map_key(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > DNS1123_SUBDOMAIN_MAX {
        errors.push(max_length_message(DNS1123_SUBDOMAIN_MAX));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if value.is_empty() || !value.bytes().all(allowed) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        errors.push(regex_message(
            message,
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    errors.extend(relative_directory(value));
    errors
}

/// What could climb out of a directory when used as a file's name.
fn relative_directory(value: &str) -> Option<String> {
    match value {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        v if v.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// A name that can be one segment of a URL's path. Neither empty names nor long ones are refused here.
pub fn path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_name_prefix(name),
    }
}

/// The beginning of a name that can be one segment of a URL's path.
pub fn path_segment_name_prefix(name: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|c| name.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// `generateName` of what must be a DNS subdomain.
pub fn dns1123_subdomain_prefix(name: &str) -> Vec<String> {
    dns1123_subdomain(&mask_trailing_dash(name))
}

/// `generateName` of what must be a DNS-1123 label.
pub fn dns1123_label_prefix(name: &str) -> Vec<String> {
    dns1123_label(&mask_trailing_dash(name))
}

/// `generateName` of what must be a DNS-1035 label.
pub fn dns1035_label_prefix(name: &str) -> Vec<String> {
    dns1035_label(&mask_trailing_dash(name))
}

/// Something follows a generated name's prefix, so a dash at its end is fine. Upstream replaces the last *two* bytes.
fn mask_trailing_dash(name: &str) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let cut = (0..rest.len()).rev().find(|i| rest.is_char_boundary(*i)).unwrap_or(0);
            format!("{}a", &rest[..cut]).into()
        }
        _ => name.into(),
    }
}

/// An integer as a person writes it: no plus sign, no leading zeros.
pub fn decimal_integer(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["must be non-empty".to_owned()];
    }
    let digits = value.strip_prefix('-').unwrap_or(value);
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && digits.starts_with(|c| ('1'..='9').contains(&c));
    if canonical || value == "0" {
        return Vec::new();
    }
    vec!["must be a valid decimal integer in canonical form".to_owned()]
}

/// A lowercase UUID.
pub fn uuid(value: &str) -> Vec<String> {
    let well_formed = value.len() == 36
        && value.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
        });
    if well_formed {
        Vec::new()
    } else {
        vec!["must be a lowercase UUID in 8-4-4-4-12 format".to_owned()]
    }
}

/// The path part of a domain-prefixed path: `[A-Za-z0-9/\-._~%!$&'()*+,;=:]+`.
pub fn http_path(value: &str) -> Vec<String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || br"/-._~%!$&'()*+,;=:".contains(&b);
    if !value.is_empty() && value.bytes().all(allowed) {
        return Vec::new();
    }
    vec![regex_message("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_fine_have_no_messages() {
        for (check, names) in [
            (dns1123_label as fn(&str) -> Vec<String>, &["a", "a-b", "0", "a1"][..]),
            (dns1123_subdomain, &["a.b", "0.1", "my-name.example.com"]),
            (dns1035_label, &["a", "a-1"]),
            (qualified_name, &["a", "A_b.c", "example.com/Name", "kubernetes.io/a-b"]),
            (label_value, &["", "A_b-c.d", "1"]),
            (wildcard_dns1123_subdomain, &["*.a.b"]),
            (c_identifier, &["_a", "A1"]),
            (port_name, &["http", "a-1"]),
            (percent, &["0%", "100%"]),
            (config_map_key, &["a.b", "_", "-"]),
            (env_var_name, &["A_b", ".a", "-"]),
            (relaxed_env_var_name, &["1 a:b", "a"]),
            (path_segment_name, &["a:b", "", "A B"]),
            (dns1123_label_prefix, &["ab-", "a"]),
            (decimal_integer, &["0", "-1", "10"]),
            (dns1123_subdomain_caseless, &["Foo.Com"]),
            (dns1123_subdomain_with_underscore, &["_tcp.example.com"]),
        ] {
            for name in names {
                assert_eq!(check(name), Vec::<String>::new(), "{name}");
            }
        }
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(
            qualified_name("a/b/c"),
            [
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ]
        );
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert_eq!(dns1123_label(&"a".repeat(64)), ["must be no more than 63 characters"]);
        assert_eq!(path_segment_name(".."), ["may not be '..'"]);
        assert_eq!(
            path_segment_name("a/b%"),
            ["may not contain '/'", "may not contain '%'"]
        );
        assert_eq!(port_num(0), ["must be between 1 and 65535, inclusive"]);
        assert_eq!(config_map_key(".."), ["must not be '..'"]);
        assert_eq!(env_var_name("1").len(), 1);
        assert_eq!(decimal_integer("01").len(), 1);
        assert_eq!(decimal_integer("-0").len(), 1);
    }

    #[test]
    fn a_trailing_dash_is_masked_as_upstream_does() {
        assert_eq!(mask_trailing_dash("ab-"), "aa");
        assert_eq!(mask_trailing_dash("-"), "-");
        assert_eq!(mask_trailing_dash("a"), "a");
        // The last two bytes are replaced, so a double dash passes unseen.
        assert_eq!(dns1123_label_prefix("a--"), Vec::<String>::new());
    }
}
