//! What is particular to a kind: the one trait that a kind's code implements, every method with a default.
//!
//! Contract: methods are synchronous and pure; they see trees that are normalised and defaulted. `prepare_*` may change
//! the new object, `validate_*` only reports, and reports everything. What needs another object or must be undone
//! (address allocation, quota) is a [`Reservation`], taken after validation and committed after the write.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::field::ErrorList;
use triptych_object::{StatusResult, UserInfo, Value};

use crate::object_meta::RepeatedMetaChecks;
use crate::options::Delete;

/// What a strategy may know of the request besides the objects.
#[derive(Clone, Debug)]
pub struct Context {
    /// The request's time; one value for all times written by one request.
    pub now: Timestamp,
    /// The effective user.
    pub user: Arc<UserInfo>,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// API version of the request (`v1`, `v2` …); the object is in this version.
    pub version: String,
    /// Empty for the resource itself.
    pub subresource: String,
    /// Nothing will be stored.
    pub dry_run: bool,
}

/// Something taken for an object that is about to be written. Whoever makes one sees to it that one that is merely
/// dropped, because its request was given up, is released too.
pub trait Reservation: Send {
    /// The write succeeded: what was taken is kept, and what the old object held and the new one does not is released.
    fn commit(self: Box<Self>) -> BoxFuture<'static, ()>;

    /// The write did not happen: what was taken is given back.
    fn release(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Everything taken for one write.
#[derive(Default)]
pub struct Reservations(Vec<Box<dyn Reservation>>);

impl Reservations {
    /// Adds what a step took, if anything.
    pub fn add(&mut self, taken: Option<Box<dyn Reservation>>) {
        self.0.extend(taken);
    }

    /// Ends them all: commits if the object was stored.
    pub async fn end(self, stored: bool) {
        for taken in self.0 {
            if stored {
                taken.commit().await
            } else {
                taken.release().await
            }
        }
    }
}

/// One kind's particulars; also used for its subresources that store the kind (status, ephemeralcontainers, resize).
pub trait Strategy: Send + Sync + 'static {
    /// Defaults that depend on other fields; runs after table defaults, on every decoded object.
    fn default(&self, _object: &mut Value) {}

    /// Takes and fills in what the kind allocates, before the object is prepared and validated, because validation sees
    /// it (kube-apiserver's `BeginCreate` and `BeginUpdate`).
    fn begin<'a>(
        &'a self,
        _cx: &'a Context,
        _new: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Clears and sets what a client may not decide on create.
    fn prepare_create(&self, _cx: &Context, _new: &mut Value) {}

    /// Reports everything wrong with a new object.
    fn validate_create(&self, _cx: &Context, _new: &Value, _errors: &mut ErrorList) {}

    /// Keeps from `old` what an update may not change.
    fn prepare_update(&self, _cx: &Context, _new: &mut Value, _old: &Value) {}

    /// Reports everything wrong with an update.
    fn validate_update(&self, _cx: &Context, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    /// Which metadata checks kube-apiserver's validator of this kind repeats on update; each repetition shows as causes.
    fn repeated_meta_checks(&self) -> RepeatedMetaChecks {
        RepeatedMetaChecks::default()
    }

    /// What every request for the resource is warned of: that it is deprecated.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// Whether there are tables of what a subresource shows; for a few kube-apiserver has none.
    fn shows_tables(&self) -> bool {
        true
    }

    /// Whether kube-apiserver has a watch cache of the objects, which words some refusals.
    fn cached(&self) -> bool {
        true
    }

    /// The group by which refusals of an object name its kind, if it is not the resource's own.
    fn group_in_texts(&self) -> Option<&'static str> {
        None
    }

    /// Whether the kind's validator looks at a new object's metadata before the common rules do (it always names more).
    fn meta_checks_on_create(&self) -> bool {
        true
    }

    /// Whether the kind's validator wants finalizers without a domain to be standard ones.
    fn standard_finalizers(&self) -> bool {
        true
    }

    /// `Warning` header texts of a create (`old` is `None`) or update.
    fn warnings(&self, _cx: &Context, _new: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// Grace period of a delete in seconds; `None` if this object goes at once. `requested` is the client's.
    fn grace_period(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// True while something besides `metadata.finalizers` holds an object that is being deleted (a namespace's
    /// `spec.finalizers`).
    fn holds_deletion(&self, _object: &Value) -> bool {
        false
    }

    /// Marks a held object as being deleted in the kind's own way; false for the common way.
    fn mark_deleting(&self, _object: &mut Value, _now: Timestamp) -> bool {
        false
    }

    /// The cells of this object's row in a Table, one for each column of the resource.
    fn cells(&self, _object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        None
    }

    /// The row's conditions in a Table (`Completed` of a finished pod).
    fn row_conditions(&self, _object: &Value) -> Option<Value> {
        None
    }

    /// What a field selector with this unknown label is answered, if the kind has words of its own.
    fn unknown_field_label(&self, _label: &str) -> Option<String> {
        None
    }

    /// Told to whoever deletes with these options.
    fn delete_warnings(&self, _options: &Delete) -> Vec<String> {
        Vec::new()
    }

    /// Annotations that are fields inside the server: tables and metadata alone do not show them.
    fn internal_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// What a delete is told whose precondition (`UID`, `ResourceVersion`) does not hold, by kinds that look themselves.
    fn precondition_failed(&self, _what: &str, _wanted: &str, _have: &str) -> Option<String> {
        None
    }

    /// Checked before a delete, with the object as stored.
    fn validate_delete(&self, _cx: &Context, _object: &Value) -> StatusResult<()> {
        Ok(())
    }

    /// Takes what a valid object needs from elsewhere and may write what was taken into `new`.
    fn reserve<'a>(
        &'a self,
        _cx: &'a Context,
        _new: &'a mut Value,
        _old: Option<&'a Value>,
    ) -> BoxFuture<'a, StatusResult<Option<Box<dyn Reservation>>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Releases what an object held that is gone from the store.
    fn after_delete<'a>(&'a self, _cx: &'a Context, _object: &'a Value) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A kind without particulars.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Strategy for Plain {}
