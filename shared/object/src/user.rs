//! Who asks: the identity that authenticators produce and everything above them reads.

use std::collections::BTreeMap;

/// Every request of somebody unknown runs as this user, in group [`UNAUTHENTICATED`].
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of everybody who proved an identity.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group that may do everything.
pub const MASTERS: &str = "system:masters";

/// A user as in `authentication.k8s.io/v1` UserInfo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// Unique among active users.
    pub name: String,
    /// Unique over time; may be empty.
    pub uid: String,
    /// Groups, in the order the authenticator gave them.
    pub groups: Vec<String>,
    /// What else the authenticator knows; keys are lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    /// A user of a name and groups.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        UserInfo {
            name: name.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Default::default()
        }
    }

    /// The user of a request that carries no credentials.
    pub fn anonymous() -> Self {
        UserInfo::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// True if the user is in `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Namespace and name, if this is a service account's user.
    pub fn service_account(&self) -> Option<(&str, &str)> {
        let (namespace, name) = self.name.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
    }
}
