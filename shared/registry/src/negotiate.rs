//! Content negotiation: which media type an answer takes and which a body has, with kube-apiserver's refusals.
//!
//! Contract: clauses of `Accept` are tried in order of quality, then as written; parameters `as`, `g`, `v` ask for a
//! transformation (Table, PartialObjectMetadata), `stream` for a watch's framing; unknown parameters are ignored.
//! Built-in resources are first judged as go-restful judges them (another text), custom resources are not.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use triptych_object::request::param;
use triptych_object::{Status, StatusResult};

/// How a document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Yaml => "application/yaml",
            Format::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn subtype(self) -> &'static str {
        &self.media_type()["application/".len()..]
    }
}

/// What an answer is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    /// The object or list itself.
    None,
    /// `Table` of meta.k8s.io, version `v1` or `v1beta1`.
    Table(&'static str),
    /// `PartialObjectMetadata` of that version.
    Partial(&'static str),
    /// `PartialObjectMetadataList` of that version.
    PartialList(&'static str),
}

/// A negotiated answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// How it is written.
    pub format: Format,
    /// What it is turned into.
    pub transform: Transform,
    /// JSON is indented (asked for with `pretty`, or by a browser or curl).
    pub pretty: bool,
    /// The clause said `stream=watch`.
    pub stream: bool,
}

/// What an endpoint can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// In the order refusals list them.
    pub formats: &'static [Format],
    /// Tables can be had.
    pub tables: bool,
    /// PartialObjectMetadata can be had.
    pub partial: bool,
}

/// Everything a built-in resource writes.
pub const BUILT_IN: Offer = Offer {
    formats: &[Format::Json, Format::Yaml, Format::Protobuf],
    tables: true,
    partial: true,
};
/// What a custom resource writes; protobuf only of its metadata, tables and lists thereof.
pub const CUSTOM: Offer = Offer {
    formats: &[Format::Json, Format::Yaml],
    tables: true,
    partial: true,
};
/// What a `Status` is written as.
pub const STATUS: Offer = Offer {
    tables: false,
    partial: false,
    ..BUILT_IN
};

struct Clause<'a> {
    kind: &'a str,
    subtype: &'a str,
    quality: f32,
    params: Vec<(&'a str, &'a str)>,
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut out: Vec<Clause<'_>> = header
        .split(',')
        .take(64)
        .filter_map(|part| {
            let mut pieces = part.split(';');
            let range = pieces.next()?.trim();
            let (kind, subtype) = match range.split_once('/') {
                Some((k, s)) => (k.trim(), s.trim()),
                None if range == "*" => ("*", "*"),
                None => return None,
            };
            let mut quality = 1.0;
            let mut params = Vec::new();
            for piece in pieces {
                let (k, v) = piece
                    .split_once('=')
                    .map(|(k, v)| (k.trim(), v.trim()))
                    .unwrap_or((piece.trim(), ""));
                if k == "q" {
                    quality = v.parse().unwrap_or(1.0)
                } else {
                    params.push((k, v))
                }
            }
            Some(Clause {
                kind,
                subtype,
                quality,
                params,
            })
        })
        .collect();
    out.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    out
}

/// Chooses the answer's form, or says what can be had.
pub fn output(headers: &HeaderMap, query: &str, offer: Offer) -> StatusResult<Output> {
    let header = accept(headers);
    choose(&header, offer)
        .map(|mut chosen| {
            chosen.pretty |= pretty(headers, query);
            chosen
        })
        .ok_or_else(|| not_acceptable(offer.formats))
}

/// The 406 that lists `formats`.
pub fn not_acceptable(formats: &[Format]) -> Box<Status> {
    Status::not_acceptable(format!(
        "only the following media types are accepted: {}",
        list(formats)
    ))
}

/// The 406 of a watch, which lists stream types.
pub fn stream_not_acceptable(formats: &[Format]) -> Box<Status> {
    Status::not_acceptable(format!(
        "only the following media types are accepted: {}",
        streams(formats)
    ))
}

fn list(formats: &[Format]) -> String {
    formats.iter().map(|f| f.media_type()).collect::<Vec<_>>().join(", ")
}

fn streams(formats: &[Format]) -> String {
    let streaming = formats.iter().filter(|f| **f != Format::Yaml);
    streaming
        .map(|f| format!("{};stream=watch", f.media_type()))
        .collect::<Vec<_>>()
        .join(", ")
}

/// All `Accept` headers as one, empty if there is none.
pub fn accept(headers: &HeaderMap) -> String {
    headers
        .get(ACCEPT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("")
        .to_owned()
}

fn choose(header: &str, offer: Offer) -> Option<Output> {
    let plain = Output {
        format: *offer.formats.first()?,
        transform: Transform::None,
        pretty: false,
        stream: false,
    };
    if header.is_empty() || header == "*/*" || header == "application/json" && plain.format == Format::Json {
        return Some(plain);
    }
    for clause in clauses(header) {
        for &format in offer.formats {
            let fits = clause.kind == "*" && clause.subtype == "*"
                || clause.kind == "application" && (clause.subtype == "*" || clause.subtype == format.subtype());
            if fits && let Some(output) = with_params(&clause, format, offer) {
                return Some(output);
            }
        }
        // the metadata of what cannot be protobuf can
        let protobuf = Format::Protobuf;
        if !offer.formats.contains(&protobuf)
            && clause.kind == "application"
            && clause.subtype == protobuf.subtype()
            && let Some(output) = with_params(&clause, protobuf, offer)
            && matches!(output.transform, Transform::Partial(_) | Transform::PartialList(_))
        {
            return Some(output);
        }
    }
    None
}

fn with_params(clause: &Clause<'_>, format: Format, offer: Offer) -> Option<Output> {
    let mut output = Output {
        format,
        transform: Transform::None,
        pretty: false,
        stream: false,
    };
    let (mut kind, mut group, mut version, mut converts) = ("", "", "", false);
    for &(key, value) in &clause.params {
        match key {
            "as" => (kind, converts) = (value, true),
            "g" => (group, converts) = (value, true),
            "v" => (version, converts) = (value, true),
            "stream" if !value.is_empty() => {
                if format == Format::Yaml || value != "watch" {
                    return None;
                }
                output.stream = true;
            }
            "sv" if !value.is_empty() => return None,
            "pretty" => output.pretty = value == "1",
            _ => {}
        }
    }
    if converts {
        let version = match version {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => return None,
        };
        if group != "meta.k8s.io" {
            return None;
        }
        output.transform = match kind {
            // a Table's cells are JSON, protobuf has no message for it
            "Table" if offer.tables && format != Format::Protobuf => Transform::Table(version),
            "PartialObjectMetadata" if offer.partial => Transform::Partial(version),
            "PartialObjectMetadataList" if offer.partial => Transform::PartialList(version),
            _ => return None,
        };
    }
    Some(output)
}

/// True if the client gets indented JSON.
pub fn pretty(headers: &HeaderMap, query: &str) -> bool {
    if query.contains("pretty")
        && let Some(value) = param(query, "pretty").filter(|v| !v.is_empty())
    {
        return matches!(value.as_str(), "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or("");
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|a| agent.starts_with(a))
}

/// go-restful's verdict on `Accept`: the media types alone, without parameters; its text on refusal.
pub fn routed(headers: &HeaderMap, streams_too: bool) -> StatusResult<()> {
    let header = accept(headers);
    if header.is_empty() || header == "application/json" || header == "*/*" {
        return Ok(());
    }
    let fits = header.split(',').any(|part| {
        let range = part.split(';').next().unwrap_or("").trim();
        range == "*/*" || BUILT_IN.formats.iter().any(|f| f.media_type() == range)
    });
    if fits {
        return Ok(());
    }
    let mut available = list(BUILT_IN.formats);
    if streams_too {
        available = format!("{available}, {}", streams(BUILT_IN.formats));
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
    Err(Status::not_acceptable(message).with_details(Some(Default::default())))
}

/// The media type of a body without its parameters, lower case; empty if there is none.
pub fn content_type(headers: &HeaderMap) -> String {
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    header.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// The format of a body, JSON if nothing is said; refused with what is understood.
pub fn input(headers: &HeaderMap, formats: &[Format]) -> StatusResult<Format> {
    let kind = content_type(headers);
    if headers.get(CONTENT_TYPE).is_none_or(|v| v.is_empty()) {
        return Ok(Format::Json);
    }
    let header = headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let mut known = formats.iter().copied().filter(|_| has_proper_params(header));
    known.find(|f| f.media_type() == kind).ok_or_else(|| {
        Status::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            list(formats)
        ))
    })
}

/// Whether what follows the media type is `; token=value` as Go's mime package reads it: each name once, a value a token
/// or quoted, a last semicolon ignored.
fn has_proper_params(header: &str) -> bool {
    let token = |text: &str| {
        let special = |c: char| !c.is_ascii_graphic() || "()<>@,;:\\\"/[]?=".contains(c);
        text.find(special).unwrap_or(text.len())
    };
    let Some(start) = header.find(';') else { return true };
    let mut rest = header[start..].trim_start();
    let mut names = Vec::new();
    while let Some(param) = rest.strip_prefix(';') {
        if param.trim().is_empty() {
            return true;
        }
        let param = param.trim_start();
        let (name, after) = param.split_at(token(param));
        let name = name.to_ascii_lowercase();
        let Some(value) = after.trim_start().strip_prefix('=').map(str::trim_start) else {
            return false;
        };
        if name.is_empty() || names.contains(&name) {
            return false;
        }
        names.push(name);
        let end = if value.starts_with('"') {
            quoted_length(value)
        } else {
            Some(token(value)).filter(|length| *length > 0)
        };
        let Some(end) = end else { return false };
        rest = value[end..].trim_start();
    }
    rest.is_empty()
}

/// Bytes of the quoted string that a text begins with; `None` if it does not end.
fn quoted_length(text: &str) -> Option<usize> {
    let mut escaped = true; // the opening quote is none
    text.char_indices().find_map(|(i, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(i + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_content_type_must_be_names_with_values() {
        for (header, proper) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("application/json;", true),
            ("application/json; a=\"x;\\\"y\"; b=c", true),
            ("application/json;foo", false),
            ("application/json;a=1;A=2", false),
            ("application/json;=x", false),
            ("application/json;a=\"x", false),
            ("application/json;a=1 b", false),
        ] {
            assert_eq!(has_proper_params(header), proper, "{header}");
        }
    }

    fn accepting(value: &str) -> HeaderMap {
        [(ACCEPT, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn kubectls_accept_header_gives_a_table() {
        let h = accepting(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        );
        assert_eq!(output(&h, "", BUILT_IN).unwrap().transform, Transform::Table("v1"));
        let without = Offer {
            tables: false,
            ..BUILT_IN
        };
        assert_eq!(output(&h, "", without).unwrap().transform, Transform::None);
    }

    #[test]
    fn quality_decides_before_order() {
        let h = accepting("application/yaml;q=0.5, application/vnd.kubernetes.protobuf");
        assert_eq!(output(&h, "", BUILT_IN).unwrap().format, Format::Protobuf);
        assert_eq!(output(&h, "", CUSTOM).unwrap().format, Format::Yaml);
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_what_can() {
        let h = accepting("application/vnd.kubernetes.protobuf;as=Nope");
        let e = output(&h, "", BUILT_IN).unwrap_err();
        assert_eq!(
            e.message,
            "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
        );
        let e = routed(&accepting("text/html"), false).unwrap_err();
        assert!(
            e.message
                .starts_with("406: Not Acceptable\n\nAvailable representations: application/json,")
        );
    }
}
