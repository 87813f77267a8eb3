//! ServiceAccount: of a reference to a secret only the name counts.

use triptych_object::{Value, meta};
use triptych_registry::strategy::{Context, Strategy};

const MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

/// The strategy of `serviceaccounts`.
pub struct ServiceAccounts;

impl Strategy for ServiceAccounts {
    fn prepare_create(&self, _cx: &Context, new: &mut Value) {
        keep_names(new);
    }

    fn prepare_update(&self, _cx: &Context, new: &mut Value, _old: &Value) {
        keep_names(new);
    }

    fn warnings(&self, _cx: &Context, new: &Value, old: Option<&Value>) -> Vec<String> {
        let has = |object: &Value| meta::annotation(object, MOUNTABLE).is_some();
        if !has(new) || old.is_some_and(has) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }
}

fn keep_names(account: &mut Value) {
    let secrets = account.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        let name = secret.str_at(&["name"]).to_owned();
        *secret = if name.is_empty() {
            Value::object()
        } else {
            Value::from([("name", name.into())])
        };
    }
}
