//! Running one plugin on one write, for the plugins' tests.

use triptych_object::{GroupVersion, Gvk, Gvr, StatusResult, UserInfo, Value, json, meta};
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_registry::model::{DecodeError, Decoded, Model};
use triptych_registry::negotiate::{self, Format, Offer};
use triptych_schema::types::{Schema, TypeId};

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
        let model = AsItIs::new(kind.clone());
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
            model: &model,
            deadline: std::time::Instant::now() + std::time::Duration::from_secs(10),
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

/// The model of a kind whose documents are taken as they are.
pub struct AsItIs {
    gvk: Gvk,
    schema: Schema,
}

impl AsItIs {
    pub fn new(gvk: Gvk) -> AsItIs {
        AsItIs {
            gvk,
            schema: Schema::default(),
        }
    }
}

impl Model for AsItIs {
    fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    fn schema(&self) -> (&Schema, TypeId) {
        (&self.schema, TypeId(0))
    }

    fn convert(&self, document: &Value, api_version: &str) -> Result<Value, String> {
        let mut converted = document.clone();
        converted.set_at(&["apiVersion"], api_version.into());
        Ok(converted)
    }

    /// Every kind here is served as v1 and v2.
    fn versions(&self) -> Vec<String> {
        let version = |version| GroupVersion::new(self.gvk.group.as_str(), version).to_string();
        vec![version("v1"), version("v2")]
    }

    fn offer(&self) -> Offer {
        negotiate::CUSTOM
    }

    fn bare_items(&self) -> bool {
        false
    }

    fn merges_strategically(&self) -> bool {
        false
    }

    fn decode_body(&self, _format: Format, _body: &[u8]) -> Result<Decoded, DecodeError> {
        Err(DecodeError::default())
    }

    fn decode(
        &self,
        _document: &mut Value,
        _reader: triptych_schema::decode::Reader<'_>,
    ) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }

    fn default(&self, _document: &mut Value) {}

    fn encode(&self, _document: &Value, _format: Format) -> Option<Vec<u8>> {
        None
    }
}
