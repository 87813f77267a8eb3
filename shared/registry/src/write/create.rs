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
use crate::write::{Candidate, decode, dedup_owners};

/// A generated name is tried this often before the client hears that it is taken.
const NAME_ATTEMPTS: usize = 8;

/// Creates an object from a request's body.
pub async fn create(endpoint: &Endpoint, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
    let output = endpoint.negotiate(request)?;
    let options = Write::parse(&Query::parse(&request.query), WriteKind::Create)?;
    let mut candidate = decode(&*endpoint.model, request, options.field_validation, warnings)?;
    let object = &mut candidate.document;
    object_meta::wipe_system_fields(object);
    let namespace = if endpoint.resource.namespaced {
        request.info.namespace.as_str()
    } else {
        ""
    };
    object_meta::ensure_namespace(object, namespace)?;
    dedup_owners(object, false, warnings);
    let Candidate { document, empties } = candidate.owned(&endpoint.fields(request), None, &options.field_manager)?;
    let mut object = document;
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
        let document = if attempts > 0 {
            object.clone()
        } else {
            std::mem::take(&mut object)
        };
        let candidate = Candidate {
            document,
            empties: empties.clone(),
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
