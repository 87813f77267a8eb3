//! Everything discovery answers at one moment, rendered once.
//!
//! A tier gathers an [`Entry`] per group-version (its own, the next tier's, those of APIServices) and swaps in a new
//! snapshot when one changed. Resources stay JSON text from where they were described to the answer, so that thousands
//! of CRDs cost their bytes and no trees. ETags are hashes of content: they change only with it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest, Sha512};
use triptych_object::version::compare_kube_aware;
use triptych_object::{Value, json};

use super::documents;
use super::priority::Priority;

/// Whether a group-version's resources are known to be today's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Read successfully the last time.
    Current,
    /// The server behind it could not be asked.
    Stale,
}

impl Freshness {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Freshness::Current => "Current",
            Freshness::Stale => "Stale",
        }
    }
}

/// Where a group-version shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// In both forms of discovery.
    Everywhere,
    /// Only in aggregated discovery: no APIService names it (yet).
    Aggregated,
}

/// One group-version.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// API group, empty for the core group.
    pub group: Arc<str>,
    /// API version.
    pub version: Arc<str>,
    /// Where it stands.
    pub priority: Priority,
    /// Where it shows.
    pub listing: Listing,
    /// Whether `resources` are today's.
    pub freshness: Freshness,
    /// JSON text of the list of APIResourceDiscovery; empty when nothing is known.
    pub resources: Bytes,
}

impl Entry {
    /// A current entry shown everywhere.
    pub fn current(group: &str, version: &str, resources: &Value) -> Entry {
        Entry {
            group: group.into(),
            version: version.into(),
            priority: Priority::of(group, version),
            listing: Listing::Everywhere,
            freshness: Freshness::Current,
            resources: json::to_vec(resources).into(),
        }
    }
}

/// A rendered document with its ETag, quotes included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tagged {
    /// JSON.
    pub body: Bytes,
    /// `"<SHA-512 in upper-case hexadecimal>"`.
    pub etag: String,
}

impl Tagged {
    fn new(body: Bytes) -> Tagged {
        let etag = etag(&body);
        Tagged { body, etag }
    }
}

/// The quoted ETag of a content.
pub fn etag(content: &[u8]) -> String {
    format!("\"{}\"", hex(content))
}

/// SHA-512 in upper-case hexadecimal, as discovery and OpenAPI name their contents.
pub fn hex(content: &[u8]) -> String {
    use std::fmt::Write;
    Sha512::digest(content)
        .iter()
        .fold(String::with_capacity(128), |mut out, byte| {
            let _ = write!(out, "{byte:02X}");
            out
        })
}

/// What discovery answers until the next change.
#[derive(Debug, Default)]
pub struct Snapshot {
    entries: Vec<Entry>,
    aggregated_api: Tagged,
    aggregated_apis: Tagged,
    group_list: Bytes,
    groups: BTreeMap<Arc<str>, Bytes>,
}

impl Snapshot {
    /// Orders and renders the entries. Of two for the same group-version the first stands.
    pub fn new(entries: impl IntoIterator<Item = Entry>) -> Snapshot {
        let entries = ordered(entries);
        let (core, named): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|e| e.group.is_empty());
        let (group_list, groups) = plain(&named);
        Snapshot {
            aggregated_api: Tagged::new(aggregated(&core)),
            aggregated_apis: Tagged::new(aggregated(&named)),
            group_list,
            groups,
            entries,
        }
    }

    /// Group-versions in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether the group-version is there.
    pub fn entry(&self, group: &str, version: &str) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|e| &*e.group == group && &*e.version == version)
    }

    /// `/api`, aggregated.
    pub fn aggregated_api(&self) -> &Tagged {
        &self.aggregated_api
    }

    /// `/apis`, aggregated.
    pub fn aggregated_apis(&self) -> &Tagged {
        &self.aggregated_apis
    }

    /// `/apis`, plain.
    pub fn group_list(&self) -> &Bytes {
        &self.group_list
    }

    /// `/apis/<group>`, if there is such a group.
    pub fn group(&self, group: &str) -> Option<&Bytes> {
        self.groups.get(group)
    }

    /// Reads back what another tier's aggregated document says. Priorities are those of [`Priority::of`].
    pub fn read(document: &Value) -> Vec<Entry> {
        let mut entries = Vec::new();
        for group in document.array_at(&["items"]) {
            let name: Arc<str> = group.str_at(&["metadata", "name"]).into();
            for version in group.array_at(&["versions"]) {
                let number = version.str_at(&["version"]);
                entries.push(Entry {
                    group: Arc::clone(&name),
                    version: number.into(),
                    priority: Priority::of(&name, number),
                    listing: Listing::Everywhere,
                    freshness: match version.str_at(&["freshness"]) {
                        "Stale" => Freshness::Stale,
                        _ => Freshness::Current,
                    },
                    resources: version
                        .get("resources")
                        .map_or_else(Bytes::new, |r| json::to_vec(r).into()),
                });
            }
        }
        entries
    }
}

fn ordered(entries: impl IntoIterator<Item = Entry>) -> Vec<Entry> {
    let mut seen = HashSet::new();
    let mut entries: Vec<Entry> = entries
        .into_iter()
        .filter(|e| seen.insert((Arc::clone(&e.group), Arc::clone(&e.version))))
        .collect();
    let mut standing: BTreeMap<Arc<str>, i32> = BTreeMap::new();
    for e in &entries {
        let highest = standing.entry(Arc::clone(&e.group)).or_insert(i32::MIN);
        *highest = (*highest).max(e.priority.group);
    }
    let of = |e: &Entry| standing.get(&e.group).copied().unwrap_or_default();
    entries.sort_by(|a, b| {
        of(b)
            .cmp(&of(a))
            .then_with(|| a.group.cmp(&b.group))
            .then_with(|| within_group(a, b))
    });
    entries
}

fn within_group(a: &Entry, b: &Entry) -> Ordering {
    b.priority
        .version
        .cmp(&a.priority.version)
        .then_with(|| compare_kube_aware(&a.version, &b.version))
}

/// Concatenates the texts of the entries, which are in order.
fn aggregated(entries: &[&Entry]) -> Bytes {
    let size = entries.iter().map(|e| e.resources.len() + 120).sum::<usize>();
    let mut out = BytesMut::with_capacity(size + 100);
    out.put_slice(br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#);
    for (i, group) in entries.chunk_by(|a, b| a.group == b.group).enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        out.put_slice(br#"{"metadata":{"#);
        if !group[0].group.is_empty() {
            put_member(&mut out, "name", &group[0].group);
        }
        out.put_slice(br#"},"versions":["#);
        for (i, entry) in group.iter().enumerate() {
            out.put_slice(if i > 0 { b",{" } else { b"{" });
            put_member(&mut out, "version", &entry.version);
            if !entry.resources.is_empty() && entry.resources != "[]" {
                out.put_slice(br#","resources":"#);
                out.put_slice(&entry.resources);
            }
            out.put_u8(b',');
            put_member(&mut out, "freshness", entry.freshness.as_str());
            out.put_u8(b'}');
        }
        out.put_slice(b"]}");
    }
    out.put_slice(b"]}");
    out.freeze()
}

fn put_member(out: &mut BytesMut, name: &str, value: &str) {
    let mut text = Vec::with_capacity(name.len() + value.len() + 5);
    json::write_string(&mut text, name);
    text.push(b':');
    json::write_string(&mut text, value);
    out.put_slice(&text);
}

fn plain(entries: &[&Entry]) -> (Bytes, BTreeMap<Arc<str>, Bytes>) {
    let (mut list, mut groups) = (Vec::new(), BTreeMap::new());
    for group in entries.chunk_by(|a, b| a.group == b.group) {
        let listed = group.iter().filter(|e| e.listing == Listing::Everywhere);
        let versions: Vec<&str> = listed.map(|e| &*e.version).collect();
        if versions.is_empty() {
            continue;
        }
        let name = &group[0].group;
        list.push(documents::api_group_item(name, versions.iter().copied()));
        let document = json::to_vec(&documents::api_group(name, versions));
        groups.insert(Arc::clone(name), document.into());
    }
    (json::to_vec(&documents::api_group_list(list)).into(), groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(group: &str, version: &str) -> Entry {
        Entry::current(group, version, &Value::Array(vec![]))
    }

    fn order(snapshot: &Snapshot) -> Vec<String> {
        let name = |e: &Entry| documents::group_version(&e.group, &e.version);
        snapshot.entries().iter().map(name).collect()
    }

    #[test]
    fn groups_come_by_priority_then_name_and_versions_by_priority_then_kubernetes_order() {
        let snapshot = Snapshot::new(
            [
                ("b.example.com", "v1beta1"),
                ("b.example.com", "v2"),
                ("a.example.com", "v1"),
                ("autoscaling", "v1"),
                ("autoscaling", "v2"),
                ("apps", "v1"),
                ("apiregistration.k8s.io", "v1"),
                ("", "v1"),
            ]
            .map(|(g, v)| entry(g, v)),
        );
        assert_eq!(
            order(&snapshot),
            [
                "apiregistration.k8s.io/v1",
                "v1",
                "apps/v1",
                "autoscaling/v2",
                "autoscaling/v1",
                "a.example.com/v1",
                "b.example.com/v2",
                "b.example.com/v1beta1"
            ]
        );
    }

    #[test]
    fn a_group_without_an_api_service_shows_only_in_the_aggregated_document() {
        let hidden = Entry {
            listing: Listing::Aggregated,
            ..entry("example.com", "v1")
        };
        let snapshot = Snapshot::new([hidden]);
        assert!(snapshot.group("example.com").is_none());
        assert!(
            std::str::from_utf8(&snapshot.aggregated_apis().body)
                .unwrap()
                .contains("example.com")
        );
        assert_eq!(
            &snapshot.group_list()[..],
            br#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#
        );
    }

    #[test]
    fn what_a_tier_publishes_the_next_one_reads_back() {
        let resources = json::from_slice(br#"[{"resource":"widgets"}]"#).unwrap();
        let stale = Entry {
            freshness: Freshness::Stale,
            resources: Bytes::new(),
            ..entry("example.com", "v2")
        };
        let first = Snapshot::new([Entry::current("example.com", "v1", &resources), stale]);
        let read = Snapshot::read(&json::from_slice(&first.aggregated_apis().body).unwrap());
        let second = Snapshot::new(read);
        assert_eq!(first.aggregated_apis(), second.aggregated_apis());
        assert_eq!(first.entries(), second.entries());
    }
}
