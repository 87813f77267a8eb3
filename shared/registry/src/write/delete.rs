//! DELETE of an object and of a collection: preconditions, grace, finalizers, garbage collection.
//!
//! Contract: an object with finalizers, a grace period or held by its kind is marked and stays; whoever takes the last
//! hold away removes it (see `update`). The answer is the object while it exists, else a `Status` (or, for kinds that
//! say so, the last state).

use std::sync::Arc;

use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use triptych_object::{GroupResource, Status, StatusResult, Value, meta, time};
use triptych_schema::resource::Dependents;
use triptych_storage::{Expect, Object};

use crate::admission::{Operation, Warnings};
use crate::endpoint::Endpoint;
use crate::negotiate::{self, Output};
use crate::options::{Delete, List, Propagation, Query};
use crate::request::{Request, Response};
use crate::selection::Selection;
use crate::write::save::{self, SwapError};
use crate::{read, respond};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What a delete came to.
enum Outcome {
    /// Gone; the last state.
    Gone(Arc<Object>, Value),
    /// Marked; the state now.
    Marked(Arc<Object>),
    /// Would be marked, or needed no change.
    Unstored(Value),
}

/// Deletes one object.
pub async fn delete(endpoint: &Endpoint, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let options = options(endpoint, request)?;
    warnings.extend(endpoint.strategy.delete_warnings(&options));
    let name = &request.info.name;
    let at = (request.info.namespace.as_str(), name.as_str());
    let outcome = delete_named(endpoint, request, at, &options, Some(name), warnings).await?;
    let accepted = options.orphan_dependents == Some(false);
    let kept = if accepted { StatusCode::ACCEPTED } else { StatusCode::OK };
    match outcome {
        Outcome::Gone(object, _) if endpoint.resource.delete_returns_object => {
            respond::object(endpoint, request, &output, StatusCode::OK, &object)
        }
        Outcome::Gone(_, last) => {
            let status = Status::success(&endpoint.group_resource(), meta::name(&last), meta::uid(&last));
            Ok(respond::success(
                &status,
                &Output {
                    transform: negotiate::Transform::None,
                    ..output
                },
            ))
        }
        Outcome::Marked(object) => respond::object(endpoint, request, &output, kept, &object),
        Outcome::Unstored(document) => respond::tree(endpoint, request, &output, kept, &document),
    }
}

/// The options of a delete: its body, else its query.
fn options(endpoint: &Endpoint, request: &Request) -> StatusResult<Delete> {
    if request.body.is_empty() {
        return Delete::from_query(&Query::parse(&request.query));
    }
    let format = negotiate::input(&request.headers, negotiate::BUILT_IN.formats)?;
    let document =
        crate::builtin::delete_options(&endpoint.services.meta, format, &request.body).map_err(Status::bad_request)?;
    Delete::from_document(document)
}

/// Deletes an object for an action (eviction): as a DELETE with these options would.
pub async fn by_name(endpoint: &Endpoint, request: &Request, name: &str, options: &Delete) -> StatusResult<()> {
    let mut warnings = Warnings::new();
    let at = (request.info.namespace.as_str(), name);
    delete_named(endpoint, request, at, options, None, &mut warnings)
        .await
        .map(drop)
}

/// Deletes the object at a namespace and name. Admission hears of it under `told`, of what an action deletes nothing.
async fn delete_named(
    endpoint: &Endpoint,
    request: &Request,
    (namespace, name): (&str, &str),
    options: &Delete,
    told: Option<&str>,
    warnings: &mut Warnings,
) -> StatusResult<Outcome> {
    let collection = endpoint.collection()?;
    let gr = endpoint.group_resource();
    let key = collection.key(namespace, name)?;
    let mut current = collection.get_consistent(&key).await?;
    // what this delete itself has marked, to be removed next
    let mut marked_version: Option<String> = None;
    loop {
        let Some(object) = current else {
            return Err(Status::not_found(&gr, name));
        };
        if let Some(problem) = object.broken() {
            return Err(Status::internal(problem));
        }
        let old = endpoint.model.document(&object).map_err(Status::internal)?;
        let own = marked_version.as_deref() == Some(meta::resource_version(&old));
        if !own {
            check_preconditions(endpoint, options, &old)?;
        }
        let cx = endpoint.context(request, options.dry_run);
        endpoint.strategy.validate_delete(&cx, &old)?;
        let step = plan(endpoint, options, &old, cx.now);
        if let Some(told) = told.filter(|_| !own && !matches!(step, Step::Nothing)) {
            let asked = save::Asked {
                endpoint,
                model: &*endpoint.model,
                request,
                operation: Operation::Delete,
                name: told,
                options: &options.document,
                dry_run: options.dry_run,
            };
            asked.mutate(None, Some(&old), warnings).await?;
            asked.validate(None, Some(&old), warnings).await?;
        }
        let (expect, put) = match step {
            Step::Nothing => return Ok(Outcome::Unstored(old)),
            Step::Remove if options.dry_run => return Ok(Outcome::Gone(object, old)),
            Step::Remove => (Expect::Revision(object.revision()), None),
            Step::Mark(marked) | Step::MarkAndRemove(marked) if options.dry_run => {
                return Ok(Outcome::Unstored(marked));
            }
            Step::MarkAndRemove(marked) => {
                let bytes = save::encode(endpoint, marked);
                match save::swap(collection, &key, Expect::Revision(object.revision()), bytes).await {
                    Ok(stored) => {
                        marked_version = Some(stored.revision().to_string());
                        current = Some(stored);
                    }
                    Err(SwapError::Lost(fresh)) => current = fresh,
                    Err(SwapError::Failed(status)) => return Err(status),
                }
                in_time(request)?;
                continue;
            }
            Step::Mark(marked) => {
                let bytes = save::encode(endpoint, marked);
                if save::is_stored(endpoint, collection, &object, &bytes) {
                    return Ok(Outcome::Marked(object));
                }
                (Expect::Revision(object.revision()), Some(bytes))
            }
        };
        let outcome = match put {
            Some(bytes) => save::swap(collection, &key, expect, bytes).await.map(Some),
            None => save::remove(collection, &key, expect).await.map(|()| None),
        };
        match outcome {
            Ok(Some(stored)) => return Ok(Outcome::Marked(stored)),
            Ok(None) => {
                endpoint.strategy.after_delete(&cx, &old).await;
                return Ok(Outcome::Gone(object, old));
            }
            Err(SwapError::Lost(fresh)) => current = fresh,
            Err(SwapError::Failed(status)) => return Err(status),
        }
        in_time(request)?;
    }
}

fn in_time(request: &Request) -> StatusResult<()> {
    if std::time::Instant::now() < request.deadline {
        return Ok(());
    }
    Err(Status::timeout("request did not complete within requested timeout", 0))
}

fn check_preconditions(endpoint: &Endpoint, options: &Delete, old: &Value) -> StatusResult<()> {
    let kind = endpoint.model.gvk();
    let by_kind = GroupResource::new(kind.group.as_str(), kind.kind.as_str());
    let name = meta::name(old);
    let by_resource = |what: &str, wanted: &str, have: &str| {
        let detail = endpoint.strategy.precondition_failed(what, wanted, have)?;
        Some(Status::conflict(&endpoint.group_resource(), name, detail))
    };
    if let Some(uid) = options.uid.as_deref().filter(|u| *u != meta::uid(old)) {
        if let Some(refusal) = by_resource("UID", uid, meta::uid(old)) {
            return Err(refusal);
        }
        let detail = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            meta::uid(old)
        );
        return Err(Status::conflict(&by_kind, name, detail));
    }
    if let Some(version) = options
        .resource_version
        .as_deref()
        .filter(|v| *v != meta::resource_version(old))
    {
        if let Some(refusal) = by_resource("ResourceVersion", version, meta::resource_version(old)) {
            return Err(refusal);
        }
        let detail = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            meta::resource_version(old)
        );
        return Err(Status::conflict(&by_kind, name, detail));
    }
    Ok(())
}

enum Step {
    /// The object is already being deleted as asked.
    Nothing,
    /// It changes to this and stays.
    Mark(Value),
    /// It changes to this, for watchers to see, and goes.
    MarkAndRemove(Value),
    /// It goes.
    Remove,
}

/// What a delete does to an object.
fn plan(endpoint: &Endpoint, options: &Delete, old: &Value, now: Timestamp) -> Step {
    let strategy = &endpoint.strategy;
    let mut object = old.clone();
    if strategy.mark_deleting(&mut object, now) {
        return plan_held(endpoint, options, old, object);
    }
    let requested = options.grace_period_seconds.map(|s| if s < 0 { 1 } else { s });
    let graceful = match grace(endpoint, &mut object, requested, now) {
        Grace::Pending => return Step::Nothing,
        Grace::Started => true,
        Grace::None => false,
    };
    meta::set_finalizers(&mut object, collection_finalizers(endpoint, options, old));
    let pending = meta::finalizers(&object).next().is_some();
    if !graceful {
        if !pending {
            return Step::Remove;
        }
        mark(&mut object, now);
        return Step::Mark(object);
    }
    if pending || meta::deletion_grace_period(&object).unwrap_or(0) > 0 {
        Step::Mark(object)
    } else {
        Step::MarkAndRemove(object)
    }
}

/// A kind that marks its objects in its own way (namespaces): removed when nothing holds them any more.
fn plan_held(endpoint: &Endpoint, options: &Delete, old: &Value, mut marked: Value) -> Step {
    let first = meta::deletion_timestamp(old).is_none();
    if first {
        let finalizers = collection_finalizers(endpoint, options, &marked);
        meta::set_finalizers(&mut marked, finalizers);
    }
    let held = endpoint.strategy.holds_deletion(&marked) || meta::finalizers(&marked).next().is_some();
    match (held, first) {
        // the first delete never removes, whatever holds the object
        (_, true) => Step::Mark(marked),
        (false, false) => Step::Remove,
        (true, false) => Step::Nothing,
    }
}

enum Grace {
    /// The kind (or this object) has no graceful deletion.
    None,
    /// The object was given a deletion time.
    Started,
    /// It already has one that is as early.
    Pending,
}

fn grace(endpoint: &Endpoint, object: &mut Value, requested: Option<i64>, now: Timestamp) -> Grace {
    if !endpoint.resource.graceful_delete {
        return Grace::None;
    }
    if let Some(deletes_at) = meta::deletion_timestamp(object) {
        let period = meta::deletion_grace_period(object).unwrap_or(0);
        let deletes_at = time::parse_rfc3339(deletes_at);
        if period == 0 {
            return Grace::None;
        }
        let Some(requested) = requested.filter(|r| *r < period) else {
            return Grace::Pending;
        };
        let shorter = SignedDuration::from_secs(requested - period);
        let moved = deletes_at.and_then(|t| t.checked_add(shorter).ok()).unwrap_or(now);
        let (at, seconds) = if moved < now {
            (now, i64::from(requested != 0))
        } else {
            (moved, requested)
        };
        set_deletion(object, at, seconds);
        return Grace::Started;
    }
    let Some(seconds) = endpoint.strategy.grace_period(object, requested) else {
        return Grace::None;
    };
    let at = now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
    set_deletion(object, at, seconds);
    raise_generation(object);
    Grace::Started
}

fn set_deletion(object: &mut Value, at: Timestamp, seconds: i64) {
    let metadata = meta::metadata_mut(object);
    metadata.insert("deletionTimestamp", time::rfc3339(at).into());
    metadata.insert("deletionGracePeriodSeconds", Value::Int(seconds));
}

fn raise_generation(object: &mut Value) {
    let generation = meta::generation(object);
    if generation > 0 {
        meta::set_generation(object, generation + 1);
    }
}

/// Marks an object that only finalizers hold.
fn mark(object: &mut Value, now: Timestamp) {
    let marked = meta::deletion_timestamp(object).and_then(time::parse_rfc3339);
    if marked.is_none() {
        raise_generation(object);
    }
    let at = marked.filter(|t| *t <= now).unwrap_or(now);
    set_deletion(object, at, 0);
}

/// The finalizers of an object as garbage collection wants them for this delete.
fn collection_finalizers(endpoint: &Endpoint, options: &Delete, old: &Value) -> Vec<String> {
    let have: Vec<String> = meta::finalizers(old).map(str::to_owned).collect();
    if endpoint.resource.dependents == Dependents::Unsupported {
        return have;
    }
    let has = |f: &str| have.iter().any(|h| h == f);
    let orphan = match (options.orphan_dependents, options.propagation) {
        (Some(orphan), _) => orphan,
        (None, Some(policy)) => policy == Propagation::Orphan,
        (None, None) => {
            // the first of the two that stands decides
            match have.iter().find(|f| matches!(f.as_str(), ORPHAN | FOREGROUND)) {
                Some(f) => f == ORPHAN,
                None => endpoint.resource.dependents == Dependents::Orphan,
            }
        }
    };
    let foreground = match (options.orphan_dependents, options.propagation) {
        (Some(_), _) => false,
        (None, Some(policy)) => policy == Propagation::Foreground,
        (None, None) => have
            .iter()
            .find(|f| matches!(f.as_str(), ORPHAN | FOREGROUND))
            .is_some_and(|f| f == FOREGROUND),
    };
    let mut wanted: Vec<String> = have
        .iter()
        .filter(|f| !matches!(f.as_str(), ORPHAN | FOREGROUND))
        .cloned()
        .collect();
    wanted.extend(orphan.then(|| ORPHAN.to_owned()));
    wanted.extend(foreground.then(|| FOREGROUND.to_owned()));
    let unchanged = has(ORPHAN) == orphan && has(FOREGROUND) == foreground;
    if unchanged { have } else { wanted }
}

/// Deletes everything selected; answers the list of it.
pub async fn delete_collection(
    endpoint: &Endpoint,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let list_options = List::parse(&Query::parse(&request.query), false)?;
    let selection = Selection::of(endpoint, &list_options, &request.info)?;
    let options = options(endpoint, request)?;
    warnings.extend(endpoint.strategy.delete_warnings(&options));
    let listing = read::find(endpoint, &list_options, selection, &request.info.namespace).await?;
    for object in listing.objects() {
        let (name, namespace) = (object.name().to_owned(), object.namespace().into_owned());
        // of one among many admission is not told the name
        let outcome = delete_named(endpoint, request, (&namespace, &name), &options, Some(""), warnings).await;
        match outcome {
            Err(status) if status.reason != "NotFound" => return Err(status),
            _ => {}
        }
    }
    read::answer(endpoint, request, &output, listing)
}
