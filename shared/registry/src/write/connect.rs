//! Connections (exec, attach, port-forward, proxy): what admission is told of them.
//!
//! Contract: the options of a connection are its query, read as a document of their kind as Go converts URL values;
//! admission sees them as the object of the operation CONNECT before anything is looked at.

use triptych_object::request::params;
use triptych_object::{StatusResult, Value};
use triptych_schema::types::{Shape, Type};

use crate::admission::{Operation, Warnings};
use crate::endpoint::Endpoint;
use crate::model::Model;
use crate::request::Request;
use crate::write::save;

/// Lets admission see a connection.
pub async fn admit(
    endpoint: &Endpoint,
    model: &dyn Model,
    request: &Request,
    warnings: &mut Warnings,
) -> StatusResult<()> {
    let mut options = options(model, &request.query);
    let asked = save::Asked {
        endpoint,
        model,
        request,
        operation: Operation::Connect,
        name: &request.info.name,
        options: &Value::Null,
        dry_run: false,
    };
    asked.mutate(Some(&mut options), None, warnings).await?;
    asked.validate(Some(&options), None, warnings).await
}

/// A query as a document of the model's kind.
fn options(model: &dyn Model, query: &str) -> Value {
    let gvk = model.gvk();
    let mut document = Value::from([
        ("kind", gvk.kind.as_str().into()),
        ("apiVersion", gvk.group_version().to_string().into()),
    ]);
    let given: Vec<(String, String)> = params(query).collect();
    let (schema, ty) = model.schema();
    let fields = schema.get(ty).as_struct().map(|fields| fields.fields.as_slice());
    for field in fields.unwrap_or_default() {
        let values: Vec<&str> = given
            .iter()
            .filter(|(name, _)| **name == *field.name)
            .map(|(_, value)| value.as_str())
            .collect();
        let ty = schema.get(field.ty);
        let value = match &ty.shape {
            Shape::List(list) => {
                let items = values.iter().filter_map(|value| read(schema.get(list.item), value));
                Some(Value::Array(items.collect())).filter(|_| !values.is_empty())
            }
            _ => values.first().and_then(|value| read(ty, value)),
        };
        if let Some(value) = value.filter(|value| !is_zero(value)) {
            document.set_at(&[&*field.name], value);
        }
    }
    document
}

fn read(ty: &Type, text: &str) -> Option<Value> {
    match &ty.shape {
        Shape::Bool => Some((text != "0" && !text.eq_ignore_ascii_case("false")).into()),
        Shape::Int { .. } => Some(Value::Int(text.parse().ok()?)),
        Shape::String => Some(text.into()),
        _ => None,
    }
}

fn is_zero(value: &Value) -> bool {
    matches!(value, Value::Bool(false) | Value::Int(0)) || value.as_str() == Some("")
}
