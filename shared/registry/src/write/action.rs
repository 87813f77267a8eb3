//! POST to something that stores nothing of its own kind: reviews, binding, eviction, tokens.

use http::StatusCode;
use triptych_object::{Status, StatusResult, Value, meta};

use crate::admission::{Operation, Warnings};
use crate::endpoint::{Action, ActionContext, Answer, Endpoint};
use crate::model::Model;
use crate::negotiate;
use crate::object_meta;
use crate::options::{Query, Write, WriteKind};
use crate::request::{Request, Response};
use crate::write::fields::{FieldRules, Fields};
use crate::write::save;
use crate::{respond, write};

/// Decodes the document, notes who owns its fields, admits it, runs the action and answers what it gives.
pub async fn run(
    endpoint: &Endpoint,
    model: &dyn Model,
    action: &dyn Action,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<Response> {
    let output = negotiate::output(&request.headers, &request.query, model.offer())?;
    let options = Write::parse(&Query::parse(&request.query), WriteKind::Create)?;
    let mut document = write::decode(model, request, options.field_validation, warnings)?.document;
    if !action.keeps_system_fields() {
        object_meta::wipe_system_fields(&mut document);
    }
    if document.get("metadata").is_some() || endpoint.resource.namespaced {
        let namespace = if endpoint.resource.namespaced {
            request.info.namespace.as_str()
        } else {
            ""
        };
        object_meta::ensure_namespace(&mut document, namespace)?;
    }
    let now = (endpoint.services.now)();
    let fields = Fields {
        model,
        rules: &FieldRules::default(),
        request,
        now,
    };
    fields.update(None, &mut document, &options.field_manager)?;
    let name = name_of(request, &document).to_owned();
    let asked = save::Asked {
        endpoint,
        model,
        request,
        operation: Operation::Create,
        name: &name,
        options: &options.document,
        dry_run: options.dry_run,
    };
    asked.mutate(Some(&mut document), None, warnings).await?;
    asked.validate(Some(&document), None, warnings).await?;
    let cx = ActionContext {
        endpoint,
        request,
        now,
        dry_run: options.dry_run,
    };
    match action.run(&cx, document).await? {
        Answer::Document(answer) => respond::action_tree(model, &output, StatusCode::CREATED, &answer),
        Answer::Success => Ok(respond::success(&Status::plain_success(201), &output)),
    }
}

/// The name an action's document is about: the URL's.
pub fn name_of<'a>(request: &'a Request, document: &'a Value) -> &'a str {
    if request.info.name.is_empty() {
        meta::name(document)
    } else {
        &request.info.name
    }
}
