//! How operations are called: their ids and tags, and the words of their descriptions.

/// Verbs that operations start with; the first that fits counts, so that `deletecollection` gives `delete…Collection…`.
const VERBS: [&str; 10] = [
    "get", "read", "replace", "patch", "delete", "watch", "connect", "list", "create", "log",
];

/// The operation id of `operation`, which starts with a verb, and the tag it goes under.
pub fn operation_id_and_tag(operation: &str, path: &str) -> (String, String) {
    let verb = VERBS
        .iter()
        .find(|v| operation.starts_with(**v))
        .copied()
        .unwrap_or_default();
    let mut id = verb.to_owned();
    let mut parts = path.trim_matches('/').split('/');
    let tag = match (parts.next(), parts.next(), parts.next()) {
        (Some("api"), version, _) => {
            id.push_str("Core");
            match version {
                Some(version) => {
                    id.push_str(&identifier(version, true));
                    format!("core_{}", identifier(version, false))
                }
                None => "core".into(),
            }
        }
        (Some("apis"), Some(group), version) => {
            let group = group.strip_suffix(".k8s.io").unwrap_or(group);
            id.push_str(&identifier(group, true));
            let mut tag = identifier(group, false);
            if let Some(version) = version {
                id.push_str(&identifier(version, true));
                tag = format!("{tag}_{}", identifier(version, false));
            }
            tag
        }
        (first, ..) => identifier(first.unwrap_or_default(), false),
    };
    id.push_str(&identifier(&operation[verb.len()..], !id.is_empty()));
    (id, tag)
}

/// Letters, digits and `_` only, in camel case.
fn identifier(text: &str, mut upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.chars().enumerate() {
        if !(c.is_alphabetic() || c == '_' || i != 0 && c.is_numeric()) {
            upper = true;
        } else if std::mem::take(&mut upper) {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
    }
    out
}

/// The word with its first letter in upper case, all others in lower case.
pub fn title(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars.flat_map(char::to_lowercase)).collect())
        .unwrap_or_default()
}

/// ` a ` or ` an `, nothing but a blank for a plural.
pub fn article(noun: &str) -> &'static str {
    let plural = noun.ends_with('s') && !noun.ends_with("ss");
    let vowel = noun.starts_with(['a', 'e', 'i', 'o', 'u', 'A', 'E', 'I', 'O', 'U']);
    match (plural, vowel) {
        (true, _) => " ",
        (_, true) => " an ",
        _ => " a ",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operation_ids_carry_verb_group_and_version() {
        let (id, tag) = operation_id_and_tag("deletecollectionNamespacedPod", "/api/v1/namespaces/{namespace}/pods");
        assert_eq!((&*id, &*tag), ("deleteCoreV1CollectionNamespacedPod", "core_v1"));
        let (id, tag) = operation_id_and_tag("getAPIGroup", "/apis/rbac.authorization.k8s.io/");
        assert_eq!((&*id, &*tag), ("getRbacAuthorizationAPIGroup", "rbacAuthorization"));
        let (id, tag) = operation_id_and_tag("getAPIVersions", "/apis/");
        assert_eq!((&*id, &*tag), ("getAPIVersions", "apis"));
        let (id, tag) = operation_id_and_tag("getAPIVersions", "/api/");
        assert_eq!((&*id, &*tag), ("getCoreAPIVersions", "core"));
    }

    #[test]
    fn articles_follow_the_noun() {
        assert_eq!(article("Ingress"), " an ");
        assert_eq!(article("Endpoints"), " ");
        assert_eq!(article("Pod"), " a ");
    }
}
