//! `format.named(…)` and the formats it finds.

use triptych_object::names;
use triptych_schema::validate;

use super::standard::texts;
use super::{Extension, url};
use crate::value::{Found, Value};

/// A named format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedFormat {
    key: &'static str,
    name: &'static str,
    regex_size: u64,
}

const fn format(key: &'static str, name: &'static str, regex_size: u64) -> NamedFormat {
    NamedFormat { key, name, regex_size }
}

const FORMATS: [NamedFormat; 13] = [
    format("dns1123Label", "DNS1123Label", 30),
    format("dns1123Subdomain", "DNS1123Subdomain", 60),
    format("dns1035Label", "DNS1035Label", 30),
    format("qualifiedName", "QualifiedName", 60),
    format("dns1123LabelPrefix", "DNS1123LabelPrefix", 30),
    format("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", 60),
    format("dns1035LabelPrefix", "DNS1035LabelPrefix", 30),
    format("labelValue", "LabelValue", 40),
    format("uri", "URI", 1103),
    format("uuid", "uuid", 105),
    format("byte", "byte", 84),
    format("date", "date", 71),
    format("datetime", "datetime", 71),
];

impl NamedFormat {
    /// The format with this key.
    pub fn find(key: &str) -> Option<NamedFormat> {
        FORMATS.into_iter().find(|f| f.key == key)
    }

    /// The name it shows.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The length of the pattern it stands for.
    pub(crate) fn regex_size(&self) -> u64 {
        self.regex_size
    }

    /// What is wrong with a text.
    fn validate(&self, text: &str) -> Vec<String> {
        let known = |format: &str, message: &str| match validate::has_format(format, text) {
            Some(false) => vec![message.to_owned()],
            _ => Vec::new(),
        };
        match self.key {
            "dns1123Label" => names::dns1123_label(text),
            "dns1123Subdomain" => names::dns1123_subdomain(text),
            "dns1035Label" => names::dns1035_label(text),
            "qualifiedName" => names::qualified_name(text),
            "dns1123LabelPrefix" => names::dns1123_label_prefix(text),
            "dns1123SubdomainPrefix" => names::dns1123_subdomain_prefix(text),
            "dns1035LabelPrefix" => names::dns1035_label_prefix(text),
            "labelValue" => names::label_value(text),
            "uri" => url::request_uri(text).err().into_iter().collect(),
            "uuid" => known("uuid", "does not match the UUID format"),
            "byte" => known("byte", "invalid base64"),
            "date" => known("date", "invalid date"),
            _ => known("datetime", "invalid datetime"),
        }
    }
}

/// Calls a function if it is one of these.
pub fn call<'a>(function: &str, args: &[Value<'a>]) -> Option<Found<'a>> {
    let value = |format| Value::Extension(Extension::Format(format));
    Some(Ok(match (function, args) {
        ("format.named", [Value::String(name)]) => Value::optional(NamedFormat::find(name).map(value)),
        ("validate", [Value::Extension(Extension::Format(format)), Value::String(text)]) => {
            let wrong = format.validate(text);
            Value::optional((!wrong.is_empty()).then(|| texts(wrong)))
        }
        (name, []) => value(NamedFormat::find(name.strip_prefix("format.")?)?),
        _ => return None,
    }))
}
