//! How Kubernetes orders API versions by name: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then everything else.

use std::cmp::Ordering;

/// A version's rank: generally available above beta above alpha, then the numbers.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let (major, rest) = number(version.strip_prefix('v')?)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stage, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, rest.strip_prefix("alpha")?),
    };
    match number(minor)? {
        (minor, "") => Some((stage, major, minor)),
        _ => None,
    }
}

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Orders the version that comes first in discovery first: highest stage, then highest numbers; names that are no
/// Kubernetes version come last, in alphabetical order.
pub fn compare_kube_aware(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_come_in_the_order_of_the_documentation() {
        let mut versions = [
            "foo10",
            "v11alpha2",
            "v1",
            "foo1",
            "v10",
            "v3beta1",
            "v12alpha1",
            "v2",
            "v11beta2",
            "v10beta3",
        ];
        versions.sort_by(|a, b| compare_kube_aware(a, b));
        assert_eq!(
            versions,
            [
                "v10",
                "v2",
                "v1",
                "v11beta2",
                "v10beta3",
                "v3beta1",
                "v12alpha1",
                "v11alpha2",
                "foo1",
                "foo10"
            ]
        );
    }

    #[test]
    fn a_missing_number_makes_it_an_ordinary_name() {
        assert_eq!(compare_kube_aware("v1beta", "v1alpha1"), Ordering::Greater);
        assert_eq!(compare_kube_aware("v", "v1alpha1"), Ordering::Greater);
    }
}
