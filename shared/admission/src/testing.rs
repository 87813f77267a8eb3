//! Running one plugin on one write, for the plugins' tests.

use triptych_object::{Gvk, Gvr, StatusResult, UserInfo, Value, json, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};

use crate::chain::Plugin;

/// A write as plugins see it.
pub struct Write {
    pub operation: Operation,
    pub resource: Gvr,
    pub subresource: String,
    pub user: UserInfo,
    pub object: Option<Value>,
    pub old: Option<Value>,
}

pub fn tree(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

impl Write {
    /// `resource` is `plural` or `group/plural`.
    pub fn create(resource: &str, object: &str) -> Write {
        let (group, resource) = resource.split_once('/').unwrap_or(("", resource));
        Write {
            operation: Operation::Create,
            resource: Gvr::new(group, "v1", resource),
            subresource: String::new(),
            user: UserInfo::new("u", ["system:authenticated"]),
            object: Some(tree(object)),
            old: None,
        }
    }

    pub fn update(resource: &str, object: &str, old: &str) -> Write {
        Write {
            operation: Operation::Update,
            old: Some(tree(old)),
            ..Write::create(resource, object)
        }
    }

    pub fn delete(resource: &str, old: &str) -> Write {
        Write {
            operation: Operation::Delete,
            object: None,
            ..Write::update(resource, old, old)
        }
    }

    pub fn subresource(mut self, name: &str) -> Write {
        self.subresource = name.to_owned();
        self
    }

    pub fn user(mut self, user: UserInfo) -> Write {
        self.user = user;
        self
    }

    /// Mutates and validates, as far as the plugin is concerned; the object afterwards, with warnings.
    pub async fn admit(self, plugin: &dyn Plugin) -> StatusResult<(Value, Warnings)> {
        let Write {
            operation,
            resource,
            subresource,
            user,
            mut object,
            old,
        } = self;
        let mut warnings = Warnings::new();
        let shown = object.as_ref().or(old.as_ref()).cloned().unwrap_or_default();
        let (namespace, name) = (meta::namespace(&shown).to_owned(), meta::name(&shown).to_owned());
        let kind = Gvk::new(resource.group.as_str(), "v1", shown.str_at(&["kind"]));
        let attributes = Attributes {
            operation,
            resource: &resource,
            subresource: &subresource,
            kind: &kind,
            namespace: &namespace,
            name: &name,
            user: &user,
            dry_run: false,
            options: None,
        };
        if plugin.concerns(operation, &resource) {
            plugin
                .mutate(&attributes, object.as_mut(), old.as_ref(), &mut warnings)
                .await?;
            plugin
                .validate(&attributes, object.as_ref(), old.as_ref(), &mut warnings)
                .await?;
        }
        Ok((object.unwrap_or_default(), warnings))
    }

    /// The message of the refusal, empty if there is none.
    pub async fn refusal(self, plugin: &dyn Plugin) -> String {
        self.admit(plugin)
            .await
            .err()
            .map(|s| s.message.clone())
            .unwrap_or_default()
    }
}
