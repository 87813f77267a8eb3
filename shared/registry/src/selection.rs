//! Which objects a list, watch or delete of a collection is about: label and field selectors bound to what the
//! resource's cached objects offer.
//!
//! Contract: matching reads the cached header, never the tree. A field label the resource does not know is 400 with
//! kube-apiserver's text; one that is known but that no object carries matches as empty.

use triptych_object::field::quote;
use triptych_object::selector::LabelSelector;
use triptych_object::{RequestInfo, Status, StatusResult, names};
use triptych_storage::Object;

use crate::collection::Collection;
use crate::endpoint::Endpoint;
use crate::options::List;

/// A field label bound to its value's place.
#[derive(Clone, Debug)]
enum Place {
    Name,
    Namespace,
    /// Number of the collection's selectable field, and what an absent value counts as.
    Field(usize, &'static str),
    Never,
}

#[derive(Clone, Debug)]
struct Term {
    place: Place,
    equal: bool,
    value: String,
}

/// Bound selectors.
#[derive(Clone, Debug)]
pub struct Selection {
    labels: LabelSelector,
    terms: Vec<Term>,
}

impl Selection {
    /// Binds a request's selectors to its resource; a name in the path selects it.
    pub fn of(endpoint: &Endpoint, options: &List, info: &RequestInfo) -> StatusResult<Selection> {
        let mut terms = Vec::new();
        for term in &options.fields.terms {
            let place = place(endpoint, &term.field)?;
            terms.push(Term {
                place,
                equal: term.equal,
                value: term.value.clone(),
            });
        }
        // `/watch/…/<name>` paths name one object
        if !info.name.is_empty() && info.parts.len() > 1 {
            match options.fields.exact("metadata.name") {
                Some(name) if name == info.name => {}
                None if options.fields.is_everything() => {
                    terms.push(Term {
                        place: Place::Name,
                        equal: true,
                        value: info.name.clone(),
                    });
                }
                _ => {
                    return Err(Status::bad_request(
                        "fieldSelector metadata.name doesn't match requested name",
                    ));
                }
            }
        }
        Ok(Selection {
            labels: options.labels.clone(),
            terms,
        })
    }

    /// True if nothing is left out.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.terms.is_empty()
    }

    /// The one name that can match.
    pub fn name(&self) -> Option<&str> {
        self.exact(|p| matches!(p, Place::Name))
    }

    /// The one namespace that can match, if it can be one.
    pub fn namespace(&self) -> Option<&str> {
        self.exact(|p| matches!(p, Place::Namespace))
            .filter(|n| names::dns1123_label(n).is_empty())
    }

    fn exact(&self, at: impl Fn(&Place) -> bool) -> Option<&str> {
        self.terms
            .iter()
            .find(|t| t.equal && at(&t.place))
            .map(|t| t.value.as_str())
    }

    /// The index that narrows the search, and the value to look up there.
    pub fn indexed(&self, collection: &Collection) -> Option<(usize, String)> {
        self.terms.iter().find_map(|t| match t.place {
            Place::Field(field, _) if t.equal && !t.value.is_empty() && collection.indexes.contains(&field) => {
                Some((field, t.value.clone()))
            }
            _ => None,
        })
    }

    /// True if the object is one of those asked for.
    pub fn matches(&self, object: &Object) -> bool {
        self.terms.iter().all(|t| t.matches(object)) && self.matches_labels(object)
    }

    fn matches_labels(&self, object: &Object) -> bool {
        if self.labels.is_everything() {
            return true;
        }
        let found: Vec<_> = self
            .labels
            .requirements
            .iter()
            .map(|r| (r.key.as_str(), object.label(&r.key)))
            .collect();
        self.labels
            .matches(|key| found.iter().find(|(k, _)| *k == key).and_then(|(_, v)| v.as_deref()))
    }
}

impl Term {
    fn matches(&self, object: &Object) -> bool {
        let equal = match self.place {
            Place::Name => object.name() == self.value,
            Place::Namespace => object.namespace() == self.value.as_str(),
            Place::Field(field, absent) => match object.field(field) {
                Some(value) => value == self.value.as_str(),
                None => self.value == absent,
            },
            Place::Never => self.value.is_empty(),
        };
        equal == self.equal
    }
}

fn place(endpoint: &Endpoint, label: &str) -> StatusResult<Place> {
    match label {
        "metadata.name" => return Ok(Place::Name),
        "metadata.namespace" => return Ok(Place::Namespace),
        _ => {}
    }
    let resource = &endpoint.resource;
    if resource.selectable.iter().any(|s| s == label) {
        let collection = endpoint.collection()?;
        if let Some(i) = collection.fields.iter().position(|f| &*f.name == label) {
            return Ok(Place::Field(i, collection.absent.get(i).copied().unwrap_or("")));
        }
        return Ok(Place::Never);
    }
    if resource.never_set.iter().any(|s| s == label) {
        return Ok(Place::Never);
    }
    if let Some(words) = endpoint.strategy.unknown_field_label(label) {
        return Err(Status::bad_request(words));
    }
    // kinds that declare labels of their own word it differently from those that have none
    let own = resource
        .selectable
        .iter()
        .any(|s| !matches!(&**s, "metadata.name" | "metadata.namespace"));
    Err(Status::bad_request(if own || !endpoint.model.bare_items() {
        match (&*resource.group, &*resource.kind) {
            ("resource.k8s.io", "ResourceSlice") => format!(
                "field label not supported for {}, Kind=ResourceSlice: {label}",
                resource.api_version()
            ),
            _ => format!("field label not supported: {label}"),
        }
    } else {
        format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(label)
        )
    }))
}
