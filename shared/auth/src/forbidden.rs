//! The 403 of a request that no authorizer allowed, in kube-apiserver's words.
//!
//! The message goes to browsers too, so what could look like HTML in it is escaped; the authorizer's reason is not.

use triptych_object::field::quote;
use triptych_object::{RequestInfo, Status, UserInfo};

/// The 403 for what `user` may not do, with the authorizer's reason if it gave one.
pub fn forbidden(user: &UserInfo, request: &RequestInfo, reason: &str) -> Box<Status> {
    let mut message = escape(&sentence(user, request));
    if !reason.is_empty() {
        message.push_str(": ");
        message.push_str(reason);
    }
    Status::forbidden(&request.group_resource(), &request.name, message)
}

fn sentence(user: &UserInfo, request: &RequestInfo) -> String {
    let (user, verb) = (quote(&user.name), &request.verb);
    if !request.is_resource {
        return format!("User {user} cannot {verb} path {}", quote(&request.path));
    }
    let resource = if request.subresource.is_empty() {
        quote(&request.resource)
    } else {
        quote(&format!("{}/{}", request.resource, request.subresource))
    };
    let group = quote(&request.group);
    let scope = if request.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {}", quote(&request.namespace))
    };
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

fn escape(text: &str) -> String {
    if !text.contains(['&', '<', '>']) {
        return text.to_owned();
    }
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(method: &str, path: &str, reason: &str) -> String {
        let user = UserInfo::new("<b>", ["g"]);
        forbidden(&user, &RequestInfo::parse(method, path, "").unwrap(), reason).message
    }

    #[test]
    fn it_names_user_verb_resource_and_scope() {
        assert_eq!(
            message("GET", "/api/v1/namespaces/a/pods/b/log", ""),
            r#"pods "b" is forbidden: User "&lt;b&gt;" cannot get resource "pods/log" in API group "" in the namespace "a""#
        );
        assert_eq!(
            message("GET", "/apis/apps/v1/deployments", "RBAC: <no>"),
            r#"deployments.apps is forbidden: User "&lt;b&gt;" cannot list resource "deployments" in API group "apps" at the cluster scope: RBAC: <no>"#
        );
        assert_eq!(
            message("GET", "/version", ""),
            r#"forbidden: User "&lt;b&gt;" cannot get path "/version""#
        );
    }
}
