//! GET and LIST.
//!
//! Contract: a read at the stored version never parses JSON: GET answers the cached bytes, LIST joins them. A LIST's
//! body is a stream over an immutable snapshot, chunks of at least 64 KiB made when the client can take them. Resource
//! version semantics are kube-apiserver's: none is consistent, `0` is whatever is at hand, N is at least N (or exactly,
//! when matched so or paged).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use triptych_object::{Status, StatusResult, Value, json};
use triptych_storage::cache::{FRESH_WAIT, ReadError, Snapshot};
use triptych_storage::{Error, Object, Range, Revision};

use crate::body::Body;
use crate::collection::{Collection, storage_status};
use crate::continuation::Continuation;
use crate::endpoint::Endpoint;
use crate::model::Stored;
use crate::negotiate::{Format, Output, Transform};
use crate::options::{List, Match, Query, parse_uint};
use crate::request::{Request, Response};
use crate::selection::Selection;
use crate::{respond, table};

/// A list's chunks are at least this large, the last one excepted.
const CHUNK: usize = 64 * 1024;

/// GET of an object or of a subresource that shows it.
pub async fn get(endpoint: &Endpoint, request: &Request) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let collection = endpoint.collection()?;
    let query = Query::parse(&request.query);
    if query
        .get("export")
        .is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    {
        let message = "the export parameter, deprecated since v1.14, is no longer supported";
        return Err(Status::bad_request(message));
    }
    let key = collection.key(&request.info.namespace, &request.info.name)?;
    let object = match query.get("resourceVersion").unwrap_or("") {
        "" => collection.get_consistent(&key).await?,
        version => {
            let revision = parse_version(version).map_err(|e| match endpoint.strategy.cached() {
                true => Status::unknown(e),
                false => Status::bad_request(format!("invalid resource version: {e}")),
            })?;
            get_at_least(collection, &key, revision).await?
        }
    };
    let object = object.ok_or_else(|| Status::not_found(&endpoint.group_resource(), &request.info.name))?;
    respond::object(endpoint, request, &output, StatusCode::OK, &object)
}

async fn get_at_least(collection: &Collection, key: &str, revision: Revision) -> StatusResult<Option<Arc<Object>>> {
    if revision == 0 {
        return match collection.cache.get(key) {
            Ok(object) => Ok(object),
            Err(_) => collection.get_live(key).await.map(|(object, _)| object),
        };
    }
    match collection.cache.at_least(revision, FRESH_WAIT).await {
        Ok(snapshot) => Ok(snapshot.get(key).cloned()),
        Err(ReadError::Filling) => collection.get_live(key).await.map(|(object, _)| object),
        Err(e) => Err(collection.read_error(e)),
    }
}

/// A resource version as a number, or the field error that refuses it.
pub fn parse_version(version: &str) -> Result<Revision, String> {
    parse_uint(version).map_err(|e| triptych_object::field::Error::invalid("resourceVersion", version, e).to_string())
}

/// What a list is made of.
pub struct Listing {
    /// Objects, selected and cut to the page.
    items: Items,
    /// `metadata.resourceVersion`.
    pub revision: Revision,
    /// `metadata.continue`, empty on the last page.
    pub continue_token: String,
    /// `metadata.remainingItemCount`, where it is known.
    pub remaining: Option<u64>,
}

enum Items {
    /// Everything below a prefix that matches, from a snapshot.
    Snapshot {
        snapshot: Snapshot,
        scope: String,
        selection: Arc<Selection>,
    },
    /// These.
    Objects(Vec<Arc<Object>>),
}

/// LIST.
pub async fn list(endpoint: &Endpoint, request: &Request) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let query = Query::parse(&request.query);
    let options = List::parse(&query, false)?;
    let selection = Selection::of(endpoint, &options, &request.info)?;
    let listing = find(endpoint, &options, selection, &request.info.namespace).await?;
    answer(endpoint, request, &output, listing)
}

/// Finds what a list asks for.
pub async fn find(endpoint: &Endpoint, options: &List, selection: Selection, namespace: &str) -> StatusResult<Listing> {
    let collection = endpoint.collection()?;
    let namespace = match (namespace, selection.namespace()) {
        ("", Some(selected)) if collection.namespaced => selected.to_owned(),
        (namespace, _) => namespace.to_owned(),
    };
    let scope = collection.scope(&namespace);
    let selection = Arc::new(selection);
    // a name makes it a read of one object, unless it may stand in any namespace
    let only = selection.name().and_then(|n| collection.key(&namespace, n).ok());

    if !options.continue_token.is_empty() && only.is_none() {
        let from = Continuation::decode(&options.continue_token)?;
        if !matches!(options.resource_version.as_str(), "" | "0") {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Status::bad_request(message));
        }
        let start = format!("{scope}{}", from.start);
        return if from.revision < 0 {
            page(collection, &scope, Some(&start), None, options, &selection).await
        } else {
            page(
                collection,
                &scope,
                Some(&start),
                Some(from.revision.unsigned_abs()),
                options,
                &selection,
            )
            .await
        };
    }
    let version = match options.resource_version.as_str() {
        "" => None,
        text => Some(parse_version(text).map_err(|e| Status::bad_request(format!("invalid resource version: {e}")))?),
    };
    let exact = match (options.version_match, version) {
        (Match::Exact, Some(v)) => Some(v),
        (Match::Unset, Some(v)) if v > 0 && options.limit > 0 => Some(v),
        _ => None,
    };
    if let Some(revision) = exact {
        return page(collection, &scope, None, Some(revision), options, &selection).await;
    }
    let snapshot = match version {
        None => collection.consistent().await?,
        Some(0) => Some(collection.cache.snapshot().map_err(|e| collection.read_error(e))?),
        Some(v) => Some(
            collection
                .cache
                .at_least(v, FRESH_WAIT)
                .await
                .map_err(|e| collection.read_error(e))?,
        ),
    };
    // a cache that is still filling refuses lists, one that cannot tell how current it is hands them to the store
    let Some(snapshot) = snapshot else {
        collection.cache.snapshot().map_err(|e| collection.read_error(e))?;
        return page(collection, &scope, None, None, options, &selection).await;
    };
    if let Some(key) = only {
        let found = snapshot.get(&key).cloned().filter(|o| selection.matches(o));
        return Ok(Listing {
            items: Items::Objects(found.into_iter().collect()),
            revision: snapshot.revision(),
            continue_token: String::new(),
            remaining: None,
        });
    }
    if options.limit > 0 && version != Some(0) {
        return Ok(cut(&snapshot, &scope, None, options, &selection));
    }
    let revision = snapshot.revision();
    let found = selection
        .indexed(collection)
        .and_then(|(field, value)| snapshot.with_value(field, &value));
    let items = match found {
        Some(objects) => Items::Objects(
            objects
                .into_iter()
                .filter(|o| o.key().starts_with(&scope) && selection.matches(o))
                .collect(),
        ),
        None => Items::Snapshot {
            snapshot,
            scope,
            selection,
        },
    };
    Ok(Listing {
        items,
        revision,
        continue_token: String::new(),
        remaining: None,
    })
}

/// A page of a snapshot from memory.
fn cut(snapshot: &Snapshot, scope: &str, from: Option<&str>, options: &List, selection: &Selection) -> Listing {
    let limit = if options.limit > 0 {
        options.limit as usize
    } else {
        usize::MAX
    };
    let mut objects = Vec::new();
    let mut rest = match from {
        Some(from) => snapshot.range_from(scope, from),
        None => snapshot.range_from(scope, scope),
    };
    let mut last: Option<Arc<Object>> = None;
    for object in rest.by_ref() {
        let matches = selection.matches(object);
        if matches {
            objects.push(object.clone());
        }
        last = Some(object.clone());
        if objects.len() >= limit {
            break;
        }
    }
    let remaining = if objects.len() >= limit { rest.count() as u64 } else { 0 };
    let revision = snapshot.revision();
    let token = match &last {
        Some(last) if remaining > 0 => {
            Continuation::after(last.key().strip_prefix(scope).unwrap_or_default(), revision as i64)
        }
        _ => String::new(),
    };
    let remaining = (!token.is_empty() && selection.is_everything()).then_some(remaining);
    Listing {
        items: Items::Objects(objects),
        revision,
        continue_token: token,
        remaining,
    }
}

/// A page at an exact revision (or the newest), from memory if history reaches back, else from the store.
async fn page(
    collection: &Collection,
    scope: &str,
    from: Option<&str>,
    at: Option<Revision>,
    options: &List,
    selection: &Selection,
) -> StatusResult<Listing> {
    let in_memory = match at {
        Some(revision) => collection.cache.at(revision),
        None => collection.consistent().await?,
    };
    if let Some(snapshot) = in_memory {
        return Ok(cut(&snapshot, scope, from, options, selection));
    }
    let limit = usize::try_from(options.limit).unwrap_or(0);
    let mut objects = Vec::new();
    let mut at = at;
    let mut from = from.map(str::to_owned);
    loop {
        // with a selector a page of the store may hold fewer matches than the page of the client
        let range = Range {
            prefix: scope,
            from: from.as_deref(),
            limit,
            at,
        };
        let page = collection.cache.read_range(range).await.map_err(|e| match e {
            Error::Compacted { .. } => compacted(from.as_deref(), scope),
            Error::FutureRevision { current } => crate::collection::too_large(at.unwrap_or(0), current),
            e => storage_status(&e),
        })?;
        let revision = at.unwrap_or(page.revision);
        at = Some(revision);
        let last = page.objects.last().map(|o| o.key().clone());
        objects.extend(page.objects.into_iter().filter(|o| selection.matches(o)));
        let full = limit > 0 && objects.len() >= limit;
        match last {
            Some(last) if page.remaining > 0 && !full => from = Some(format!("{last}\0")),
            last => {
                let token = match last {
                    Some(last) if page.remaining > 0 => {
                        Continuation::after(last.strip_prefix(scope).unwrap_or_default(), revision as i64)
                    }
                    _ => String::new(),
                };
                let remaining = (!token.is_empty() && selection.is_everything()).then_some(page.remaining);
                return Ok(Listing {
                    items: Items::Objects(objects),
                    revision,
                    continue_token: token,
                    remaining,
                });
            }
        }
    }
}

/// 410 of a page whose revision was compacted, with a token that goes on at the newest revision.
fn compacted(from: Option<&str>, scope: &str) -> Box<Status> {
    match from.and_then(|f| f.strip_prefix(scope)) {
        Some(start) => Status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        )
        .with_continue(Continuation::at(start, -1)),
        None => Status::expired("The resourceVersion for the provided list is too old."),
    }
}

impl Listing {
    /// All objects of the list.
    pub fn objects(&self) -> Vec<Arc<Object>> {
        match &self.items {
            Items::Objects(objects) => objects.clone(),
            Items::Snapshot {
                snapshot,
                scope,
                selection,
            } => snapshot
                .range(scope)
                .filter(|o| selection.matches(o))
                .cloned()
                .collect(),
        }
    }

    fn metadata(&self) -> Value {
        let mut metadata = Value::from([("resourceVersion", self.revision.to_string().into())]);
        if !self.continue_token.is_empty() {
            metadata.set_at(&["continue"], self.continue_token.as_str().into());
        }
        if let Some(n) = self.remaining {
            metadata.set_at(&["remainingItemCount"], Value::Int(n as i64));
        }
        metadata
    }
}

/// The answer of a list.
pub fn answer(endpoint: &Endpoint, request: &Request, output: &Output, listing: Listing) -> StatusResult<Response> {
    let plain = output.format == Format::Json && output.transform == Transform::None && !output.pretty;
    if plain && endpoint.model.stored() != Stored::Converted {
        return Ok(streamed(endpoint, listing));
    }
    let metadata = listing.metadata();
    let objects = listing.objects();
    let value = match output.transform {
        Transform::None => {
            let mut items = Vec::with_capacity(objects.len());
            for object in &objects {
                let mut item = document(endpoint, object)?;
                if endpoint.model.bare_items()
                    && let Some(item) = item.as_object_mut()
                {
                    item.remove("kind");
                    item.remove("apiVersion");
                }
                items.push(item);
            }
            let kind = endpoint.model.list_kind();
            let api_version = endpoint.model.gvk().group_version().to_string();
            let metadata = list_metadata(endpoint, &listing);
            Value::from([
                ("kind", kind.into()),
                ("apiVersion", api_version.into()),
                ("metadata", metadata),
                ("items", Value::Array(items)),
            ])
        }
        Transform::Table(version) => {
            let options = table::Options::parse(&request.query)?;
            let documents = objects
                .iter()
                .map(|o| document(endpoint, o))
                .collect::<StatusResult<Vec<_>>>()?;
            table::of_list(endpoint, documents.iter(), metadata, version, &options)
        }
        Transform::PartialList(version) => {
            let items = objects
                .iter()
                .map(|o| document(endpoint, o))
                .collect::<StatusResult<Vec<_>>>()?;
            let items: Vec<Value> = items
                .iter()
                .map(|d| table::partial(d, version, &*endpoint.model))
                .collect();
            // kube-apiserver appends to a list that it never made
            let items = if items.is_empty() {
                Value::Null
            } else {
                Value::Array(items)
            };
            Value::from([
                ("kind", "PartialObjectMetadataList".into()),
                ("apiVersion", format!("meta.k8s.io/{version}").into()),
                ("metadata", metadata),
                ("items", items),
            ])
        }
        Transform::Partial(_) => {
            let message = format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}.{})",
                crate::builtin::internal_package(&endpoint.model.gvk().group),
                endpoint.model.list_kind()
            );
            return Err(Status::not_acceptable(message));
        }
    };
    respond::list_tree(endpoint, output, &value, output.transform != Transform::None)
}

fn document(endpoint: &Endpoint, object: &Object) -> StatusResult<Value> {
    match object.broken() {
        Some(problem) => Err(Status::internal(problem)),
        None => endpoint.model.document(object).map_err(Status::internal),
    }
}

/// The metadata of a list that is no table and no list of metadata.
fn list_metadata(endpoint: &Endpoint, listing: &Listing) -> Value {
    let mut metadata = listing.metadata();
    if !endpoint.model.bare_items() && listing.continue_token.is_empty() {
        // lists of custom resources always say where they go on
        metadata.set_at(&["continue"], "".into());
    }
    metadata
}

/// Head of a list document up to its first item.
fn head(endpoint: &Endpoint, listing: &Listing) -> Vec<u8> {
    let mut out = Vec::with_capacity(CHUNK + 4096);
    out.extend_from_slice(b"{\"kind\":");
    json::write_string(&mut out, &endpoint.model.list_kind());
    out.extend_from_slice(b",\"apiVersion\":");
    json::write_string(&mut out, &endpoint.model.gvk().group_version().to_string());
    out.extend_from_slice(b",\"metadata\":");
    json::write(&mut out, &list_metadata(endpoint, listing));
    out.extend_from_slice(b",\"items\":[");
    out
}

/// How one item is written into a JSON list.
#[derive(Clone)]
struct ItemForm {
    /// What stands before the text after `kind` and `apiVersion`; `None` writes the object whole.
    opening: Option<Bytes>,
}

impl ItemForm {
    fn of(endpoint: &Endpoint) -> ItemForm {
        if endpoint.model.bare_items() {
            return ItemForm {
                opening: Some(Bytes::from_static(b"{")),
            };
        }
        if endpoint.model.stored() == Stored::AsIs {
            return ItemForm { opening: None };
        }
        let mut opening = b"{".to_vec();
        respond::write_kind(&mut opening, endpoint);
        ItemForm {
            opening: Some(opening.into()),
        }
    }

    fn write(&self, out: &mut Vec<u8>, object: &Object) {
        match &self.opening {
            Some(opening) => {
                out.extend_from_slice(opening);
                out.extend_from_slice(&object.bytes()[object.after_kind_offset()..]);
            }
            None => out.extend_from_slice(object.bytes()),
        }
    }
}

/// A JSON list as a stream of chunks; small ones in one piece, with a length.
fn streamed(endpoint: &Endpoint, listing: Listing) -> Response {
    let mut first = head(endpoint, &listing);
    let form = ItemForm::of(endpoint);
    let mut cursor = Cursor {
        items: listing.items,
        after: None,
        position: 0,
        started: false,
        form,
    };
    if cursor.fill(&mut first) {
        first.extend_from_slice(b"]}\n");
        return respond::document(StatusCode::OK, Format::Json, first);
    }
    let chunks = stream::unfold(Some((Some(first), cursor)), |state| async move {
        let (ready, mut cursor) = state?;
        if let Some(chunk) = ready {
            return Some((Ok(Bytes::from(chunk)), Some((None, cursor))));
        }
        let mut chunk = Vec::with_capacity(CHUNK + 16 * 1024);
        if cursor.fill(&mut chunk) {
            chunk.extend_from_slice(b"]}\n");
            return Some((Ok(Bytes::from(chunk)), None));
        }
        Some((Ok(Bytes::from(chunk)), Some((None, cursor))))
    });
    let mut response = respond::document(StatusCode::OK, Format::Json, Vec::new());
    *response.body_mut() = Body::Stream(Box::pin(chunks));
    response
}

/// A place in a list being written. It keeps no borrow of the snapshot: between chunks it remembers the last key.
struct Cursor {
    items: Items,
    after: Option<String>,
    position: usize,
    started: bool,
    form: ItemForm,
}

impl Cursor {
    /// Writes items until the chunk is large enough; true when that was the last.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let form = self.form.clone();
        let started = &mut self.started;
        let mut put = |out: &mut Vec<u8>, object: &Object| {
            if std::mem::replace(started, true) {
                out.push(b',');
            }
            form.write(out, object);
            out.len() >= CHUNK
        };
        match &self.items {
            Items::Objects(objects) => {
                while let Some(object) = objects.get(self.position) {
                    self.position += 1;
                    if put(out, object) {
                        return self.position >= objects.len();
                    }
                }
                true
            }
            Items::Snapshot {
                snapshot,
                scope,
                selection,
            } => {
                let rest = match &self.after {
                    Some(from) => snapshot.range_from(scope, from),
                    None => snapshot.range_from(scope, scope),
                };
                for object in rest {
                    if object.broken().is_none() && selection.matches(object) && put(out, object) {
                        self.after = Some(format!("{}\0", object.key()));
                        return false;
                    }
                }
                true
            }
        }
    }
}
