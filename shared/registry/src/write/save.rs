//! From a candidate object to stored bytes: prepare, validate, reserve, admit, swap.
//!
//! Contract: nothing here knows where the candidate came from (a body, a patch, an applied configuration). A
//! [`Reservation`](crate::strategy::Reservation) lives until the outcome of the swap is known.

use std::sync::Arc;

use bytes::Bytes;
use triptych_object::field::ErrorList;
use triptych_object::{Gvr, Status, StatusResult, Value, meta};
use triptych_schema::managed::entries;
use triptych_storage::{Entry, Expect, Object, Revision, Write, WriteError};

use crate::admission::{Attributes, Operation, Warnings};
use crate::collection::{Collection, storage_status};
use crate::endpoint::{Endpoint, Subhandler};
use crate::model::Model;
use crate::object_meta::{self, Naming, RepeatedMetaChecks};
use crate::request::Request;
use crate::scale::Scale;
use crate::strategy::{Context, Reservations, Strategy};
use crate::write::{Candidate, paths};

/// What became of a candidate.
pub enum Saved {
    /// It is stored (or what is stored is equal to it).
    Stored(Arc<Object>),
    /// It would have been.
    Dry(Value),
}

/// Prepares and checks a new object, and stores it.
pub async fn create(
    endpoint: &Endpoint,
    request: &Request,
    dry_run: bool,
    candidate: Candidate,
    options: &Value,
    warnings: &mut Warnings,
) -> StatusResult<Saved> {
    let mut taken = Reservations::default();
    let outcome = try_create(endpoint, request, dry_run, candidate, options, warnings, &mut taken).await;
    taken.end(matches!(outcome, Ok(Saved::Stored(_)))).await;
    outcome
}

async fn try_create(
    endpoint: &Endpoint,
    request: &Request,
    dry_run: bool,
    candidate: Candidate,
    options: &Value,
    warnings: &mut Warnings,
    reservations: &mut Reservations,
) -> StatusResult<Saved> {
    let Candidate {
        document: mut object,
        empties,
    } = candidate;
    let collection = endpoint.collection()?;
    let cx = endpoint.context(request, dry_run);
    object_meta::fill_system_fields(&mut object, cx.now);
    let prefix = meta::text(&object, "generateName").to_owned();
    let generated = !prefix.is_empty() && meta::name(&object).is_empty();
    if generated {
        meta::set_text(&mut object, "name", object_meta::generate_name(&prefix));
    }
    object_meta::ensure_namespace(&mut object, &cx.namespace)?;
    reservations.add(endpoint.strategy.begin(&cx, &mut object, None).await?);
    for path in &endpoint.resource.clear_on_create {
        clear(endpoint, &mut object, path);
    }
    endpoint.strategy.prepare_create(&cx, &mut object);
    // kinds without a generation keep what the client says
    if endpoint.resource.first_generation > 0 {
        meta::set_generation(&mut object, i64::from(endpoint.resource.first_generation));
    }
    finish(endpoint, &mut object, None);

    let mut errors = ErrorList::about(&empties);
    let naming = Naming::Kind(endpoint.resource.name_rule, endpoint.resource.name_limit);
    if endpoint.strategy.meta_checks_on_create() {
        object_meta::validate(&object, endpoint.resource.namespaced, naming, &mut errors);
    }
    let standard_finalizers = endpoint.model.bare_items() && endpoint.strategy.standard_finalizers();
    if standard_finalizers {
        object_meta::validate_standard_finalizers(&object, &mut errors);
    }
    endpoint.model.validate(&object, None, &mut errors);
    endpoint.strategy.validate_create(&cx, &object, &mut errors);
    invalid(endpoint, &object, errors)?;
    let mut errors = ErrorList::new();
    object_meta::validate(&object, endpoint.resource.namespaced, Naming::PathSegment, &mut errors);
    invalid(endpoint, &object, errors)?;
    warnings.extend(endpoint.strategy.warnings(&cx, &object, None));

    let name = meta::name(&object).to_owned();
    let key = collection.key(&cx.namespace, &name)?;
    reservations.add(endpoint.strategy.reserve(&cx, &mut object, None).await?);
    let asked = Asked {
        endpoint,
        model: &*endpoint.model,
        request,
        operation: Operation::Create,
        name: &name,
        options,
        dry_run,
    };
    asked.validate(Some(&object), None, warnings).await?;
    if !meta::resource_version(&object).is_empty() {
        return Err(Status::unknown(
            "resourceVersion should not be set on objects to be created",
        ));
    }

    let taken = |current: Option<Arc<Object>>| {
        let status = if generated {
            Status::generate_name_conflict(&endpoint.group_resource(), &name, 1)
        } else {
            Status::already_exists(&endpoint.group_resource(), &name)
        };
        let deleting = current.is_some_and(|o| o.metadata_field("deletionTimestamp").is_some());
        if deleting {
            let message = format!("object is being deleted: {}", status.message);
            return status.with_message(message);
        }
        status
    };
    if dry_run {
        let current = collection.get_consistent(&key).await?;
        return if current.is_some() {
            Err(taken(current))
        } else {
            Ok(Saved::Dry(object))
        };
    }
    let bytes = encode(endpoint, object);
    match swap(collection, &key, Expect::Absent, bytes).await {
        Ok(stored) => Ok(Saved::Stored(stored)),
        Err(SwapError::Lost(current)) => Err(taken(current)),
        Err(SwapError::Failed(status)) => Err(status),
    }
}

/// Prepares and checks the update of an existing object; the candidate in its final form.
#[allow(clippy::too_many_arguments)] // one step of one path: bundling its inputs would only rename them
pub async fn prepare_update(
    endpoint: &Endpoint,
    strategy: &Arc<dyn Strategy>,
    request: &Request,
    cx: &Context,
    candidate: Candidate,
    old: &Value,
    options: &Value,
    warnings: &mut Warnings,
    reservations: &mut Reservations,
) -> StatusResult<Value> {
    let Candidate {
        document: mut new,
        empties,
    } = candidate;
    object_meta::ensure_namespace(&mut new, &cx.namespace)?;
    reservations.add(strategy.begin(cx, &mut new, Some(old)).await?);
    meta::set_generation(&mut new, meta::generation(old));
    let watched = restrict(endpoint, cx, &mut new, old);
    strategy.prepare_update(cx, &mut new, old);
    if watched.iter().any(|path| paths::differs(&new, old, path)) {
        meta::set_generation(&mut new, meta::generation(old) + 1);
    }
    keep_system_fields(&mut new, old);
    finish(endpoint, &mut new, Some(old));

    let mut errors = ErrorList::about(&empties);
    let namespaced = endpoint.resource.namespaced;
    object_meta::validate(&new, namespaced, Naming::PathSegment, &mut errors);
    object_meta::validate_update(&new, old, &mut errors);
    let repeated = strategy.repeated_meta_checks();
    let standard_finalizers = endpoint.model.bare_items() && strategy.standard_finalizers();
    if matches!(
        repeated,
        RepeatedMetaChecks::Update | RepeatedMetaChecks::UpdateAndWhole
    ) {
        object_meta::validate_update(&new, old, &mut errors);
        if standard_finalizers {
            object_meta::validate_standard_finalizers(&new, &mut errors);
        }
    }
    if matches!(repeated, RepeatedMetaChecks::Whole | RepeatedMetaChecks::UpdateAndWhole) {
        let naming = Naming::Kind(endpoint.resource.name_rule, endpoint.resource.name_limit);
        object_meta::validate(&new, namespaced, naming, &mut errors);
        if standard_finalizers {
            object_meta::validate_standard_finalizers(&new, &mut errors);
        }
    }
    endpoint.model.validate(&new, Some(old), &mut errors);
    strategy.validate_update(cx, &new, old, &mut errors);
    let tolerated: Vec<String> = errors.tolerated().iter().map(ToString::to_string).collect();
    invalid(endpoint, &new, errors)?;
    warnings.extend(tolerated);
    warnings.extend(strategy.warnings(cx, &new, Some(old)));
    reservations.add(strategy.reserve(cx, &mut new, Some(old)).await?);
    let name = meta::name(&new).to_owned();
    let asked = Asked {
        endpoint,
        model: &*endpoint.model,
        request,
        operation: Operation::Update,
        name: &name,
        options,
        dry_run: cx.dry_run,
    };
    asked.validate(Some(&new), Some(old), warnings).await?;
    Ok(new)
}

/// Clears what a path names, leaving what is always written.
fn clear(endpoint: &Endpoint, document: &mut Value, path: &str) {
    paths::clear(document, path);
    let steps: Vec<&str> = path.split('.').collect();
    if let Some(written) = endpoint.model.cleared(&steps) {
        document.set_at(&steps, written);
    }
}

/// Puts back the form that documents are kept in: what was cleared shows as Go's zero, members stand in Go's order, so
/// that equal objects are equal bytes.
fn finish(endpoint: &Endpoint, object: &mut Value, old: Option<&Value>) {
    meta::set_text(object, "selfLink", "");
    endpoint.model.finish(object, old);
    // the zero time says no more than none
    if object
        .at(&["metadata", "deletionTimestamp"])
        .is_some_and(Value::is_null)
    {
        object.remove_at(&["metadata", "deletionTimestamp"]);
    }
    if !endpoint.model.bare_items() {
        // custom resources keep their members' order; what the server itself writes has one
        meta::metadata_mut(object).sort();
    }
}

/// Keeps and clears what the resource record says of updates; the paths whose change raises the generation.
fn restrict<'a>(
    endpoint: &'a Endpoint,
    cx: &Context,
    new: &mut Value,
    old: &Value,
) -> &'a [triptych_schema::types::Name] {
    // a scale writes the object itself, by another shape
    if matches!(cx.subresource.as_str(), "" | "scale") {
        for path in &endpoint.resource.keep_on_update {
            paths::keep(new, old, path, &[]);
        }
        for path in &endpoint.resource.clear_on_update {
            clear(endpoint, new, path);
        }
        return &endpoint.resource.generation;
    }
    match endpoint.resource.subresource(&cx.subresource) {
        Some(sub) => {
            let except: Vec<&str> = sub.except.iter().map(|e| &**e).collect();
            for path in &sub.keep {
                // a subresource that keeps all metadata still hears of its resourceVersion and managers
                if path == "metadata" {
                    keep_metadata(new, old);
                } else {
                    paths::keep(new, old, path, &except);
                }
            }
            &sub.generation
        }
        None => &[],
    }
}

fn keep_metadata(new: &mut Value, old: &Value) {
    let moving = ["resourceVersion", "managedFields"];
    let kept: Vec<Option<Value>> = moving.iter().map(|m| new.at(&["metadata", m]).cloned()).collect();
    paths::keep(new, old, "metadata", &[]);
    for (member, value) in moving.iter().zip(kept) {
        match value {
            Some(value) => new.set_at(&["metadata", member], value),
            None => drop(new.remove_at(&["metadata", member])),
        }
    }
}

/// What an update cannot change and need not repeat.
fn keep_system_fields(new: &mut Value, old: &Value) {
    new.remove_at(&["metadata", "selfLink"]);
    if meta::uid(new).is_empty() {
        meta::set_text(new, "uid", meta::uid(old));
    }
    for member in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(value) = old.at(&["metadata", member]).filter(|v| !v.is_null()) {
            new.set_at(&["metadata", member], value.clone());
        }
    }
    let grace = ["metadata", "deletionGracePeriodSeconds"];
    if let (Some(value), None) = (old.at(&grace), new.at(&grace)) {
        new.set_at(&grace, value.clone());
    }
}

/// 422 if anything was found.
pub fn invalid(endpoint: &Endpoint, object: &Value, errors: ErrorList) -> StatusResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    // a custom resource is called what it calls itself, right or wrong
    let mut kind = match endpoint.model.bare_items() {
        true => endpoint.model.gvk().group_kind(),
        false => meta::gvk(object).group_kind(),
    };
    if let Some(group) = endpoint.strategy.group_in_texts() {
        kind.group = group.into();
    }
    Err(Status::invalid(&kind, meta::name(object), &errors))
}

/// What a write asks of the admission chain.
pub struct Asked<'a> {
    /// Where the request goes.
    pub endpoint: &'a Endpoint,
    /// Whose kind the object is of: the endpoint's model, except for documents that are done and not stored.
    pub model: &'a dyn Model,
    /// The request.
    pub request: &'a Request,
    /// What is done.
    pub operation: Operation,
    /// The object's name; empty if it is yet to be generated.
    pub name: &'a str,
    /// The request's options as a document.
    pub options: &'a Value,
    /// Nothing is to be stored.
    pub dry_run: bool,
}

impl Asked<'_> {
    /// Runs the mutating plugins on a candidate.
    pub async fn mutate(
        &self,
        object: Option<&mut Value>,
        old: Option<&Value>,
        warnings: &mut Warnings,
    ) -> StatusResult<()> {
        let gvr = self.endpoint.gvr();
        let admission = &self.endpoint.services.admission;
        if admission.ignores(self.operation, &gvr) {
            return Ok(());
        }
        let Some(object) = object else {
            return admission.mutate(&self.attributes(&gvr), None, old, warnings).await;
        };
        if let Some(scale) = self.scale() {
            let (mut shown, old) = (scale.of(object), old.map(|old| scale.of(old)));
            let before = shown.clone();
            admission
                .mutate(&self.attributes(&gvr), Some(&mut shown), old.as_ref(), warnings)
                .await?;
            if shown != before {
                scale.put_back(&shown, object);
            }
            return Ok(());
        }
        const MANAGED: [&str; 2] = ["metadata", "managedFields"];
        let before = object.at(&MANAGED).cloned();
        admission
            .mutate(&self.attributes(&gvr), Some(object), old, warnings)
            .await?;
        if let Err(why) = entries::check(entries::list_of(object)) {
            warnings.push(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating admission controller; please fix your requests: {why}"
            ));
            match before {
                Some(before) => object.set_at(&MANAGED, before),
                None => drop(object.remove_at(&MANAGED)),
            }
        }
        Ok(())
    }

    /// Runs the validating plugins.
    pub async fn validate(
        &self,
        object: Option<&Value>,
        old: Option<&Value>,
        warnings: &mut Warnings,
    ) -> StatusResult<()> {
        let gvr = self.endpoint.gvr();
        let admission = &self.endpoint.services.admission;
        if admission.ignores(self.operation, &gvr) {
            return Ok(());
        }
        if let Some(scale) = self.scale() {
            let (shown, old) = (object.map(|object| scale.of(object)), old.map(|old| scale.of(old)));
            let attributes = self.attributes(&gvr);
            return admission
                .validate(&attributes, shown.as_ref(), old.as_ref(), warnings)
                .await;
        }
        admission.validate(&self.attributes(&gvr), object, old, warnings).await
    }

    /// Admission sees a write through `scale` as one of a Scale.
    fn scale(&self) -> Option<&Scale> {
        match self.endpoint.subresources.get(&self.request.info.subresource) {
            Some(Subhandler::Scale(scale)) => Some(scale),
            _ => None,
        }
    }

    fn attributes<'a>(&'a self, resource: &'a Gvr) -> Attributes<'a> {
        let model = self.scale().map_or(self.model, |scale| &*scale.model);
        Attributes {
            operation: self.operation,
            resource,
            subresource: &self.request.info.subresource,
            kind: model.gvk(),
            namespace: self.namespace(),
            name: self.name,
            user: &self.request.user,
            dry_run: self.dry_run,
            options: Some(self.options),
            model,
            deadline: self.request.deadline,
        }
    }

    /// The namespace admission hears of; a namespace lies in itself, also while it is created.
    fn namespace(&self) -> &str {
        let namespace = &self.request.info.namespace;
        let kind = self.model.gvk();
        let itself = kind.group.is_empty() && kind.kind == "Namespace";
        if itself && namespace.is_empty() {
            self.name
        } else {
            namespace
        }
    }
}

/// The bytes of a document as they are stored: in the stored version, without resourceVersion.
pub fn encode(endpoint: &Endpoint, mut document: Value) -> Bytes {
    document.remove_at(&["metadata", "resourceVersion"]);
    let stored = endpoint.model.to_stored(document);
    endpoint.model.encode_stored(&stored)
}

/// True if bytes about to be written say what is stored.
pub fn is_stored(endpoint: &Endpoint, collection: &Collection, current: &Object, bytes: &Bytes) -> bool {
    if current.is_same_as(bytes) {
        return true;
    }
    if !endpoint.model.stores_another_form() {
        return false;
    }
    let entry = Entry {
        key: current.key().clone(),
        revision: current.revision(),
        value: bytes.clone(),
    };
    collection.cache.ingest(&entry).bytes() == current.bytes()
}

/// Why a swap did not happen.
pub enum SwapError {
    /// Somebody else wrote first; what is there now.
    Lost(Option<Arc<Object>>),
    /// The store failed.
    Failed(Box<Status>),
}

/// Writes if the key is as expected; the object as just stored.
pub async fn swap(collection: &Collection, key: &str, expect: Expect, value: Bytes) -> Result<Arc<Object>, SwapError> {
    let revision = write(collection, key, expect, Some(value.clone())).await?;
    Ok(collection.cache.ingest(&Entry {
        key: key.into(),
        revision,
        value,
    }))
}

/// Deletes if the key is as expected.
pub async fn remove(collection: &Collection, key: &str, expect: Expect) -> Result<(), SwapError> {
    write(collection, key, expect, None).await.map(drop)
}

async fn write(collection: &Collection, key: &str, expect: Expect, put: Option<Bytes>) -> Result<Revision, SwapError> {
    let ttl = collection.ttl;
    let outcome = collection.store.write(Write { key, expect, put, ttl }).await;
    outcome.map_err(|e| match e {
        WriteError::Conflict(conflict) => {
            SwapError::Lost(conflict.current.map(|entry| collection.cache.ingest(&entry)))
        }
        WriteError::Store(e) => SwapError::Failed(storage_status(&e)),
    })
}
