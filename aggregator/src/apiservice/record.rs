//! What the rest of this tier needs to know of an APIService.

use std::sync::Arc;

use triptych_object::{Object as Members, Value, json, meta};
use triptych_registry::discovery::Priority;
use triptych_storage::{Object, Source, View};

use super::condition::{self, Available};

/// The label by which an APIService is known to be kept by the control plane.
pub const MANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Who keeps an APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// A user.
    No,
    /// The control plane, when it starts.
    OnStart,
    /// The control plane, always.
    Always,
}

/// A reference to a Service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The port.
    pub port: u16,
}

impl ServiceRef {
    /// The name its server's certificate must be for.
    pub fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// An APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiService {
    /// `metadata.name`.
    pub name: Arc<str>,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.group`.
    pub group: Arc<str>,
    /// `spec.version`.
    pub version: Arc<str>,
    /// `spec.groupPriorityMinimum` and `spec.versionPriority`.
    pub priority: Priority,
    /// Where it is served; none if by our own tiers.
    pub service: Option<ServiceRef>,
    /// `spec.caBundle`, base64 as it came.
    pub ca_bundle: String,
    /// `spec.insecureSkipTLSVerify`.
    pub insecure: bool,
    /// Its condition `Available` is `True`.
    pub available: bool,
    /// It says that one of our tiers serves it.
    pub told_local: bool,
    /// Who keeps it.
    pub managed: Managed,
}

impl ApiService {
    /// Reads a stored object; `None` if it is none.
    pub fn of(object: &Object) -> Option<ApiService> {
        json::from_slice(object.bytes())
            .ok()
            .map(|value| ApiService::read(&value))
    }

    /// Reads a document.
    pub fn read(object: &Value) -> ApiService {
        let text = |member: &str| object.str_at(&["spec", member]);
        let number = |path: &[&str]| object.at(path).and_then(Value::as_i64).unwrap_or(0);
        let service = object.at(&["spec", "service"]).filter(|s| !s.is_null());
        ApiService {
            name: meta::name(object).into(),
            uid: meta::uid(object).to_owned(),
            group: text("group").into(),
            version: text("version").into(),
            priority: Priority {
                group: number(&["spec", "groupPriorityMinimum"]) as i32,
                version: number(&["spec", "versionPriority"]) as i32,
            },
            service: service.map(|s| ServiceRef {
                namespace: s.str_at(&["namespace"]).to_owned(),
                name: s.str_at(&["name"]).to_owned(),
                port: u16::try_from(number(&["spec", "service", "port"])).unwrap_or(443),
            }),
            ca_bundle: text("caBundle").to_owned(),
            insecure: object.at(&["spec", "insecureSkipTLSVerify"]).and_then(Value::as_bool) == Some(true),
            available: condition::find(object).is_some_and(|c| c.str_at(&["status"]) == "True"),
            told_local: Available::local().is_told_by(object),
            managed: match meta::label(object, MANAGED_LABEL) {
                Some("onstart") => Managed::OnStart,
                Some("true") => Managed::Always,
                _ => Managed::No,
            },
        }
    }

    /// A local APIService that this control plane keeps.
    pub fn kept(group: &str, version: &str, managed: Managed) -> ApiService {
        ApiService {
            name: format!("{version}.{group}").into(),
            uid: String::new(),
            group: group.into(),
            version: version.into(),
            priority: Priority::of(group, version),
            service: None,
            ca_bundle: String::new(),
            insecure: false,
            available: true,
            told_local: true,
            managed,
        }
    }

    /// True if the specs are the same.
    pub fn same_spec(&self, other: &ApiService) -> bool {
        let spec = |s: &ApiService| {
            let (priority, service) = (s.priority, s.service.clone());
            let names = (Arc::clone(&s.group), Arc::clone(&s.version));
            (names, priority, service, s.ca_bundle.clone(), s.insecure)
        };
        spec(self) == spec(other)
    }

    /// `spec` of an APIService that this control plane keeps.
    pub fn spec(&self) -> Value {
        let mut spec = Members::with_capacity(4);
        if !self.group.is_empty() {
            spec.insert("group", (*self.group).into());
        }
        spec.insert("version", (*self.version).into());
        spec.insert("groupPriorityMinimum", i64::from(self.priority.group).into());
        spec.insert("versionPriority", i64::from(self.priority.version).into());
        Value::Object(spec)
    }

    /// The whole object, to be created.
    pub fn to_object(&self) -> Value {
        let mut metadata = Value::from([("name", (*self.name).into())]);
        let managed = match self.managed {
            Managed::No => None,
            Managed::OnStart => Some("onstart"),
            Managed::Always => Some("true"),
        };
        if let Some(managed) = managed {
            metadata.set_at(&["labels"], Value::from([(MANAGED_LABEL, managed.into())]));
        }
        Value::from([
            ("apiVersion", "apiregistration.k8s.io/v1".into()),
            ("kind", "APIService".into()),
            ("metadata", metadata),
            ("spec", self.spec()),
        ])
    }
}

/// All APIServices.
pub type ApiServiceView = View<ApiService>;

/// A view of all APIServices over this tier's cache of them.
pub fn view(cache: Arc<dyn Source>) -> Arc<ApiServiceView> {
    Arc::new(View::new(cache, ApiService::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_from_the_object_made_of_it() {
        for (group, managed) in [
            ("apps", Managed::OnStart),
            ("", Managed::OnStart),
            ("example.com", Managed::Always),
        ] {
            let kept = ApiService::kept(group, "v1", managed);
            let read = ApiService::read(&kept.to_object());
            assert!(kept.same_spec(&read) && kept.managed == read.managed && kept.name == read.name);
        }
    }
}
