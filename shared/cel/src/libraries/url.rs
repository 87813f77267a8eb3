//! `url(…)`: addresses as Go's `net/url` takes them apart.
//!
//! Contract: what `url.ParseRequestURI` accepts, an absolute URL or an absolute path, without a fragment.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use triptych_object::duration::quote;

use super::Extension;
use super::standard::texts;
use crate::error::EvalError;
use crate::value::{Built, Found, Map, Value};

/// An address.
#[derive(Clone, Debug, Default)]
pub struct Url {
    text: String,
    scheme: String,
    host: String,
    path: String,
    query: String,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is wrong with a request URI, with Go's text.
pub fn request_uri(text: &str) -> Result<Url, String> {
    parse(text).map_err(|why| format!("parse {}: {why}", quote(text)))
}

fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse(text: &str) -> Result<Url, String> {
    if text.chars().any(|c| c.is_ascii_control()) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() {
        return Err("empty url".to_owned());
    }
    if text == "*" {
        return Ok(Url {
            text: text.to_owned(),
            path: "*".to_owned(),
            ..Url::default()
        });
    }
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, query),
        None => (rest, ""),
    };
    let mut url = Url {
        text: text.to_owned(),
        scheme: scheme.to_lowercase(),
        // The second parse of the library, which knows fragments, cuts them off.
        query: query.split('#').next().unwrap_or_default().to_owned(),
        ..Url::default()
    };
    if !rest.starts_with('/') {
        return match scheme.is_empty() {
            true => Err("invalid URI for request".to_owned()),
            // rootless: opaque
            false => Ok(url),
        };
    }
    let mut path = rest;
    if let Some(authority) = rest
        .strip_prefix("//")
        .filter(|_| !scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = authority.find('/').unwrap_or(authority.len());
        url.host = host(&authority[..end])?;
        path = &authority[end..];
    }
    check_escapes(path)?;
    url.path = path.split('#').next().unwrap_or_default().to_owned();
    Ok(url)
}

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (i, _) in text.match_indices('%') {
        let hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        if !hex(i + 1) || !hex(i + 2) {
            let bad: String = text[i..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", quote(&bad)));
        }
    }
    Ok(())
}

fn host(authority: &str) -> Result<String, String> {
    let host = match authority.rsplit_once('@') {
        Some((user, host)) => {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
            if !user.chars().all(valid) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            host
        }
        None => authority,
    };
    let port = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, after)) = rest.split_once(']') else {
                return Err("missing ']' in host".to_owned());
            };
            let _ = address;
            after
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = |port: &str| {
        port.strip_prefix(':')
            .is_some_and(|p| p.bytes().all(|b| b.is_ascii_digit()))
    };
    if !port.is_empty() && !digits(port) {
        return Err(format!("invalid port {} after host", quote(port)));
    }
    let strange = |c: char| !c.is_ascii_alphanumeric() && c.is_ascii() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    if let Some(c) = host.chars().find(|c| strange(*c)) {
        return Err(format!("invalid character {} in host name", quote(&c.to_string())));
    }
    check_escapes(host)?;
    Ok(host.to_owned())
}

impl Url {
    fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.host.rsplit_once(':').map_or(&self.host, |(host, _)| host),
        }
    }

    fn port(&self) -> &str {
        let after = self
            .host
            .rsplit_once(']')
            .map_or(self.host.as_str(), |(_, after)| after);
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    fn escaped_path(&self) -> String {
        let kept = |b: u8| b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&b);
        let mut out = String::with_capacity(self.path.len());
        for b in self.path.bytes() {
            match kept(b) {
                true => out.push(b as char),
                false => out.push_str(&format!("%{b:02X}")),
            }
        }
        out
    }

    fn query(&self) -> BTreeMap<String, Vec<String>> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
                found.entry(key).or_default().push(value);
            }
        }
        found
    }
}

fn unescape(text: &str) -> Option<String> {
    check_escapes(text).ok()?;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(b) = rest.next() {
        bytes.push(match b {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<u8>| (b? as char).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    match (function, args) {
        ("url", [Value::String(text)]) => {
            let made = request_uri(text).map(|url| Value::Extension(Extension::Url(Arc::new(url))));
            let prefix = "URL parse error during conversion from string";
            return Some(made.map_err(|e| EvalError::new(format!("{prefix}: {e}"))));
        }
        ("isURL", [Value::String(text)]) => return Some(Ok(Value::Bool(request_uri(text).is_ok()))),
        _ => {}
    }
    let [Value::Extension(Extension::Url(url))] = args else {
        return None;
    };
    Some(Ok(match function {
        "getScheme" => Value::string(url.scheme.as_str()),
        "getHost" => Value::string(url.host.as_str()),
        "getHostname" => Value::string(url.hostname()),
        "getPort" => Value::string(url.port()),
        "getEscapedPath" => Value::string(url.escaped_path()),
        "getQuery" => {
            let mut built = Built::default();
            for (key, values) in url.query() {
                if let Err(e) = built.insert(Value::string(key), texts(values)) {
                    return Some(Err(e));
                }
            }
            Value::Map(Map::new(built))
        }
        _ => return None,
    }))
}
