//! What a tier's discovery is made of: its own group-versions, those of the tiers behind it, and APIServices.
//!
//! Contract: where two say something of the same group-version the nearer one counts; APIServices before built-ins before
//! CRDs. Every group-version that has an APIService is listed, stale and without resources if nobody described it, or
//! the namespace controller would forget objects it cannot see.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use triptych_registry::discovery::{Entry, Freshness, Listing, Priority};

/// An APIService, as discovery sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// `spec.group`.
    pub group: Arc<str>,
    /// `spec.version`.
    pub version: Arc<str>,
    /// `spec.groupPriorityMinimum`, `spec.versionPriority`.
    pub priority: Priority,
    /// Who serves it.
    pub backing: Backing,
}

/// Who serves an APIService.
#[derive(Clone, Debug, PartialEq)]
pub enum Backing {
    /// One of our tiers.
    Local,
    /// The server behind a Service.
    Remote {
        /// What it last said of its resources: JSON text of the list of APIResourceDiscovery; empty when nothing.
        resources: Bytes,
        /// Whether it said so when last asked.
        freshness: Freshness,
        /// Its OpenAPI documents: path and relative URL.
        urls: Vec<(Arc<str>, String)>,
    },
}

/// What the next tier last said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Next {
    /// `/api`; none before it was heard.
    pub api: Option<Vec<Entry>>,
    /// `/apis`.
    pub apis: Option<Vec<Entry>>,
    /// `/openapi/v3`.
    pub urls: Option<BTreeMap<Arc<str>, String>>,
}

impl Next {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.api.iter().chain(&self.apis).flatten()
    }
}

/// Group-versions in order of precedence. Without `services` (any tier but the aggregator) all are listed.
pub fn entries(own: Vec<Entry>, next: &Next, services: Option<&[Service]>) -> Vec<Entry> {
    let Some(services) = services else {
        return own.into_iter().chain(next.entries().cloned()).collect();
    };
    let mut all = own;
    let own = all.len();
    for service in services {
        let same = |e: &&Entry| e.group == service.group && e.version == service.version;
        if all[..own].iter().any(|e| same(&e)) {
            continue;
        }
        let unknown = Entry {
            group: Arc::clone(&service.group),
            version: Arc::clone(&service.version),
            priority: service.priority,
            listing: Listing::Everywhere,
            freshness: Freshness::Stale,
            resources: Bytes::new(),
        };
        all.push(match &service.backing {
            Backing::Local => match next.entries().find(same) {
                Some(known) => Entry {
                    priority: service.priority,
                    listing: Listing::Everywhere,
                    ..known.clone()
                },
                None => unknown,
            },
            Backing::Remote {
                resources, freshness, ..
            } => Entry {
                resources: resources.clone(),
                freshness: *freshness,
                ..unknown
            },
        });
    }
    // those without an APIService (yet) come after, so that one that has one is not hidden by them
    all.extend(next.entries().map(|e| Entry {
        listing: Listing::Aggregated,
        ..e.clone()
    }));
    all
}

/// Where each OpenAPI document is to be had; the nearer one counts.
pub fn urls(
    own: impl IntoIterator<Item = (Arc<str>, String)>,
    next: &Next,
    services: Option<&[Service]>,
) -> BTreeMap<Arc<str>, String> {
    let mut all: BTreeMap<Arc<str>, String> = next.urls.clone().unwrap_or_default();
    for service in services.unwrap_or_default() {
        if let Backing::Remote { urls, .. } = &service.backing {
            all.extend(urls.iter().cloned());
        }
    }
    all.extend(own);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use triptych_object::{Value, json};
    use triptych_registry::discovery::Snapshot;

    fn entry(group: &str, version: &str) -> Entry {
        let resources = json::from_slice(format!(r#"[{{"resource":"of-{version}"}}]"#).as_bytes()).unwrap();
        Entry::current(group, version, &resources)
    }

    fn service(group: &str, backing: Backing) -> Service {
        Service {
            group: group.into(),
            version: "v1".into(),
            priority: Priority {
                group: 2000,
                version: 5,
            },
            backing,
        }
    }

    fn remote(text: &'static str) -> Backing {
        Backing::Remote {
            resources: Bytes::from_static(text.as_bytes()),
            freshness: Freshness::Current,
            urls: vec![("apis/metrics/v1".into(), "/there".into())],
        }
    }

    #[test]
    fn an_api_service_without_a_document_is_stale_not_missing() {
        let next = Next {
            apis: Some(vec![entry("known.example.com", "v1")]),
            ..Next::default()
        };
        let services = [
            service("known.example.com", Backing::Local),
            service("unheard.example.com", Backing::Local),
        ];
        let all = entries(Vec::new(), &next, Some(&services));
        assert_eq!(all[0].freshness, Freshness::Current);
        assert_eq!(all[0].priority.group, 2000);
        assert_eq!((all[1].freshness, &all[1].resources[..]), (Freshness::Stale, &b""[..]));
    }

    #[test]
    fn a_remote_api_service_stands_before_what_the_tiers_say() {
        let next = Next {
            apis: Some(vec![entry("metrics", "v1")]),
            ..Next::default()
        };
        let services = [service("metrics", remote(r#"[{"resource":"theirs"}]"#))];
        let snapshot = Snapshot::new(entries(Vec::new(), &next, Some(&services)));
        assert_eq!(snapshot.entries().len(), 1);
        assert_eq!(&snapshot.entries()[0].resources[..], br#"[{"resource":"theirs"}]"#);
        assert!(urls([], &next, Some(&services)).contains_key("apis/metrics/v1"));
    }

    #[test]
    fn without_api_services_everything_is_listed_and_own_comes_first() {
        let next = Next {
            api: Some(vec![entry("", "v1")]),
            apis: Some(vec![entry("apps", "v1"), entry("example.com", "v1")]),
            urls: None,
        };
        let own = Entry {
            resources: Bytes::from_static(b"[1]"),
            ..Entry::current("apps", "v1", &Value::Null)
        };
        let snapshot = Snapshot::new(entries(vec![own], &next, None));
        assert_eq!(&snapshot.entry("apps", "v1").unwrap().resources[..], b"[1]");
        assert!(snapshot.group("example.com").is_some());
    }
}
