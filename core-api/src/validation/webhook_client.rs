//! Where a webhook is reached: a URL or a Service (k8s.io/apiserver/pkg/util/webhook/validation).

use triptych_object::field::quote;
use triptych_object::names;

use super::Cursor;

/// What Go's `url.Parse` makes of a URL, as far as webhooks care.
#[derive(Debug, Default, PartialEq, Eq)]
struct Url<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

/// A webhook's `url`.
pub fn url(c: Cursor<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match parse(c.str()) {
        Ok(url) => url,
        Err(why) => {
            let why = format!("parse {}: {why}", quote(c.str()));
            return c.required(format!("url must be a valid URL: {why}{FORM}"));
        }
    };
    if url.scheme != "https" {
        c.invalid(
            url.scheme.as_str(),
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if url.host.is_empty() {
        c.invalid(url.host, format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        c.invalid(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        c.invalid(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        c.invalid(url.query, "query parameters are not permitted in the URL");
    }
}

/// A webhook's `service`. kube-apiserver mixes up the two names in what it reports.
pub fn service(c: Cursor<'_>) {
    if c.str_of("namespace").is_empty() {
        c.field("name").required("");
    }
    if c.str_of("name").is_empty() {
        c.field("namespace").required("");
    }
    let port = c.field("port");
    let wrong = names::port_num(port.int());
    if !wrong.is_empty() {
        port.invalid(port.int(), format!("port is not valid: {}", wrong.join(", ")));
    }
    if let Some(path) = c.given("path") {
        service_path(path);
    }
}

fn service_path(c: Cursor<'_>) {
    let path = c.str();
    match path {
        "" | "/" => return,
        "//" => return c.invalid(path, "segment[0] may not be empty"),
        _ => {}
    }
    if !path.starts_with('/') {
        c.invalid(path, "must start with a '/'");
    }
    // whatever the first character is
    let rest = path.chars().next().map_or("", |first| &path[first.len_utf8()..]);
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (i, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            c.invalid(path, format!("segment[{i}] may not be empty"));
            continue;
        }
        for failure in names::dns1123_subdomain(step) {
            c.invalid(path, format!("segment[{i}]: {failure}"));
        }
    }
}

fn parse(text: &str) -> Result<Url<'_>, String> {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    if text.bytes().any(|b| b < b' ' || b == 0x7f) {
        return Err("net/url: invalid control character in URL".into());
    }
    let mut url = Url {
        fragment,
        ..Url::default()
    };
    let mut rest = text;
    if let Some((scheme, after)) = scheme(text)? {
        url.scheme = scheme.to_ascii_lowercase();
        rest = after;
    }
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    url.query = query;
    rest = path;
    if !rest.starts_with('/') {
        let first = rest.split('/').next().unwrap_or("");
        if url.scheme.is_empty() && first.contains(':') {
            return Err("first path segment in URL cannot contain colon".into());
        }
        if !url.scheme.is_empty() {
            return Ok(url);
        }
    }
    if let Some(authority) = rest.strip_prefix("//")
        && (!url.scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at(end);
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                url.user = Some(user);
                host
            }
            None => authority,
        };
        check_host(host)?;
        url.host = host;
        rest = path;
    }
    check_escapes(rest)?;
    Ok(url)
}

/// What stands before the first colon, if it can be a scheme, and what follows.
fn scheme(text: &str) -> Result<Option<(&str, &str)>, String> {
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok(Some((&text[..i], &text[i + 1..]))),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.rfind(':').map_or("", |i| &host[i..])
    };
    let digits = port.strip_prefix(':');
    if !port.is_empty() && !digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit())) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    check_escapes(host)?;
    let allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|c| !allowed(*c)) {
        Some(c) => Err(format!("invalid character {} in host name", quote(&c.to_string()))),
        None => Ok(()),
    }
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (i, _) in text.match_indices('%') {
        let escape = text.as_bytes().get(i + 1..i + 3);
        if !escape.is_some_and(|e| e.iter().all(u8::is_ascii_hexdigit)) {
            let shown: String = text[i..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&shown)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_go_reads_them() {
        let url = parse("HTTPS://me@example.com:8443/a?b=c#d").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host, url.user),
            ("https", "example.com:8443", Some("me"))
        );
        assert_eq!((url.query, url.fragment), ("b=c", "d"));
        assert_eq!(parse("example.com/x").unwrap(), Url::default());
        for (text, why) in [
            (":x", "missing protocol scheme"),
            ("https://a b/", "invalid character \" \" in host name"),
            ("https://a:b/", "invalid port \":b\" after host"),
            ("https://a/%zz", "invalid URL escape \"%zz\""),
            ("1a:b", "first path segment in URL cannot contain colon"),
        ] {
            assert_eq!(parse(text), Err(why.to_owned()), "{text}");
        }
    }
}
