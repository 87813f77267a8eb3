//! `Table` and `PartialObjectMetadata` of meta.k8s.io: what kubectl and metadata clients ask for instead of objects.
//!
//! Contract: columns are data on the resource, cells come from the strategy; a kind without cells of its own shows
//! `Name` and `Age` (custom resources: their printer columns, computed by their strategy). A row carries the object's
//! metadata unless `includeObject` says otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use triptych_object::value::Object;
use triptych_object::{Status, StatusResult, Value, meta};
use triptych_schema::resource::{Column, Resource};

use crate::age::age;
use crate::endpoint::Endpoint;
use crate::model::Model;
use crate::options::Query;
use crate::strategy::Strategy;

/// What a row carries of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

/// `TableOptions`.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What a row carries of its object.
    pub include: Include,
}

impl Options {
    /// Reads `includeObject`.
    pub fn parse(query: &str) -> StatusResult<Options> {
        let query = Query::parse(query);
        let include = match query.get("includeObject").unwrap_or("") {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::None,
            "Object" => Include::Object,
            other => {
                let error = triptych_object::field::Error::invalid(
                    "includeObject",
                    other,
                    "must be 'Metadata', 'Object', 'None', or empty",
                );
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: {error}"
                )));
            }
        };
        Ok(Options { include })
    }
}

/// The table of one object.
pub fn of_object(endpoint: &Endpoint, object: &Value, version: &'static str, options: &Options) -> Value {
    let maker = Maker::of(endpoint);
    let mut metadata = Value::object();
    if !meta::resource_version(object).is_empty() {
        metadata.set_at(&["resourceVersion"], meta::resource_version(object).into());
    }
    maker.table([object].into_iter(), metadata, version, options, true)
}

/// The table of a list.
pub fn of_list<'a>(
    endpoint: &Endpoint,
    objects: impl Iterator<Item = &'a Value>,
    metadata: Value,
    version: &'static str,
    options: &Options,
) -> Value {
    Maker::of(endpoint).table(objects, metadata, version, options, true)
}

/// Tables for the events of a watch: the first has the columns, the others only rows.
pub struct Watch {
    maker: Maker,
    version: &'static str,
    options: Options,
    started: AtomicBool,
}

impl Watch {
    /// Tables of this endpoint's objects.
    pub fn new(endpoint: &Endpoint, version: &'static str, options: Options) -> Watch {
        Watch {
            maker: Maker::of(endpoint),
            version,
            options,
            started: AtomicBool::new(false),
        }
    }

    /// The table of one event; `initial_end` marks the bookmark whose metadata must be carried.
    pub fn event(&self, object: &Value, initial_end: bool) -> Value {
        let first = !self.started.swap(true, Ordering::Relaxed);
        let mut metadata = Value::object();
        metadata.set_at(&["resourceVersion"], meta::resource_version(object).into());
        let options = if initial_end {
            Options {
                include: Include::Metadata,
            }
        } else {
            self.options
        };
        self.maker
            .table([object].into_iter(), metadata, self.version, &options, first)
    }
}

struct Maker {
    model: Arc<dyn Model>,
    resource: Arc<Resource>,
    strategy: Arc<dyn Strategy>,
    now: Timestamp,
}

impl Maker {
    fn of(endpoint: &Endpoint) -> Maker {
        Maker {
            model: endpoint.model.clone(),
            resource: endpoint.resource.clone(),
            strategy: endpoint.strategy.clone(),
            now: (endpoint.services.now)(),
        }
    }

    fn table<'a>(
        &self,
        objects: impl Iterator<Item = &'a Value>,
        metadata: Value,
        version: &'static str,
        options: &Options,
        with_columns: bool,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(object, version, options)).collect();
        // kube-apiserver's converter of kinds without columns of their own appends to a list that it never made
        let plain = matches!(&*self.resource.columns, [_, created] if &*created.name == "Created At");
        let rows = if rows.is_empty() && plain && self.model.bare_items() {
            Value::Null
        } else {
            Value::Array(rows)
        };
        let columns = if with_columns {
            Value::Array(self.resource.columns.iter().map(column).collect())
        } else {
            Value::Null
        };
        Value::from([
            ("kind", "Table".into()),
            ("apiVersion", format!("meta.k8s.io/{version}").into()),
            ("metadata", metadata),
            ("columnDefinitions", columns),
            ("rows", rows),
        ])
    }

    fn row(&self, object: &Value, version: &'static str, options: &Options) -> Value {
        let cells = self
            .strategy
            .cells(object, self.now)
            .unwrap_or_else(|| default_cells(object, self.now));
        let mut row = Value::from([("cells", Value::Array(cells))]);
        if let Some(conditions) = self.strategy.row_conditions(object) {
            row.set_at(&["conditions"], conditions);
        }
        row.set_at(&["object"], carried(object, version, options, &*self.model));
        row
    }
}

/// What a row carries of its object.
fn carried(object: &Value, version: &str, options: &Options, model: &dyn Model) -> Value {
    match options.include {
        Include::None => Value::Null,
        Include::Metadata => partial(object, version, model),
        Include::Object => object.clone(),
    }
}

/// The table of one document whose cells are at hand.
pub fn of_cells(
    columns: &[Column],
    cells: Vec<Value>,
    document: &Value,
    version: &str,
    options: &Options,
    model: &dyn Model,
) -> Value {
    let resource_version = meta::resource_version(document);
    let row = Value::from([
        ("cells", Value::Array(cells)),
        ("object", carried(document, version, options, model)),
    ]);
    Value::from([
        ("kind", "Table".into()),
        ("apiVersion", format!("meta.k8s.io/{version}").into()),
        ("metadata", Value::from([("resourceVersion", resource_version.into())])),
        ("columnDefinitions", Value::Array(columns.iter().map(column).collect())),
        ("rows", Value::Array(vec![row])),
    ])
}

fn column(column: &Column) -> Value {
    Value::from([
        ("name", (&*column.name).into()),
        ("type", (&*column.kind).into()),
        ("format", (&*column.format).into()),
        ("description", "".into()),
        ("priority", Value::Int(column.priority.into())),
    ])
}

fn default_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![meta::name(object).into(), age(object, now).into()]
}

/// `PartialObjectMetadata` of an object.
pub fn partial(object: &Value, version: &str, model: &dyn Model) -> Value {
    let mut metadata = object
        .get("metadata")
        .cloned()
        .unwrap_or_else(|| Value::Object(Object::new()));
    for annotation in model.internal_annotations() {
        metadata.remove_at(&["annotations", annotation]);
    }
    if metadata
        .at(&["annotations"])
        .and_then(Value::as_object)
        .is_some_and(Object::is_empty)
    {
        metadata.remove_at(&["annotations"]);
    }
    Value::from([
        ("kind", "PartialObjectMetadata".into()),
        ("apiVersion", format!("meta.k8s.io/{version}").into()),
        ("metadata", metadata),
    ])
}
