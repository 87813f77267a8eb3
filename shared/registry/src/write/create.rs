//! POST: creating an object.

use http::StatusCode;
use triptych_object::{StatusResult, meta};

use crate::admission::{Operation, Warnings};
use crate::endpoint::Endpoint;
use crate::object_meta;
use crate::options::{Query, Write, WriteKind};
use crate::request::{Request, Response};
use crate::respond;
use crate::write::save::{self, Saved};
use crate::write::{decode, dedup_owners};

/// A generated name is tried this often before the client hears that it is taken.
const NAME_ATTEMPTS: usize = 8;

/// Creates an object from a request's body.
pub async fn create(endpoint: &Endpoint, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let options = Write::parse(&Query::parse(&request.query), WriteKind::Create)?;
    let mut object = decode(&*endpoint.model, request, options.field_validation, warnings)?.document;
    object_meta::wipe_system_fields(&mut object);
    let namespace = if endpoint.resource.namespaced {
        request.info.namespace.as_str()
    } else {
        ""
    };
    object_meta::ensure_namespace(&mut object, namespace)?;
    dedup_owners(&mut object, false, warnings);
    endpoint
        .fields(request)
        .update(None, &mut object, &options.field_manager)?;
    let name = meta::name(&object).to_owned();
    let asked = save::Asked {
        endpoint,
        model: &*endpoint.model,
        request,
        operation: Operation::Create,
        name: &name,
        options: &options.document,
        dry_run: options.dry_run,
    };
    asked.mutate(Some(&mut object), None, warnings).await?;
    dedup_owners(&mut object, true, warnings);

    let generates = name.is_empty() && !meta::text(&object, "generateName").is_empty();
    let mut attempts = if generates { NAME_ATTEMPTS } else { 1 };
    let saved = loop {
        attempts -= 1;
        let candidate = if attempts > 0 {
            object.clone()
        } else {
            std::mem::take(&mut object)
        };
        let mut own = Warnings::new();
        match save::create(
            endpoint,
            request,
            options.dry_run,
            candidate,
            &options.document,
            &mut own,
        )
        .await
        {
            Err(status) if status.reason == "AlreadyExists" && attempts > 0 => {}
            outcome => {
                warnings.append(&mut own);
                break outcome?;
            }
        }
    };
    match saved {
        Saved::Stored(object) => respond::object(endpoint, request, &output, StatusCode::CREATED, &object),
        Saved::Dry(document) => respond::tree(endpoint, request, &output, StatusCode::CREATED, &document),
    }
}
