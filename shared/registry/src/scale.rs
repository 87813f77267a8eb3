//! The `scale` subresource: `autoscaling/v1` Scale over fields of a stored object.
//!
//! Contract: reads and writes go through the object's own collection, compare-and-swap included; a write changes the
//! replica field alone and is owned by its manager there (subresource `scale`).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use triptych_object::field::{Error, ErrorList};
use triptych_object::{Status, StatusResult, Value, meta};
use triptych_schema::managed::ScaleFields;
use triptych_schema::resource::Column;

use crate::admission::Warnings;
use crate::age::age;
use crate::endpoint::Endpoint;
use crate::model::Model;
use crate::negotiate::{self, Output, Transform};
use crate::options::{Query, Write, WriteKind};
use crate::request::{Request, Response};
use crate::strategy::Strategy;
use crate::write::Candidate;
use crate::write::fields::{FieldRules, Fields};
use crate::write::save::Saved;
use crate::write::update::Change;
use crate::{object_meta, respond, table, write};

/// Where a resource keeps what a Scale shows.
pub struct Scale {
    /// The model of `autoscaling/v1` Scale.
    pub model: Arc<dyn Model>,
    /// Who owns what of a Scale.
    pub field_rules: FieldRules,
    /// Path of the wanted replicas.
    pub spec_replicas: Vec<String>,
    /// Path of the observed replicas.
    pub status_replicas: Vec<String>,
    /// Where the selector is, and whether it is an object (label selector), a map or text.
    pub selector: Option<Selector>,
    /// For each served version of the resource, the path that `spec_replicas` is there.
    pub versions: Vec<(String, Vec<String>)>,
    /// The path of the wanted replicas as a CRD declares it; such a field may be absent, which is no scale at all, and
    /// its bounds are checked with the object.
    pub declared: Option<String>,
}

/// How a resource keeps its selector.
pub enum Selector {
    /// A label selector object.
    LabelSelector(Vec<String>),
    /// A map of labels.
    Labels(Vec<String>),
    /// A text in selector syntax.
    Text(Vec<String>),
}

/// What a Scale's replicas are while a custom resource has none: the smallest 32-bit number.
const NOT_SET: i64 = i32::MIN as i64;

fn names(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

impl Scale {
    /// The Scale of an object, as it is answered.
    pub(crate) fn of(&self, object: &Value) -> Value {
        let mut metadata = triptych_object::Object::new();
        for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.at(&["metadata", member]) {
                metadata.insert(member, value.clone());
            }
        }
        let replicas = |path: &[String]| object.at(&names(path)).and_then(Value::as_i64).unwrap_or(0);
        let mut spec = Value::object();
        if replicas(&self.spec_replicas) != 0 {
            spec.set_at(&["replicas"], Value::Int(replicas(&self.spec_replicas)));
        }
        let mut status = Value::from([("replicas", Value::Int(replicas(&self.status_replicas)))]);
        let selector = self.selector_text(object);
        if !selector.is_empty() {
            status.set_at(&["selector"], selector.into());
        }
        Value::from([
            ("kind", "Scale".into()),
            ("apiVersion", "autoscaling/v1".into()),
            ("metadata", Value::Object(metadata)),
            ("spec", spec),
            ("status", status),
        ])
    }

    /// Puts back into an object what was changed of its Scale.
    pub(crate) fn put_back(&self, scale: &Value, object: &mut Value) {
        let replicas = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        object.set_at(&names(&self.spec_replicas), Value::Int(replicas));
    }

    /// The same with its managers, as a write starts from it.
    fn managed(&self, object: &Value, api_version: &str) -> StatusResult<Value> {
        let mut scale = self.of(object);
        let parent = object.array_at(&["metadata", "managedFields"]);
        let list = self.fields(api_version, |fields| fields.to_scale(parent));
        if let Some(list) = list.map_err(Status::internal)? {
            scale.set_at(&["metadata", "managedFields"], list);
        }
        if self.declared.is_some() && object.at(&names(&self.spec_replicas)).is_none() {
            scale.set_at(&["spec", "replicas"], Value::Int(NOT_SET));
        }
        Ok(scale)
    }

    fn selector_text(&self, object: &Value) -> String {
        match &self.selector {
            None => String::new(),
            Some(Selector::Text(path)) => object.str_at(&names(path)).to_owned(),
            Some(Selector::Labels(path)) => labels_text(object.at(&names(path)), &[]),
            Some(Selector::LabelSelector(path)) => {
                let selector = object.at(&names(path));
                let expressions = selector.map(|s| s.array_at(&["matchExpressions"])).unwrap_or(&[]);
                labels_text(selector.and_then(|s| s.get("matchLabels")), expressions)
            }
        }
    }

    fn fields<T>(&self, api_version: &str, f: impl FnOnce(&ScaleFields<'_>) -> T) -> T {
        let paths: Vec<(String, Vec<&str>)> = self.versions.iter().map(|(v, p)| (v.clone(), names(p))).collect();
        let borrowed: Vec<(&str, Option<&[&str]>)> =
            paths.iter().map(|(v, p)| (v.as_str(), Some(p.as_slice()))).collect();
        f(&ScaleFields {
            paths: &borrowed,
            api_version,
        })
    }
}

/// A label selector in text form, requirements sorted by key.
fn labels_text(labels: Option<&Value>, expressions: &[Value]) -> String {
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in labels.and_then(Value::as_object).into_iter().flat_map(|m| m.iter()) {
        terms.push((key.to_owned(), format!("{key}={}", value.as_str().unwrap_or(""))));
    }
    for expression in expressions {
        let key = expression.str_at(&["key"]);
        let mut values: Vec<&str> = expression
            .array_at(&["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let text = match expression.str_at(&["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => continue,
        };
        terms.push((key.to_owned(), text));
    }
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|(_, t)| t).collect::<Vec<_>>().join(",")
}

/// Serves the subresource.
pub async fn handle(
    endpoint: &Endpoint,
    scale: &Scale,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<Response> {
    let output = negotiate::output(&request.headers, &request.query, scale.model.offer())?;
    let collection = endpoint.collection()?;
    let gr = endpoint.group_resource();
    let name = &request.info.name;
    let api_version = endpoint.model.gvk().group_version().to_string();
    if request.info.verb == "get" {
        let key = collection.key(&request.info.namespace, name)?;
        let object = collection
            .get_consistent(&key)
            .await?
            .ok_or_else(|| Status::not_found(&gr, name))?;
        let document = endpoint.model.document(&object).map_err(Status::internal)?;
        if let Some(path) = &scale.declared
            && document.at(&names(&scale.spec_replicas)).is_none()
        {
            let path = triptych_object::field::quote(path);
            return Err(Status::internal(format!(
                "the spec replicas field {path} does not exist"
            )));
        }
        return answer(endpoint, scale, request, &output, &document);
    }
    let query = Query::parse(&request.query);
    let (options, source) = match request.info.verb.as_str() {
        "update" => {
            let options = Write::parse(&query, WriteKind::Update)?;
            let body = write::decode(&*scale.model, request, options.field_validation, warnings)?.document;
            object_meta::check_name(&body, name, &request.info.namespace)?;
            (options, Source::Whole(body))
        }
        _ => {
            let model = if scale.declared.is_some() {
                &endpoint.model
            } else {
                &scale.model
            };
            write::patch::check_type(&**model, request)?;
            let options = write::patch::options(request)?;
            let patch = write::patch::read(request, &options)?;
            (options, Source::Patch(patch))
        }
    };
    let uid = match &source {
        Source::Whole(body) => Some(meta::uid(body).to_owned()).filter(|u| !u.is_empty()),
        Source::Patch(_) => None,
    };
    let strategy: Arc<dyn Strategy> = endpoint.strategy.clone();
    let change = Change {
        endpoint,
        strategy: &strategy,
        request,
        options: &options,
        uid,
        allow_create: false,
    };
    let make = |live: Option<Value>| -> BoxFuture<'_, StatusResult<(Candidate, Warnings)>> {
        Box::pin(std::future::ready(scaled(
            endpoint,
            scale,
            request,
            &options,
            &source,
            live,
            &api_version,
        )))
    };
    let (saved, _) = change.run(make, warnings).await?;
    let document = match saved {
        Saved::Stored(object) => endpoint.model.document(&object).map_err(Status::internal)?,
        Saved::Dry(document) => document,
    };
    answer(endpoint, scale, request, &output, &document)
}

/// The Scale of an object, or a table of it.
fn answer(
    endpoint: &Endpoint,
    scale: &Scale,
    request: &Request,
    output: &Output,
    object: &Value,
) -> StatusResult<Response> {
    let found = scale.of(object);
    let shown = match output.transform {
        Transform::Table(version) => {
            let options = table::Options::parse(&request.query)?;
            let custom = scale.declared.is_some();
            let now = (endpoint.services.now)();
            let replicas = |part: &str| Value::Int(found.at(&[part, "replicas"]).and_then(Value::as_i64).unwrap_or(0));
            let cells = vec![
                meta::name(&found).into(),
                replicas("spec"),
                replicas("status"),
                age(&found, now).into(),
            ];
            let column = |name: &'static str, kind: &'static str, format: &'static str| Column {
                name: name.into(),
                kind: kind.into(),
                format: format.into(),
                ..Column::default()
            };
            let columns = [
                column("Name", "string", if custom { "name" } else { "" }),
                column("Desired", "integer", ""),
                column("Available", "integer", ""),
                column("Age", if custom { "date" } else { "string" }, ""),
            ];
            table::of_cells(&columns, cells, &found, version, &options, &*scale.model)
        }
        _ => found,
    };
    respond::action_tree(&*scale.model, output, StatusCode::OK, &shown)
}

enum Source {
    Whole(Value),
    Patch(write::patch::Patch),
}

/// kube-apiserver's converter of custom resources knows no Scale, so that one cannot be applied.
fn cannot_apply(what: &str) -> Box<Status> {
    Status::unknown(format!(
        "failed to {what} autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1"
    ))
}

/// The object with the replicas that a Scale asks for.
fn scaled(
    endpoint: &Endpoint,
    scale: &Scale,
    request: &Request,
    options: &Write,
    source: &Source,
    live: Option<Value>,
    api_version: &str,
) -> StatusResult<(Candidate, Warnings)> {
    let Some(mut object) = live else {
        return Err(Status::not_found(&endpoint.group_resource(), &request.info.name));
    };
    let mut warnings = Warnings::new();
    let before = scale.managed(&object, api_version)?;
    let now = (endpoint.services.now)();
    let fields = Fields {
        model: &*scale.model,
        rules: &scale.field_rules,
        request,
        now,
    };
    let mut wanted = match source {
        Source::Whole(body) => {
            let mut wanted = body.clone();
            fields.update(Some(&before), &mut wanted, &options.field_manager)?;
            wanted
        }
        Source::Patch(patch) => {
            let applies = matches!(patch, write::patch::Patch::Apply(_)) && scale.declared.is_some();
            let managed = !before.array_at(&["metadata", "managedFields"]).is_empty();
            if applies && !managed {
                return Err(cannot_apply(
                    "create manager for existing fields: failed to convert live object (/;",
                ));
            }
            let wanted = write::patch::apply(&fields, options, patch, Some(&before), &mut warnings)?.document;
            if applies {
                let object = format!("convert new object (/{};", request.info.name);
                return Err(cannot_apply(&object));
            }
            wanted
        }
    };
    object_meta::ensure_namespace(&mut wanted, &request.info.namespace)?;
    object_meta::check_name(&wanted, &request.info.name, &request.info.namespace)?;
    let replicas = wanted.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    if let Some(path) = scale.declared.as_ref().filter(|_| replicas == NOT_SET) {
        let path = triptych_object::field::quote(path);
        return Err(Status::bad_request(format!(
            "the spec replicas field {path} cannot be empty"
        )));
    }
    if replicas < 0 && scale.declared.is_none() {
        let detail = "must be greater than or equal to 0";
        let errors: ErrorList = std::iter::once(Error::invalid("spec.replicas", replicas, detail)).collect();
        let kind = triptych_object::GroupKind::new("autoscaling", "Scale");
        return Err(Status::invalid(&kind, &request.info.name, &errors));
    }
    let version = meta::resource_version(&wanted).to_owned();
    if !version.is_empty() {
        meta::set_text(&mut object, "resourceVersion", version);
    }
    object.set_at(&names(&scale.spec_replicas), Value::Int(replicas));
    let list = scale
        .fields(api_version, |fields| {
            fields.to_parent(
                object.array_at(&["metadata", "managedFields"]),
                wanted.array_at(&["metadata", "managedFields"]),
            )
        })
        .map_err(Status::internal)?;
    match list {
        Some(list) => object.set_at(&["metadata", "managedFields"], list),
        None => drop(object.remove_at(&["metadata", "managedFields"])),
    }
    let candidate = Candidate {
        document: object,
        empties: Arc::default(),
    };
    Ok((candidate, warnings))
}
