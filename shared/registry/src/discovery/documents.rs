//! The unaggregated documents: APIVersions, APIGroup, APIGroupList, APIResourceList.

use triptych_object::{Object, Value};

/// `/api`: the versions of the core group and where this server is to be reached.
pub fn api_versions(server_address: &str) -> Value {
    Value::from([
        ("kind", text("APIVersions")),
        ("versions", Value::Array(vec![text("v1")])),
        (
            "serverAddressByClientCIDRs",
            Value::Array(vec![Value::from([
                ("clientCIDR", text("0.0.0.0/0")),
                ("serverAddress", text(server_address)),
            ])]),
        ),
    ])
}

/// `/apis/<group>`: a group's versions, the preferred one first.
pub fn api_group<'a>(group: &str, versions: impl IntoIterator<Item = &'a str>) -> Value {
    Value::Object(
        [("kind", text("APIGroup")), ("apiVersion", text("v1"))]
            .into_iter()
            .chain(group_members(group, versions))
            .map(|(k, v)| (k.to_owned(), v))
            .collect::<Object>(),
    )
}

/// A group as an item of an APIGroupList.
pub fn api_group_item<'a>(group: &str, versions: impl IntoIterator<Item = &'a str>) -> Value {
    Value::from(group_members(group, versions))
}

/// `/apis`: every group, in order.
pub fn api_group_list(groups: Vec<Value>) -> Value {
    Value::from([
        ("kind", text("APIGroupList")),
        ("apiVersion", text("v1")),
        ("groups", Value::Array(groups)),
    ])
}

/// `/api/v1`, `/apis/<group>/<version>`: the resources and subresources of a group-version. The core group's document
/// has carried no `apiVersion` since 1.1.
pub fn api_resource_list(group: &str, version: &str, resources: Vec<Value>) -> Value {
    let mut list = Object::with_capacity(4);
    list.insert("kind", text("APIResourceList"));
    if !group.is_empty() {
        list.insert("apiVersion", text("v1"));
    }
    list.insert("groupVersion", text(&group_version(group, version)));
    list.insert("resources", Value::Array(resources));
    Value::Object(list)
}

/// `v1` or `apps/v1`.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn group_members<'a>(group: &str, versions: impl IntoIterator<Item = &'a str>) -> [(&'static str, Value); 3] {
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| {
            Value::from([
                ("groupVersion", text(&group_version(group, version))),
                ("version", text(version)),
            ])
        })
        .collect();
    let preferred = versions.first().cloned().unwrap_or_default();
    [
        ("name", text(group)),
        ("versions", Value::Array(versions)),
        ("preferredVersion", preferred),
    ]
}

pub(super) fn text(s: &str) -> Value {
    Value::String(s.to_owned())
}

pub(super) fn texts<S: AsRef<str>>(list: impl IntoIterator<Item = S>) -> Value {
    Value::Array(list.into_iter().map(|s| text(s.as_ref())).collect())
}
