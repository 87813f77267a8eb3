//! Which discovery document a client asks for: the aggregated one or the plain one.

use crate::negotiate::Format;

/// What parameters of a media type ask for aggregated discovery, as answers spell them.
pub const AGGREGATED_PARAMETERS: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The form in which a client wants the aggregated document, if it wants that one at all: the first clause of `Accept`
/// (by quality) that names `APIGroupDiscoveryList` of version v2 in a media type we write. Anything else is plain
/// discovery's business, a refusal included.
pub fn aggregated(accept: &str) -> Option<Format> {
    let mut best: Option<(f32, Format)> = None;
    for clause in accept.split(',').take(64) {
        let mut pieces = clause.split(';').map(str::trim);
        let Some(format) = pieces.next().and_then(format) else {
            continue;
        };
        let (mut quality, mut group, mut version, mut kind) = (1.0, "", "", "");
        for (name, value) in pieces.filter_map(|p| p.split_once('=')) {
            match name.trim() {
                "q" => quality = value.trim().parse().unwrap_or(1.0),
                "g" => group = value.trim(),
                "v" => version = value.trim(),
                "as" => kind = value.trim(),
                _ => {}
            }
        }
        let asked = (group, version, kind) == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList");
        if asked && best.is_none_or(|(q, _)| quality > q) {
            best = Some((quality, format));
        }
    }
    best.map(|(_, format)| format)
}

fn format(range: &str) -> Option<Format> {
    match range {
        "application/json" | "application/*" | "*/*" => Some(Format::Json),
        "application/yaml" => Some(Format::Yaml),
        "application/vnd.kubernetes.protobuf" => Some(Format::Protobuf),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_clause_for_the_aggregated_form_is_enough() {
        let clause = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert_eq!(aggregated(clause), Some(Format::Json));
        assert_eq!(
            aggregated(&format!("application/json;q=0.9,{clause};q=1")),
            Some(Format::Json)
        );
        assert_eq!(
            aggregated(&format!("application/json, {clause};q=0.1")),
            Some(Format::Json)
        );
    }

    #[test]
    fn the_beta_form_and_plain_types_are_not_aggregated() {
        assert_eq!(
            aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"),
            None
        );
        assert_eq!(aggregated("application/json"), None);
        assert_eq!(aggregated(""), None);
    }
}
