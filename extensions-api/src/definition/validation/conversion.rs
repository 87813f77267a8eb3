//! `spec.conversion`: the strategy, and where its webhook is.

use base64::Engine;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Value, names};

/// ConversionReview versions that some server understood.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const FORM: &str = "; desired format: https://host[/path]";

/// Whether the review versions are none, or name one that is understood.
pub fn reviews_are_recognized(conversion: Option<&Value>) -> bool {
    let versions = conversion
        .map(|c| c.array_at(&["conversionReviewVersions"]))
        .unwrap_or(&[]);
    versions.is_empty() || versions.iter().any(is_recognized)
}

fn is_recognized(version: &Value) -> bool {
    version.as_str().is_some_and(|v| REVIEWS.contains(&v))
}

/// Checks `spec.conversion` in internal shape.
pub fn check(conversion: &Value, must_be_recognized: bool, allow_bad_bundle: bool, errors: &mut ErrorList) {
    const PATH: &str = "spec.conversion";
    let strategy = conversion.str_at(&["strategy"]);
    match strategy {
        "" => errors.push(Error::required(format!("{PATH}.strategy"), "")),
        "None" | "Webhook" => {}
        other => errors.push(Error::not_supported(
            format!("{PATH}.strategy"),
            other,
            &["None", "Webhook"],
        )),
    }
    let client = conversion.get("webhookClientConfig").filter(|c| !c.is_null());
    let versions = conversion.array_at(&["conversionReviewVersions"]);
    let (at_client, at_versions) = (
        format!("{PATH}.webhookClientConfig"),
        format!("{PATH}.conversionReviewVersions"),
    );
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(Error::forbidden(at_client, why));
        }
        if !versions.is_empty() {
            errors.push(Error::forbidden(at_versions, why));
        }
        return;
    }
    match client {
        None => errors.push(Error::required(at_client, "required when strategy is set to Webhook")),
        Some(client) => check_client(client, &at_client, allow_bad_bundle, errors),
    }
    check_review_versions(versions, must_be_recognized, &at_versions, errors);
}

fn check_client(client: &Value, path: &str, allow_bad_bundle: bool, errors: &mut ErrorList) {
    let (url, service) = (
        client.get("url").and_then(Value::as_str),
        client.get("service").filter(|s| !s.is_null()),
    );
    match (url, service) {
        (Some(url), None) => check_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => check_service(service, &format!("{path}.service"), errors),
        _ => errors.push(Error::required(path, "exactly one of url or service is required")),
    }
    let bundle = client.str_at(&["caBundle"]);
    if !bundle.is_empty()
        && !allow_bad_bundle
        && let Some(why) = ca_bundle_problem(bundle)
    {
        errors.push(Error::invalid(format!("{path}.caBundle"), bundle, why));
    }
}

fn check_review_versions(versions: &[Value], must_be_recognized: bool, path: &str, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    let mut recognized = false;
    for (i, version) in versions.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let text = version.as_str().unwrap_or("");
        if versions[..i].contains(version) {
            errors.push(Error::invalid(at, text, "duplicate version"));
            continue;
        }
        for message in names::dns1035_label(text) {
            errors.push(Error::invalid(at.clone(), text, message));
        }
        recognized |= is_recognized(version);
    }
    if must_be_recognized && !recognized {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(Error::invalid(path, versions.to_vec(), detail));
    }
}

/// The parts of a URL that the rules look at, as Go's `url.Parse` takes them apart.
struct Url<'t> {
    scheme: String,
    user: Option<&'t str>,
    host: &'t str,
    query: &'t str,
    fragment: &'t str,
}

fn parse_url(text: &str) -> Result<Url<'_>, String> {
    let fail = |why: String| Err(format!("parse {}: {why}", triptych_object::field::quote(text)));
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return fail("net/url: invalid control character in URL".to_owned());
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    if let Some(at) = rest.find('%') {
        let escape: String = rest[at..].chars().take(3).collect();
        let is_hex = escape.len() == 3 && escape[1..].bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex {
            return fail(format!("invalid URL escape {}", triptych_object::field::quote(&escape)));
        }
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let scheme_end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')));
    let (scheme, rest) = match scheme_end {
        Some(0) if rest.starts_with(':') => return fail("missing protocol scheme".to_owned()),
        Some(end) if rest[end..].starts_with(':') && rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            (rest[..end].to_lowercase(), &rest[end + 1..])
        }
        _ => (String::new(), rest),
    };
    let authority = rest.strip_prefix("//").map(|r| r.split('/').next().unwrap_or(""));
    let (user, host) = match authority {
        Some(authority) => match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        },
        None => (None, ""),
    };
    Ok(Url {
        scheme,
        user,
        host,
        query,
        fragment,
    })
}

fn check_url(url: &str, path: &str, errors: &mut ErrorList) {
    let url = match parse_url(url) {
        Ok(url) => url,
        Err(why) => {
            errors.push(Error::required(path, format!("url must be a valid URL: {why}{FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, url.scheme.as_str(), detail));
    }
    if url.host.is_empty() {
        errors.push(Error::invalid(path, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(Error::invalid(
            path,
            user,
            "user information is not permitted in the URL",
        ));
    }
    if !url.fragment.is_empty() {
        errors.push(Error::invalid(
            path,
            url.fragment,
            "fragments are not permitted in the URL",
        ));
    }
    if !url.query.is_empty() {
        errors.push(Error::invalid(
            path,
            url.query,
            "query parameters are not permitted in the URL",
        ));
    }
}

fn check_service(service: &Value, path: &str, errors: &mut ErrorList) {
    // kube-apiserver hands name and namespace over in the wrong order
    if service.str_at(&["namespace"]).is_empty() {
        errors.push(Error::required(format!("{path}.name"), ""));
    }
    if service.str_at(&["name"]).is_empty() {
        errors.push(Error::required(format!("{path}.namespace"), ""));
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    let problems = names::port_num(port);
    if !problems.is_empty() {
        let detail = format!("port is not valid: {}", problems.join(", "));
        errors.push(Error::invalid(format!("{path}.port"), port, detail));
    }
    let Some(given) = service.get("path").and_then(Value::as_str) else {
        return;
    };
    let at = format!("{path}.path");
    match given {
        "" | "/" => return,
        "//" => {
            errors.push(Error::invalid(at, given, "segment[0] may not be empty"));
            return;
        }
        _ => {}
    }
    if !given.starts_with('/') {
        errors.push(Error::invalid(at.clone(), given, "must start with a '/'"));
    }
    let mut chars = given.chars();
    chars.next();
    let rest = chars.as_str();
    for (i, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.push(Error::invalid(
                at.clone(),
                given,
                format!("segment[{i}] may not be empty"),
            ));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errors.push(Error::invalid(at.clone(), given, format!("segment[{i}]: {message}")));
        }
    }
}

/// Why a base64-encoded bundle holds no certificates.
pub fn ca_bundle_problem(bundle: &str) -> Option<String> {
    let wrong = |why: &str| Some(format!("unable to load root certificates: {why}"));
    let Ok(pem) = base64::engine::general_purpose::STANDARD.decode(bundle) else {
        return wrong("unable to parse bytes as PEM block");
    };
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let mut found = false;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        match certificate {
            Ok(_) => found = true,
            Err(_) => return wrong("unable to parse bytes as PEM block"),
        }
    }
    if found {
        None
    } else {
        wrong("unable to parse bytes as PEM block")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_webhooks_are_https_to_a_host_and_nothing_else() {
        let check = |url: &str| {
            let mut errors = ErrorList::new();
            check_url(url, "u", &mut errors);
            errors.aggregate()
        };
        assert_eq!(check("https://a.b/c"), "");
        assert_eq!(
            check("https://u:p@a.b/"),
            "u: Invalid value: \"u:p\": user information is not permitted in the URL"
        );
        assert_eq!(
            check("%"),
            "u: Required value: url must be a valid URL: parse \"%\": invalid URL escape \"%\"; desired format: https://host[/path]"
        );
    }
}
