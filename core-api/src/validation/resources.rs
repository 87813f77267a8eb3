//! Resource names and quantities: requests and limits of containers and pods.

use std::collections::{BTreeSet, HashSet};

use triptych_object::field::{Error, ErrorKind, quote};
use triptych_object::quantity::Format;
use triptych_object::{Quantity, Value};

use super::resource_names::{self, is_huge_pages, is_overcommit_allowed};
use super::{Cursor, names as rules};

/// The quantity a document has here; zero if there is none.
pub fn quantity(value: Option<&Value>) -> Quantity {
    match value {
        Some(Value::String(s)) => s.parse().unwrap_or_else(|_| Quantity::zero()),
        Some(Value::Int(i)) => Quantity::new(*i, Format::DecimalSi),
        _ => Quantity::zero(),
    }
}

/// Whether a quantity is a multiple of the page size that the resource is named after.
pub fn huge_page_divisible(name: &str, value: &Quantity) -> bool {
    let Some(Ok(size)) = name.strip_prefix("hugepages-").map(str::parse::<Quantity>) else {
        return false;
    };
    size.sign() > 0 && size.milli_value() % 1000 == 0 && value.value() % size.value() == 0
}

/// Resources that a pod as a whole may ask for.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_pages(name)
}

/// The name of a resource that a pod as a whole may ask for.
pub fn pod_resource_name(name: &str, c: Cursor<'_>) {
    if resource_names::name(c, name) && !is_pod_level(name) {
        let supported = ["cpu", "hugepages-", "memory"];
        c.push(Error::not_supported(c.path(), name, &supported));
    }
}

/// What requests and limits are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'a> {
    /// Whose resources they are.
    pub owner: Owner,
    /// Names of the pod's resource claims.
    pub claims: &'a BTreeSet<&'a str>,
    /// Huge pages need not be a multiple of their size, because a stored object has such.
    pub allow_indivisible_huge_pages: bool,
}

/// Whose resources they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A container's.
    Container,
    /// A pod's as a whole.
    Pod,
}

impl Requirements<'_> {
    /// `limits`, `requests` and `claims` of the struct at the cursor.
    pub fn check(&self, c: Cursor<'_>) {
        let (limits, requests) = (c.field("limits"), c.field("requests"));
        let mut seen = self.limits(limits);
        seen |= self.requests(requests, limits);
        self.huge_pages_need_compute(c, seen);
        self.claims(c.field("claims"));
    }

    /// A pod's overhead, checked as if it were limits; `c` is the map itself, its errors stand below `limits`.
    pub fn overhead(&self, c: Cursor<'_>) {
        let limits = c.alias("limits");
        let seen = self.limits(limits);
        self.huge_pages_need_compute(c, seen);
    }

    fn name(&self, name: &str, c: Cursor<'_>) {
        match self.owner {
            Owner::Container => resource_names::container_name(c, name),
            Owner::Pod => pod_resource_name(name, c),
        }
    }

    fn huge_pages_need_compute(&self, c: Cursor<'_>, seen: Seen) {
        if seen.huge_pages && !seen.compute {
            c.forbidden("HugePages require cpu or memory");
        }
    }

    fn limits(&self, limits: Cursor<'_>) -> Seen {
        let mut seen = Seen::default();
        for (name, limit) in limits.entries() {
            self.name(name, limit);
            resource_names::quantity_of(limit, name);
            self.huge_page(name, limit);
            seen |= Seen::of(name);
        }
        seen
    }

    fn requests(&self, requests: Cursor<'_>, limits: Cursor<'_>) -> Seen {
        let mut seen = Seen::default();
        for (name, request) in requests.entries() {
            self.name(name, request);
            resource_names::quantity_of(request, name);
            let asked = quantity(request.value());
            match limits.value().and_then(|l| l.get(name)) {
                Some(limit) => {
                    let limit = quantity(Some(limit));
                    if asked != limit && !is_overcommit_allowed(name) {
                        let detail = format!("must be equal to {name} limit of {limit}");
                        requests.invalid(asked.to_string(), detail);
                    } else if asked > limit {
                        let detail = format!("must be less than or equal to {name} limit of {limit}");
                        requests.invalid(asked.to_string(), detail);
                    }
                }
                None if !is_overcommit_allowed(name) => {
                    limits.required("Limit must be set for non overcommitable resources");
                }
                None => {}
            }
            self.huge_page(name, request);
            seen |= Seen::of(name);
        }
        seen
    }

    fn huge_page(&self, name: &str, c: Cursor<'_>) {
        let q = quantity(c.value());
        if is_huge_pages(name) && !self.allow_indivisible_huge_pages && !huge_page_divisible(name, &q) {
            c.invalid(q.to_string(), format!("{q} is not positive integer multiple of {name}"));
        }
    }

    fn claims(&self, claims: Cursor<'_>) {
        let mut seen: HashSet<String> = HashSet::new();
        for claim in claims.items() {
            let (name, request) = (claim.str_of("name"), claim.field("request"));
            if name.is_empty() {
                claim.required("");
                continue;
            }
            if seen.contains(name) {
                claim.duplicate(name);
            } else {
                let mut key = name.to_owned();
                if !request.str().is_empty() {
                    rules::label(request);
                    key = format!("{name}/{}", request.str());
                }
                if seen.contains(&key) {
                    claim.duplicate(key.as_str());
                } else if request.str().is_empty() {
                    for _ in seen
                        .iter()
                        .filter(|k| k.split_once('/').is_some_and(|(n, _)| n == name))
                    {
                        claim.duplicate(name);
                    }
                }
                seen.insert(key);
            }
            if !self.claims.contains(name) {
                let detail = if self.claims.is_empty() {
                    "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
                } else {
                    let known: Vec<&str> = self.claims.iter().copied().collect();
                    format!(
                        "must be one of the names in pod.spec.resourceClaims: {}",
                        known.join(", ")
                    )
                };
                claim.push(Error {
                    kind: ErrorKind::NotFound,
                    field: claim.path(),
                    shown: Some(quote(name)),
                    detail,
                });
            }
        }
    }
}

/// What kinds of resources were seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    compute: bool,
    huge_pages: bool,
}

impl Seen {
    fn of(name: &str) -> Seen {
        Seen {
            compute: matches!(name, "cpu" | "memory"),
            huge_pages: is_huge_pages(name),
        }
    }
}

impl std::ops::BitOrAssign for Seen {
    fn bitor_assign(&mut self, other: Seen) {
        self.compute |= other.compute;
        self.huge_pages |= other.huge_pages;
    }
}
