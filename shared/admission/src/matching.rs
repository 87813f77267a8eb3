//! Which requests a webhook or policy asks to see: rules, namespace and object selectors, match policy.
//!
//! Contract: a rule that matches another version of the same objects matches too if the match policy is Equivalent; then
//! the object is shown in that version. A namespace that cannot be read only matters where everything else matches.

use std::sync::Arc;

use triptych_object::selector::LabelSelector;
use triptych_object::{GroupResource, GroupVersion, Gvk, Gvr, Status, StatusResult, Value};
use triptych_registry::admission::{Attributes, Operation};

use crate::lookup::{Facts, Find};

/// A namespace, whole: policies show it to their expressions.
pub struct Namespace(pub Value);

impl Facts for Namespace {
    fn of(object: &Value) -> Namespace {
        Namespace(object.clone())
    }
}

/// Finds namespaces.
pub type Namespaces = Arc<dyn Find<Namespace>>;

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Any,
    Namespaced,
    Cluster,
}

fn texts(rule: &Value, member: &str) -> Vec<String> {
    let items = rule.array_at(&[member]).iter().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

fn lists(items: &[String], wanted: &str) -> bool {
    items.iter().any(|item| item == "*" || item == wanted)
}

fn is_namespaces(resource: &Gvr) -> bool {
    resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces"
}

impl Rule {
    /// Reads a `RuleWithOperations` or `NamedRuleWithOperations`.
    pub fn of(rule: &Value) -> Rule {
        Rule {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources"),
            scope: match rule.str_at(&["scope"]) {
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => Scope::Any,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    fn matches(&self, attributes: &Attributes<'_>, resource: &Gvr) -> bool {
        let namespaced = !is_namespaces(resource) && !attributes.namespace.is_empty();
        let within = match self.scope {
            Scope::Any => true,
            Scope::Namespaced => namespaced,
            Scope::Cluster => !namespaced,
        };
        let of_resource = |entry: &String| {
            let (main, sub) = entry.split_once('/').unwrap_or((entry, ""));
            (main == "*" || main == resource.resource) && (sub == "*" || sub == attributes.subresource)
        };
        within
            && lists(&self.operations, attributes.operation.text())
            && lists(&self.groups, &resource.group)
            && lists(&self.versions, &resource.version)
            && self.resources.iter().any(of_resource)
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
    }
}

/// What somebody wants to see.
#[derive(Clone, Debug, Default)]
pub struct Criteria {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    equivalent: bool,
    /// Without rules everything is meant.
    all_without_rules: bool,
}

/// As what a request is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The resource that a rule named.
    pub resource: Gvr,
    /// Its kind.
    pub kind: Gvk,
}

impl Criteria {
    /// Of a webhook.
    pub fn of_webhook(webhook: &Value) -> Criteria {
        Criteria {
            namespaces: LabelSelector::of(webhook.get("namespaceSelector")),
            objects: LabelSelector::of(webhook.get("objectSelector")),
            rules: webhook.array_at(&["rules"]).iter().map(Rule::of).collect(),
            excluded: Vec::new(),
            equivalent: webhook.str_at(&["matchPolicy"]) == "Equivalent",
            all_without_rules: false,
        }
    }

    /// Of `matchConstraints` of a policy or `matchResources` of a binding; of nothing, everything.
    pub fn of_policy(constraints: Option<&Value>) -> Criteria {
        let none = Value::Null;
        let constraints = constraints.unwrap_or(&none);
        Criteria {
            namespaces: LabelSelector::of(constraints.get("namespaceSelector")),
            objects: LabelSelector::of(constraints.get("objectSelector")),
            rules: constraints.array_at(&["resourceRules"]).iter().map(Rule::of).collect(),
            excluded: constraints
                .array_at(&["excludeResourceRules"])
                .iter()
                .map(Rule::of)
                .collect(),
            equivalent: constraints.str_at(&["matchPolicy"]) != "Exact",
            all_without_rules: true,
        }
    }

    /// As what a request is to be shown; `None` if not at all.
    pub async fn find(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        old: Option<&Value>,
        namespaces: &Namespaces,
    ) -> StatusResult<Option<Invocation>> {
        if !self.selects_object(object, old) || self.by_rules(&self.excluded, attributes).is_some() {
            return Ok(None);
        }
        let found = if self.rules.is_empty() && self.all_without_rules {
            Some(Invocation {
                resource: attributes.resource.clone(),
                kind: attributes.kind.clone(),
            })
        } else {
            self.by_rules(&self.rules, attributes)
        };
        match found {
            Some(found) if self.selects_namespace(attributes, object, namespaces).await? => Ok(Some(found)),
            _ => Ok(None),
        }
    }

    fn by_rules(&self, rules: &[Rule], attributes: &Attributes<'_>) -> Option<Invocation> {
        if rules.iter().any(|rule| rule.matches(attributes, attributes.resource)) {
            return Some(Invocation {
                resource: attributes.resource.clone(),
                kind: attributes.kind.clone(),
            });
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let own = attributes.resource;
        let own_version = GroupVersion::new(own.group.as_str(), own.version.as_str());
        let others: Vec<GroupVersion> = attributes
            .model
            .versions()
            .iter()
            .filter_map(|version| version.parse().ok())
            .filter(|version| *version != own_version)
            .collect();
        rules.iter().find_map(|rule| {
            others.iter().find_map(|version| {
                let resource = Gvr::new(version.group.as_str(), version.version.as_str(), own.resource.as_str());
                if !rule.matches(attributes, &resource) {
                    return None;
                }
                // a subresource with a kind of its own has it in every version
                let kind = match attributes.kind.group_version() == own_version {
                    true => version.kind(attributes.kind.kind.as_str()),
                    false => attributes.kind.clone(),
                };
                Some(Invocation { resource, kind })
            })
        })
    }

    fn selects_object(&self, object: Option<&Value>, old: Option<&Value>) -> bool {
        let selects = |object: Option<&Value>| object.is_some_and(|object| self.objects.matches_object(object));
        self.objects.is_everything() || selects(object) || selects(old)
    }

    async fn selects_namespace(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        namespaces: &Namespaces,
    ) -> StatusResult<bool> {
        let of_namespaces = attributes.resource.resource == "namespaces";
        if self.namespaces.is_everything() || attributes.namespace.is_empty() && !of_namespaces {
            return Ok(true);
        }
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(object) = object.filter(|_| of_namespaces && attributes.subresource.is_empty() && writes) {
            return Ok(self.namespaces.matches_object(object));
        }
        let namespace = namespaces.get("", attributes.namespace).await?;
        let namespace =
            namespace.ok_or_else(|| Status::not_found(&GroupResource::new("", "namespaces"), attributes.namespace))?;
        Ok(self.namespaces.matches_object(&namespace.0))
    }
}

/// Webhooks and policies never see what configures them.
pub fn is_exempt(kind: &Gvk) -> bool {
    kind.group == "admissionregistration.k8s.io"
        && matches!(
            kind.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}
