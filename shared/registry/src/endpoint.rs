//! One resource in one version: what requests to it can do, and who does it.
//!
//! [`Handler::handle`] is the whole of a request's life in the registry: negotiate, dispatch on subresource and verb, and turn a
//! failure into a `Status` in the negotiated form. What the resource can do is its [`Resource`] record; the rest of
//! this struct is who does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use triptych_object::{GroupResource, Gvr, RequestInfo, Status, StatusResult, UserInfo, Value};
use triptych_schema::resource::{Resource, SubresourceForm};

use crate::admission::{Admission, Warnings};
use crate::builtin::Scheme;
use crate::collection::Collection;
use crate::model::Model;
use crate::negotiate::{self, Output};
use crate::request::{Handler, Request, Response};
use crate::respond;
use crate::strategy::{Context, Strategy};
use crate::write::fields::{FieldRules, Fields};
use crate::{read, watch, write};

/// Asks whether a user may do what a request implies besides itself (create on update, bind, escalate).
pub trait Permit: Send + Sync + 'static {
    /// `Err` is the refusal to answer with.
    fn permit<'a>(&'a self, user: &'a UserInfo, request: &'a RequestInfo) -> BoxFuture<'a, StatusResult<()>>;
}

/// What all endpoints of a tier share.
pub struct Services {
    /// The admission chain.
    pub admission: Arc<dyn Admission>,
    /// Further authorization.
    pub permit: Arc<dyn Permit>,
    /// The scheme that decodes options.
    pub meta: Arc<Scheme>,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// Shortest time after which a watch without timeout ends, in seconds (`--min-request-timeout`).
    pub min_watch_seconds: u64,
}

/// An operation that stores nothing of its own kind: reviews, binding, eviction, tokens.
pub trait Action: Send + Sync + 'static {
    /// Runs it on the decoded, defaulted document.
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>>;

    /// Whether `uid`, `resourceVersion` and the like of the document mean another object, and so are kept (binding).
    fn keeps_system_fields(&self) -> bool {
        false
    }

    /// Other `apiVersion`s in which the document may come.
    fn also_accepts(&self) -> &'static [&'static str] {
        &[]
    }
}

/// What an action answers, with 201.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A document of the action's kind.
    Document(Value),
    /// `Status` Success (binding, eviction).
    Success,
}

/// What an action knows of its request.
#[derive(Clone)]
pub struct ActionContext<'a> {
    /// The resource that it is done to.
    pub endpoint: &'a Endpoint,
    /// The request.
    pub request: &'a Request,
    /// Its time.
    pub now: Timestamp,
    /// Nothing is stored.
    pub dry_run: bool,
}

/// A resource or subresource that answers in its own way: log, exec, proxy, componentstatuses.
pub trait Responder: Send + Sync + 'static {
    /// Answers the request.
    fn respond<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, StatusResult<Response>>;
}

/// Who does the work of a subresource.
#[derive(Clone)]
pub enum Subhandler {
    /// Another view of the stored object, through this strategy.
    Object(Arc<dyn Strategy>),
    /// `autoscaling/v1` Scale over these paths of the stored object.
    Scale(Arc<crate::scale::Scale>),
    /// A document posted to it, decoded by this model.
    Action(Arc<dyn Model>, Arc<dyn Action>),
    /// A connection, whose options are documents of this model.
    Connection(Arc<dyn Model>, Arc<dyn Responder>),
    /// Anything else.
    Responder(Arc<dyn Responder>),
}

/// What stands behind the resource itself.
#[derive(Clone)]
pub enum Backing {
    /// Stored objects.
    Stored(Arc<Collection>),
    /// Nothing stored: documents posted are answered (reviews).
    Action(Arc<dyn Action>),
    /// Anything else (`componentstatuses`).
    Responder(Arc<dyn Responder>),
}

/// One resource in one version.
pub struct Endpoint {
    /// What it is and can do.
    pub resource: Arc<Resource>,
    /// Tells apart the versions of one collection, for encodings that watchers share.
    pub version_index: u32,
    /// Its documents.
    pub model: Arc<dyn Model>,
    /// Its particulars.
    pub strategy: Arc<dyn Strategy>,
    /// What stands behind it.
    pub backing: Backing,
    /// Who owns what when fields are written.
    pub field_rules: FieldRules,
    /// Who does its subresources' work.
    pub subresources: BTreeMap<String, Subhandler>,
    /// What all endpoints share.
    pub services: Arc<Services>,
}

impl Endpoint {
    /// Group and resource, for texts.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(&*self.resource.group, &*self.resource.resource)
    }

    /// Group, version and resource.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&*self.resource.group, &*self.resource.version, &*self.resource.resource)
    }

    /// The stored objects, or 405 if there are none.
    pub fn collection(&self) -> StatusResult<&Arc<Collection>> {
        match &self.backing {
            Backing::Stored(collection) => Ok(collection),
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// What a strategy is told of a request.
    pub fn context(&self, request: &Request, dry_run: bool) -> Context {
        Context {
            now: (self.services.now)(),
            user: request.user.clone(),
            namespace: if self.resource.namespaced {
                request.info.namespace.clone()
            } else {
                String::new()
            },
            version: self.resource.version.to_string(),
            subresource: request.info.subresource.clone(),
            dry_run,
        }
    }

    /// Serves a request from beginning to end.
    async fn serve(&self, request: Request) -> Response {
        let mut warnings = Warnings::new();
        warnings.extend(self.model.deprecation());
        let mut response = match self.dispatch(&request, &mut warnings).await {
            Ok(response) => response,
            Err(status) => respond::failure(&status, &request.headers, &request.query),
        };
        respond::add_warnings(&mut response, &warnings);
        response
    }

    async fn dispatch(&self, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
        self.check_route(request)?;
        warnings.extend(self.strategy.deprecation().map(str::to_owned));
        if request.info.subresource.is_empty() {
            self.main(request, warnings).await
        } else {
            self.sub(request, warnings).await
        }
    }

    /// What the router refuses before any handler runs: methods, media types.
    fn check_route(&self, request: &Request) -> StatusResult<()> {
        let info = &request.info;
        let custom = !self.model.bare_items();
        let verbs = match info.subresource.as_str() {
            "" => self.resource.verbs,
            name => match self.resource.subresource(name) {
                Some(sub) if self.subresources.contains_key(name) => {
                    let handler = self.subresources.get(name);
                    if let Some(Subhandler::Responder(_) | Subhandler::Connection(..)) = handler {
                        return Ok(());
                    }
                    sub.verbs
                }
                _ if custom => return Err(Status::not_found(&self.group_resource(), &info.name)),
                _ => return Err(Status::no_such_resource()),
            },
        };
        if !custom && info.subresource.is_empty() {
            // no route of old prefixes, nor of a namespaced resource that cannot be listed without its namespace
            let spans = !self.resource.namespaced || self.resource.verbs.contains("list");
            if info.verb == "proxy" || info.namespace.is_empty() && !spans {
                return Err(Status::no_such_resource());
            }
            // `/watch/` in the path makes every method a watch
            if info.verb == "watch" && !matches!(request.method, http::Method::GET | http::Method::HEAD) {
                return Err(Status::method_not_allowed());
            }
        }
        let named = !info.name.is_empty();
        if custom && !named && matches!(info.verb.as_str(), "update" | "patch") {
            return Err(Status::bad_request("name must be provided"));
        }
        let of_one = ["get", "update", "patch", "delete"];
        if named && !custom && info.subresource.is_empty() && !verbs.iter().any(|v| of_one.contains(&v)) {
            return Err(Status::no_such_resource());
        }
        let misplaced = info.subresource.is_empty()
            && match info.verb.as_str() {
                // Below /watch/ every method asks to watch.
                "watch" => !custom && !matches!(request.method, http::Method::GET | http::Method::HEAD),
                "create" => named && !custom,
                "deletecollection" => named,
                "get" | "update" | "patch" | "delete" => !named,
                _ => false,
            };
        if misplaced
            || !verbs.contains(&info.verb)
            || self.resource.namespaced && needs_namespace(info) && info.namespace.is_empty()
        {
            return Err(if custom {
                Status::method_not_supported(&self.group_resource(), &info.verb)
            } else {
                Status::method_not_allowed()
            });
        }
        if custom {
            return Ok(());
        }
        if info.verb == "create" && info.subresource.is_empty() && !info.name.is_empty() {
            return Err(Status::method_not_allowed());
        }
        if info.verb == "patch" && !write::patch::is_patch_type(&negotiate::content_type(&request.headers)) {
            let message = "415: Unsupported Media Type";
            return Err(Status::unsupported_media_type(message).with_details(Some(Default::default())));
        }
        let streams = matches!(info.verb.as_str(), "list" | "watch");
        negotiate::routed(&request.headers, streams)
    }

    async fn main(&self, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
        match &self.backing {
            Backing::Responder(responder) => return responder.respond(request).await,
            Backing::Action(action) => {
                return write::action::run(self, &*self.model, &**action, request, warnings).await;
            }
            Backing::Stored(_) => {}
        }
        match request.info.verb.as_str() {
            "get" => read::get(self, request).await,
            "list" => read::list(self, request).await,
            "watch" => watch::watch(self, request).await,
            "create" => write::create::create(self, request, warnings).await,
            "update" => write::update::update(self, &self.strategy, request, warnings).await,
            "patch" => write::patch::patch(self, &self.strategy, request, warnings).await,
            "delete" => write::delete::delete(self, request, warnings).await,
            "deletecollection" => write::delete::delete_collection(self, request, warnings).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn sub(&self, request: &Request, warnings: &mut Warnings) -> StatusResult<Response> {
        let Some(handler) = self.subresources.get(&request.info.subresource) else {
            return Err(Status::no_such_resource());
        };
        match (handler, request.info.verb.as_str()) {
            (Subhandler::Responder(responder), _) => responder.respond(request).await,
            (Subhandler::Connection(model, responder), _) => {
                if self.connects_by(&request.info.subresource, &request.method) {
                    write::connect::admit(self, &**model, request, warnings).await?;
                }
                responder.respond(request).await
            }
            (Subhandler::Action(model, action), _) => {
                write::action::run(self, &**model, &**action, request, warnings).await
            }
            (Subhandler::Scale(scale), _) => crate::scale::handle(self, scale, request, warnings).await,
            (Subhandler::Object(_), "get") => read::get(self, request).await,
            (Subhandler::Object(strategy), "update") => write::update::update(self, strategy, request, warnings).await,
            (Subhandler::Object(strategy), "patch") => write::patch::patch(self, strategy, request, warnings).await,
            _ => Err(Status::method_not_allowed()),
        }
    }

    /// Whether a subresource is connected to by this method.
    fn connects_by(&self, subresource: &str, method: &http::Method) -> bool {
        match self.resource.subresource(subresource).map(|sub| &sub.form) {
            Some(SubresourceForm::Connect(methods)) => methods.iter().any(|known| **known == *method.as_str()),
            _ => false,
        }
    }

    /// Field management for a request.
    pub fn fields<'a>(&'a self, request: &'a Request) -> Fields<'a> {
        Fields {
            model: &*self.model,
            rules: &self.field_rules,
            request,
            now: (self.services.now)(),
        }
    }

    /// Chooses the answer's form.
    pub fn negotiate(&self, request: &Request) -> StatusResult<Output> {
        let mut offer = self.model.offer();
        if let Some(Subhandler::Object(strategy)) = self.subresources.get(&request.info.subresource) {
            offer.tables &= strategy.shows_tables();
        }
        negotiate::output(&request.headers, &request.query, offer)
    }
}

impl Handler for Endpoint {
    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.serve(request))
    }
}

/// All verbs but the collection reads need a namespace on namespaced resources.
fn needs_namespace(info: &RequestInfo) -> bool {
    !matches!(info.verb.as_str(), "list" | "watch")
}
