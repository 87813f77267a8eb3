//! Connections to pods, services and nodes (log, exec, attach, portforward, proxy): who is asked for, and what is
//! answered while there is nobody to connect to.
//!
//! Contract: everything up to the dial is kube-apiserver's. The dial itself (kubelets, and plain HTTP to pods, services
//! and nodes) is not made yet and answers 503.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::StatusCode;
use triptych_object::field::{Error, ErrorList};
use triptych_object::request::{param, params};
use triptych_object::{GroupKind, GroupResource, Status, StatusResult, Value, json, names, time};
use triptych_registry::collection::Collection;
use triptych_registry::endpoint::Responder;
use triptych_registry::{Body, Request, Response};

use crate::context::Context;
use crate::kinds::Kinds;

/// Gives the connections of this group their answers.
pub fn register(kinds: &mut Kinds, context: &Context) {
    let objects = Objects {
        pods: context.collection("", "pods").cloned(),
        services: context.collection("", "services").cloned(),
        endpoints: context.collection("", "endpoints").cloned(),
        nodes: context.collection("", "nodes").cloned(),
    };
    for (resource, subresource, to) in [
        ("pods", "log", To::Log),
        ("pods", "exec", To::Stream),
        ("pods", "attach", To::Stream),
        ("pods", "portforward", To::PortForward),
        ("pods", "proxy", To::Pod),
        ("services", "proxy", To::Service),
        ("nodes", "proxy", To::Node),
    ] {
        let connection = Connection {
            objects: objects.clone(),
            to,
        };
        kinds.responder("", resource, subresource, connection);
    }
}

#[derive(Clone)]
struct Objects {
    pods: Option<Arc<Collection>>,
    services: Option<Arc<Collection>>,
    endpoints: Option<Arc<Collection>>,
    nodes: Option<Arc<Collection>>,
}

/// What a connection is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Log,
    Stream,
    PortForward,
    Pod,
    Service,
    Node,
}

struct Connection {
    objects: Objects,
    to: To,
}

impl Responder for Connection {
    fn respond<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, StatusResult<Response>> {
        Box::pin(self.answer(request))
    }
}

impl Connection {
    async fn answer(&self, request: &Request) -> StatusResult<Response> {
        let method = request.method.as_str();
        let allowed = match self.to {
            To::Log => method == "GET",
            To::Stream | To::PortForward => matches!(method, "GET" | "POST"),
            _ => matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE" | "HEAD" | "OPTIONS"),
        };
        if !allowed {
            return Err(Status::method_not_allowed());
        }
        let (namespace, name) = (request.info.namespace.as_str(), request.info.name.as_str());
        match self.to {
            To::Log => {
                let container = log_options(name, &request.query)?;
                let pod = find(&self.objects.pods, namespace, name).await?;
                check_container(&pod, &container)?;
                if node_of(&pod).is_empty() {
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::NO_CONTENT;
                    return Ok(response);
                }
                self.node_of(&pod).await?;
            }
            To::Stream => {
                let pod = find(&self.objects.pods, namespace, name).await?;
                check_container(&pod, &param(&request.query, "container").unwrap_or_default())?;
                need_node(&pod, name)?;
                self.node_of(&pod).await?;
            }
            To::PortForward => {
                let pod = find(&self.objects.pods, namespace, name).await?;
                need_node(&pod, name)?;
                self.node_of(&pod).await?;
            }
            To::Pod => self.pod(namespace, name).await?,
            To::Service => self.service(namespace, name).await?,
            To::Node => {
                let target = Target::parse("node", name)?;
                find(&self.objects.nodes, "", target.name).await?;
            }
        }
        Err(Status::service_unavailable(
            "connections to nodes, pods and services are not made by this server",
            0,
        ))
    }

    /// The node that a pod runs on. A missing one is told as a missing pod, by the resource of the request.
    async fn node_of(&self, pod: &Value) -> StatusResult<Value> {
        let name = node_of(pod);
        find(&self.objects.nodes, "", name).await.map_err(|status| {
            if status.reason != "NotFound" {
                return status;
            }
            Status::not_found(&triptych_object::GroupResource::new("", "pods"), name)
        })
    }

    async fn pod(&self, namespace: &str, id: &str) -> StatusResult<()> {
        let target = Target::parse("pod", id)?;
        let pod = find(&self.objects.pods, namespace, target.name).await?;
        let address = names::parse_ip(pod.str_at(&["status", "podIP"]));
        let usable = address.is_some_and(|ip| {
            let link_local = match ip {
                std::net::IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
                std::net::IpAddr::V6(v6) => v6.is_unicast_link_local(),
            };
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || link_local)
        });
        if usable {
            Ok(())
        } else {
            Err(Status::bad_request("address not allowed"))
        }
    }

    async fn service(&self, namespace: &str, id: &str) -> StatusResult<()> {
        let target = Target::parse("service", id)?;
        let service = find(&self.objects.services, namespace, target.name).await?;
        let mut port = target.port.to_owned();
        if let Ok(number) = target.port.parse::<i64>() {
            let ports = service.array_at(&["spec", "ports"]);
            let found = ports
                .iter()
                .find(|p| p.get("port").and_then(Value::as_i64) == Some(number));
            let Some(found) = found else {
                let message = format!("no service port {number} found for service {:?}", target.name);
                return Err(Status::service_unavailable(message, 0));
            };
            port = found.str_at(&["name"]).to_owned();
        }
        let endpoints = find(&self.objects.endpoints, namespace, target.name)
            .await
            .map_err(|status| match status.code {
                404 => Status::not_found(&GroupResource::new("", "services"), target.name),
                _ => status,
            })?;
        let subsets = endpoints.array_at(&["subsets"]);
        let unavailable = |shown: &str| {
            let message = format!("no endpoints available for service {shown:?}");
            Status::service_unavailable(message, 0)
        };
        if subsets.is_empty() {
            return Err(unavailable(target.name));
        }
        let ready = subsets.iter().any(|subset| {
            let named = |p: &Value| p.str_at(&["name"]) == port;
            !subset.array_at(&["addresses"]).is_empty() && subset.array_at(&["ports"]).iter().any(named)
        });
        if ready { Ok(()) } else { Err(unavailable(id)) }
    }
}

/// `name`, `name:port` or `scheme:name:port`.
struct Target<'a> {
    name: &'a str,
    port: &'a str,
}

impl<'a> Target<'a> {
    fn parse(what: &str, id: &'a str) -> StatusResult<Target<'a>> {
        let parts: Vec<&str> = id.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(Status::bad_request(format!("invalid {what} request {id:?}")));
        }
        Ok(Target { name, port })
    }
}

async fn find(collection: &Option<Arc<Collection>>, namespace: &str, name: &str) -> StatusResult<Value> {
    let collection = collection.as_ref().ok_or_else(Status::no_such_resource)?;
    let key = collection.key(namespace, name)?;
    let found = collection.get_consistent(&key).await?;
    let object = found.ok_or_else(|| Status::not_found(&collection.group_resource, name))?;
    if let Some(problem) = object.broken() {
        return Err(Status::internal(problem));
    }
    json::from_slice(object.bytes()).map_err(Status::internal)
}

fn node_of(pod: &Value) -> &str {
    pod.str_at(&["spec", "nodeName"])
}

fn need_node(pod: &Value, name: &str) -> StatusResult<()> {
    if node_of(pod).is_empty() {
        return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
    }
    Ok(())
}

/// The container asked for must be one of the pod's; without a name the pod must have just one.
fn check_container(pod: &Value, asked: &str) -> StatusResult<()> {
    let name = triptych_object::meta::name(pod);
    let all: Vec<&str> = ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .flat_map(|list| pod.array_at(&["spec", list]))
        .map(|c| c.str_at(&["name"]))
        .collect();
    let must = format!("a container name must be specified for pod {name}");
    if asked.is_empty() {
        return match pod.array_at(&["spec", "containers"]).len() {
            1 => Ok(()),
            0 => Err(Status::bad_request(must)),
            _ => Err(Status::bad_request(format!(
                "{must}, choose one of: [{}]",
                all.join(" ")
            ))),
        };
    }
    if all.contains(&asked) {
        return Ok(());
    }
    Err(Status::bad_request(format!(
        "container {asked} is not valid for pod {name}"
    )))
}

/// Checks the options of a log request; the container asked for.
fn log_options(pod: &str, query: &str) -> StatusResult<String> {
    let number = |name: &str| -> StatusResult<Option<i64>> {
        let Some(text) = param(query, name) else {
            return Ok(None);
        };
        let why = |why: &str| {
            let quoted = triptych_object::field::quote(&text);
            Status::bad_request(format!("strconv.ParseInt: parsing {quoted}: {why}"))
        };
        let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(why("invalid syntax"));
        }
        text.parse().map(Some).map_err(|_| why("value out of range"))
    };
    let (since, tail, limit) = (number("sinceSeconds")?, number("tailLines")?, number("limitBytes")?);
    let since_time = param(query, "sinceTime").filter(|t| time::parse_rfc3339(t).is_some());
    let mut errors = ErrorList::new();
    if let Some(tail) = tail.filter(|t| *t < 0) {
        errors.push(Error::invalid("tailLines", tail, "must be greater than or equal to 0"));
    }
    if let Some(limit) = limit.filter(|l| *l < 1) {
        errors.push(Error::invalid("limitBytes", limit, "must be greater than 0"));
    }
    match (since, since_time) {
        (Some(_), Some(_)) => {
            let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(Error::forbidden("[]", detail));
        }
        (Some(since), None) if since < 1 => {
            errors.push(Error::invalid("sinceSeconds", since, "must be greater than 0"));
        }
        _ => {}
    }
    if params(query).any(|(name, _)| name == "stream") {
        errors.push(Error::forbidden("stream", "may not be specified"));
    }
    if !errors.is_empty() {
        return Err(Status::invalid(&GroupKind::new("", "PodLogOptions"), pod, &errors));
    }
    Ok(param(query, "container").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_options_are_refused_in_kubernetes_words() {
        let message = |query: &str| log_options("p", query).unwrap_err().message;
        assert_eq!(
            message("tailLines=x"),
            "strconv.ParseInt: parsing \"x\": invalid syntax"
        );
        assert_eq!(
            message("sinceSeconds=1&sinceTime=2024-01-01T00:00:00Z"),
            "PodLogOptions \"p\" is invalid: []: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"
        );
        assert_eq!(log_options("p", "container=a&follow=x").unwrap(), "a");
    }

    #[test]
    fn a_pod_with_several_containers_must_be_told_which() {
        let pod = json::from_slice(
            br#"{"metadata":{"name":"p"},"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"b"}]}}"#,
        )
        .unwrap();
        assert_eq!(
            check_container(&pod, "").unwrap_err().message,
            "a container name must be specified for pod p, choose one of: [i a b]"
        );
        assert!(check_container(&pod, "i").is_ok());
    }
}
