//! PUT, and the loop that every change of an existing object runs in.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use triptych_object::{RequestInfo, Status, StatusResult, Value, meta};
use triptych_storage::{Expect, Object};

use crate::admission::{Operation, Warnings};
use crate::endpoint::Endpoint;
use crate::model::Stored;
use crate::object_meta;
use crate::options::{Query, Write, WriteKind};
use crate::request::{Request, Response};
use crate::respond;
use crate::strategy::{Context, Reservations, Strategy};
use crate::write::save::{self, Saved, SwapError};
use crate::write::{Candidate, decode, dedup_owners, fields};

/// What an update that named an older resource version is told.
pub const OPTIMISTIC_LOCK: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Replaces an object with a request's body.
pub async fn update(
    endpoint: &Endpoint,
    strategy: &Arc<dyn Strategy>,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let options = Write::parse(&Query::parse(&request.query), WriteKind::Update)?;
    let Candidate {
        document: mut object,
        empties,
    } = decode(&*endpoint.model, request, options.field_validation, warnings)?;
    let namespace = if endpoint.resource.namespaced {
        request.info.namespace.as_str()
    } else {
        ""
    };
    object_meta::ensure_namespace(&mut object, namespace)?;
    object_meta::check_name(&object, &request.info.name, &request.info.namespace)?;
    dedup_owners(&mut object, false, warnings);
    let uid = Some(meta::uid(&object).to_owned()).filter(|u| !u.is_empty());
    let change = Change {
        endpoint,
        strategy,
        request,
        options: &options,
        uid,
        allow_create: request.info.subresource.is_empty() && endpoint.resource.create_on_update,
    };
    let manager = &options.field_manager;
    let make = |live: Option<Value>| -> BoxFuture<'_, StatusResult<(Candidate, Warnings)>> {
        let new = Candidate {
            document: object.clone(),
            empties: empties.clone(),
        };
        Box::pin(async move {
            let new = new.owned(&endpoint.fields(request), live.as_ref(), manager)?;
            Ok((new, Warnings::new()))
        })
    };
    let (saved, created) = change.run(make, warnings).await?;
    finish(endpoint, request, &output, saved, created)
}

/// The answer of an update or patch.
pub fn finish(
    endpoint: &Endpoint,
    request: &Request,
    output: &crate::negotiate::Output,
    saved: Saved,
    created: bool,
) -> StatusResult<Response> {
    let code = if created { StatusCode::CREATED } else { StatusCode::OK };
    match saved {
        Saved::Stored(object) => respond::object(endpoint, request, output, code, &object),
        Saved::Dry(document) => respond::tree(endpoint, request, output, code, &document),
    }
}

/// A change of one object, whoever makes the new content.
pub struct Change<'a> {
    /// The resource.
    pub endpoint: &'a Endpoint,
    /// Its strategy, or that of the subresource.
    pub strategy: &'a Arc<dyn Strategy>,
    /// The request.
    pub request: &'a Request,
    /// Its options.
    pub options: &'a Write,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object is created if it does not exist.
    pub allow_create: bool,
}

enum Attempt {
    /// Equal to what is stored.
    Unchanged,
    /// Done.
    Saved(Saved, bool),
    /// Somebody else wrote first.
    Lost(Option<Arc<Object>>),
}

impl Change<'_> {
    /// Makes the new content from the live object (`None` if there is none) with `make`, which may run several times.
    pub async fn run<'m>(
        &self,
        mut make: impl FnMut(Option<Value>) -> BoxFuture<'m, StatusResult<(Candidate, Warnings)>>,
        warnings: &mut Warnings,
    ) -> StatusResult<(Saved, bool)> {
        let collection = self.endpoint.collection()?;
        let info = &self.request.info;
        let key = collection.key(&info.namespace, &info.name)?;
        // what the cache has may be old; an outcome that rests on it is checked against the store
        let mut current = collection.cache.get(&key).ok().flatten();
        let mut live = false;
        if current.is_none() {
            current = collection.get_live(&key).await?.0;
            live = true;
        }
        loop {
            let mut own = Warnings::new();
            let outcome = self.attempt(&key, current.as_ref(), &mut make, &mut own).await;
            if !live && !matches!(outcome, Ok(Attempt::Saved(..) | Attempt::Lost(_))) {
                let fresh = collection.get_live(&key).await?.0;
                live = true;
                if fresh.as_ref().map(|o| o.revision()) != current.as_ref().map(|o| o.revision()) {
                    current = fresh;
                    continue;
                }
            }
            // what was found on the way is told even if the write fails
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(status) => {
                    warnings.append(&mut own);
                    return Err(status);
                }
            };
            match outcome {
                Attempt::Lost(fresh) => {
                    current = fresh;
                    live = true;
                    if std::time::Instant::now() >= self.request.deadline {
                        return Err(Status::timeout("request did not complete within requested timeout", 0));
                    }
                }
                Attempt::Unchanged => {
                    warnings.append(&mut own);
                    let current = current.ok_or_else(|| Status::internal("an absent object cannot be unchanged"))?;
                    return Ok((Saved::Stored(current), false));
                }
                Attempt::Saved(saved, created) => {
                    warnings.append(&mut own);
                    return Ok((saved, created));
                }
            }
        }
    }

    async fn attempt<'m>(
        &self,
        key: &str,
        current: Option<&Arc<Object>>,
        make: &mut impl FnMut(Option<Value>) -> BoxFuture<'m, StatusResult<(Candidate, Warnings)>>,
        warnings: &mut Warnings,
    ) -> StatusResult<Attempt> {
        let mut taken = Reservations::default();
        let outcome = self.try_once(key, current, make, warnings, &mut taken).await;
        taken
            .end(matches!(outcome, Ok(Attempt::Saved(Saved::Stored(_), false))))
            .await;
        outcome
    }

    async fn try_once<'m>(
        &self,
        key: &str,
        current: Option<&Arc<Object>>,
        make: &mut impl FnMut(Option<Value>) -> BoxFuture<'m, StatusResult<(Candidate, Warnings)>>,
        warnings: &mut Warnings,
        reservations: &mut Reservations,
    ) -> StatusResult<Attempt> {
        let info = &self.request.info;
        let gr = self.endpoint.group_resource();
        let Some(current) = current else {
            // what has no type of its own is not looked at where there is nothing
            if let Some(uid) = self.uid.as_ref().filter(|_| self.endpoint.model.bare_items()) {
                let detail = precondition_failed(key, "UID", uid, "");
                return Err(Status::conflict(&gr, &info.name, detail));
            }
            if !self.allow_create {
                return Err(Status::not_found(&gr, &info.name));
            }
            return self.create(make, warnings).await;
        };
        if let Some(problem) = current.broken() {
            return Err(Status::internal(problem));
        }
        let old = self.endpoint.model.document(current).map_err(Status::internal)?;
        if let Some(uid) = self.uid.as_ref().filter(|uid| *uid != meta::uid(&old)) {
            let detail = precondition_failed(key, "UID", uid, meta::uid(&old));
            return Err(Status::conflict(&gr, &info.name, detail));
        }
        let (mut candidate, mut found) = make(Some(old.clone())).await?;
        let new = &mut candidate.document;
        warnings.append(&mut found);
        let dry_run = self.options.dry_run;
        self.asked(Operation::Update)
            .mutate(Some(&mut *new), Some(&old), warnings)
            .await?;
        dedup_owners(new, true, warnings);
        self.check_version(new, &old)?;
        let cx = self.endpoint.context(self.request, dry_run);
        let mut new = save::prepare_update(
            self.endpoint,
            self.strategy,
            self.request,
            &cx,
            candidate,
            &old,
            &self.options.document,
            warnings,
            reservations,
        )
        .await?;
        fields::ignore_timestamps(&mut new, &old);

        if self.emptied(&new, &old) {
            return self.delete(key, current, new, &cx).await;
        }
        if dry_run {
            return Ok(Attempt::Saved(Saved::Dry(new), false));
        }
        // members may have changed places
        let same = new == old && self.endpoint.model.stored() != Stored::Converted;
        let bytes = save::encode(self.endpoint, new);
        if same || save::is_stored(self.endpoint, self.endpoint.collection()?, current, &bytes) {
            return Ok(Attempt::Unchanged);
        }
        match save::swap(
            self.endpoint.collection()?,
            key,
            Expect::Revision(current.revision()),
            bytes,
        )
        .await
        {
            Ok(stored) => Ok(Attempt::Saved(Saved::Stored(stored), false)),
            Err(SwapError::Lost(fresh)) => Ok(Attempt::Lost(fresh)),
            Err(SwapError::Failed(status)) => Err(status),
        }
    }

    /// Create on update, and apply of what does not exist.
    async fn create<'m>(
        &self,
        make: &mut impl FnMut(Option<Value>) -> BoxFuture<'m, StatusResult<(Candidate, Warnings)>>,
        warnings: &mut Warnings,
    ) -> StatusResult<Attempt> {
        let info = &self.request.info;
        let gr = self.endpoint.group_resource();
        let (mut candidate, mut found) = make(None).await?;
        let new = &mut candidate.document;
        warnings.append(&mut found);
        if !meta::uid(new).is_empty() {
            let detail = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                meta::uid(new)
            );
            return Err(Status::conflict(&gr, &info.name, detail));
        }
        let options = &self.options.document;
        let dry_run = self.options.dry_run;
        self.asked(Operation::Create)
            .mutate(Some(&mut *new), None, warnings)
            .await?;
        dedup_owners(new, true, warnings);
        // unlike a plain create, this way of creating does not mind
        new.remove_at(&["metadata", "resourceVersion"]);
        let asked = RequestInfo {
            verb: "create".into(),
            ..info.clone()
        };
        self.endpoint.services.permit.permit(&self.request.user, &asked).await?;
        match save::create(self.endpoint, self.request, dry_run, candidate, options, warnings).await {
            Ok(saved) => Ok(Attempt::Saved(saved, true)),
            Err(status) if status.reason == "AlreadyExists" => {
                let collection = self.endpoint.collection()?;
                let key = collection.key(&info.namespace, &info.name)?;
                Ok(Attempt::Lost(collection.get_live(&key).await?.0))
            }
            Err(status) => Err(status),
        }
    }

    fn asked(&self, operation: Operation) -> save::Asked<'_> {
        save::Asked {
            endpoint: self.endpoint,
            model: &*self.endpoint.model,
            request: self.request,
            operation,
            name: &self.request.info.name,
            options: &self.options.document,
            dry_run: self.options.dry_run,
        }
    }

    /// The resource version named by the client must be the live one; some kinds may leave it out.
    fn check_version(&self, new: &mut Value, old: &Value) -> StatusResult<()> {
        let gr = self.endpoint.group_resource();
        let named = meta::resource_version(new).to_owned();
        let number = match named.as_str() {
            "" => 0,
            text => crate::options::parse_uint(text).map_err(Status::unknown)?,
        };
        if number == 0 && self.endpoint.resource.unconditional_update {
            meta::set_text(new, "resourceVersion", meta::resource_version(old));
            return Ok(());
        }
        if number == 0 {
            let detail = "must be specified for an update";
            let error = triptych_object::field::Error::invalid("metadata.resourceVersion", Value::Int(0), detail);
            let kind = triptych_object::GroupKind::new(gr.group, gr.resource);
            let errors = std::iter::once(error).collect();
            return Err(Status::invalid(&kind, &self.request.info.name, &errors));
        }
        if named != meta::resource_version(old) {
            return Err(Status::conflict(&gr, &self.request.info.name, OPTIMISTIC_LOCK));
        }
        Ok(())
    }

    /// True if this update takes the last thing that held an object being deleted.
    fn emptied(&self, new: &Value, old: &Value) -> bool {
        meta::finalizers(new).next().is_none()
            && meta::deletion_timestamp(old).is_some()
            && meta::deletion_grace_period(old).unwrap_or(0) == 0
            && !self.strategy.holds_deletion(new)
    }

    async fn delete(&self, key: &str, current: &Arc<Object>, new: Value, cx: &Context) -> StatusResult<Attempt> {
        if cx.dry_run {
            return Ok(Attempt::Saved(Saved::Dry(new), false));
        }
        let expect = Expect::Revision(current.revision());
        match save::remove(self.endpoint.collection()?, key, expect).await {
            Ok(()) => {
                self.strategy.after_delete(cx, &new).await;
                Ok(Attempt::Saved(Saved::Dry(new), false))
            }
            Err(SwapError::Lost(fresh)) => Ok(Attempt::Lost(fresh)),
            Err(SwapError::Failed(status)) => Err(status),
        }
    }
}

/// The storage layer's text of a precondition that does not hold.
pub fn precondition_failed(key: &str, what: &str, wanted: &str, have: &str) -> String {
    format!(
        "StorageError: invalid object, Code: 4, Key: /registry{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}"
    )
}
