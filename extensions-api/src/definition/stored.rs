//! CRDs as they lie in the store: `apiextensions.k8s.io/v1beta1`, as kube-apiserver still writes them.
//!
//! Contract: [`to_stored`] and [`from_stored`] are each other's inverse for every valid CRD; what v1beta1 leaves out is
//! defaulted as v1beta1 defaults it. Values in v1 (of a newer server) are read as they are.

use bytes::Bytes;
use triptych_object::{Object, Value, json};
use triptych_storage::FieldPath;
use triptych_storage::cache::Decoder;

use super::internal;

const STORED: &str = "apiextensions.k8s.io/v1beta1";
/// The version that is served.
pub const SERVED: &str = "apiextensions.k8s.io/v1";

/// The stored form of a v1 document.
pub fn to_stored(document: &Value) -> Value {
    let mut spec = internal::hoisted(document.get("spec").unwrap_or(&Value::Null));
    rename_columns(&mut spec, "jsonPath", "JSONPath");
    let mut out = Object::new();
    out.insert("kind", "CustomResourceDefinition".into());
    out.insert("apiVersion", STORED.into());
    for (name, value) in document.as_object().into_iter().flat_map(Object::iter) {
        match name {
            "kind" | "apiVersion" => {}
            "spec" => drop(out.insert("spec", std::mem::take(&mut spec))),
            _ => drop(out.insert(name, value.clone())),
        }
    }
    Value::Object(out)
}

/// The v1 document of a stored one.
pub fn from_stored(mut document: Value) -> Value {
    if document.str_at(&["apiVersion"]) == SERVED {
        return document;
    }
    let mut spec = document.get("spec").cloned().unwrap_or_else(Value::object);
    default_spec(&mut spec);
    rename_columns(&mut spec, "JSONPath", "jsonPath");
    let spec = internal::lowered(&spec);
    let storage = spec.array_at(&["versions"]).iter();
    let storage = storage.filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    let storage: Vec<Value> = storage.take(1).filter_map(|v| v.get("name").cloned()).collect();
    if document.array_at(&["status", "storedVersions"]).is_empty() && !storage.is_empty() {
        document.set_at(&["status", "storedVersions"], Value::Array(storage));
    }
    document.set_at(&["apiVersion"], SERVED.into());
    document.set_at(&["spec"], spec);
    document
}

/// `SetDefaults_CustomResourceDefinitionSpec` of v1beta1.
fn default_spec(spec: &mut Value) {
    let absent = |spec: &Value, path: &[&str]| spec.str_at(path).is_empty();
    if absent(spec, &["scope"]) {
        spec.set_at(&["scope"], "Namespaced".into());
    }
    let kind = spec.str_at(&["names", "kind"]).to_owned();
    if absent(spec, &["names", "singular"]) && !kind.is_empty() {
        spec.set_at(&["names", "singular"], kind.to_lowercase().into());
    }
    if absent(spec, &["names", "listKind"]) && !kind.is_empty() {
        spec.set_at(&["names", "listKind"], format!("{kind}List").into());
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.set_at(&["conversion"], Value::from([("strategy", "None".into())]));
    }
    let webhook = spec.str_at(&["conversion", "strategy"]) == "Webhook";
    if webhook && spec.array_at(&["conversion", "conversionReviewVersions"]).is_empty() {
        let versions = Value::from(vec!["v1beta1"]);
        spec.set_at(&["conversion", "conversionReviewVersions"], versions);
    }
    if spec.get("preserveUnknownFields").and_then(Value::as_bool).is_none() {
        spec.set_at(&["preserveUnknownFields"], Value::Bool(true));
    }
}

/// Printer columns spell the member of their path differently.
fn rename_columns(spec: &mut Value, from: &str, to: &str) {
    let rename = |columns: Option<&mut Value>| {
        for column in columns.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(path) = column.remove_at(&[from]) {
                column.set_at(&[to], path);
            }
        }
    };
    rename(spec.get_mut("additionalPrinterColumns"));
    for version in spec
        .get_mut("versions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        rename(version.get_mut("additionalPrinterColumns"));
    }
}

/// Reads stored CRDs.
pub struct StoredDefinitions;

impl Decoder for StoredDefinitions {
    fn decode(&self, _key: &str, value: &Bytes) -> Result<Bytes, String> {
        if value.starts_with(b"k8s\0") {
            return Err("the stored value is not JSON".into());
        }
        let document = json::from_slice(value).map_err(|e| e.message)?;
        Ok(json::to_vec(&from_stored(document)).into())
    }

    fn selectable_fields(&self) -> &[FieldPath] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crd_comes_back_from_the_store_as_it_was() {
        let text = r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"x.a.b"},"spec":{"group":"a.b","names":{"plural":"x","singular":"x","kind":"X","listKind":"XList"},"scope":"Namespaced","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}},"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".spec.a"}]}],"conversion":{"strategy":"None"}},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":["v1"]}}"#;
        let document = json::from_slice(text.as_bytes()).unwrap();
        let stored = to_stored(&document);
        assert_eq!(stored.str_at(&["apiVersion"]), "apiextensions.k8s.io/v1beta1");
        assert_eq!(
            stored.array_at(&["spec", "additionalPrinterColumns"])[0].str_at(&["JSONPath"]),
            ".spec.a"
        );
        assert_eq!(stored.at(&["spec", "preserveUnknownFields"]), Some(&Value::Bool(false)));
        assert_eq!(json::to_string(&from_stored(stored)), text);
    }
}
