//! Roles and bindings, indexed by whom they are for.
//!
//! Contract: whoever asks first brings the index up to its sources (caches or mirrors) if they have changed; otherwise
//! readers take an immutable snapshot and no lock. A question costs one look-up for the user and for each of its groups, whatever else is bound to others. A
//! binding's role is resolved when asked, so that it may come, change or go at any time.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use imbl::{HashMap, OrdMap};
use parking_lot::Mutex;
use triptych_object::{UserInfo, Value, field, meta};
use triptych_storage::Source as ObjectSource;
use triptych_storage::cache::{Mark, Snapshot};

use super::follow::{News, news};
use super::rules::PolicyRule;
use crate::authentication::service_account::USER_PREFIX;

/// The four resources RBAC consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RbacKind {
    /// `roles`
    Role,
    /// `rolebindings`
    RoleBinding,
    /// `clusterroles`
    ClusterRole,
    /// `clusterrolebindings`
    ClusterRoleBinding,
}

impl RbacKind {
    /// All of them.
    pub const ALL: [RbacKind; 4] = [
        RbacKind::Role,
        RbacKind::RoleBinding,
        RbacKind::ClusterRole,
        RbacKind::ClusterRoleBinding,
    ];

    /// Plural resource name in `rbac.authorization.k8s.io`.
    pub fn resource(self) -> &'static str {
        match self {
            RbacKind::Role => "roles",
            RbacKind::RoleBinding => "rolebindings",
            RbacKind::ClusterRole => "clusterroles",
            RbacKind::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    fn is_namespaced(self) -> bool {
        matches!(self, RbacKind::Role | RbacKind::RoleBinding)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Whom a binding is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `User`, `Group` or `ServiceAccount`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Namespace of a service account.
    pub namespace: String,
}

/// Which role a binding grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl RoleRef {
    /// Reads the `roleRef` of a binding.
    pub fn of_binding(binding: &Value) -> RoleRef {
        RoleRef {
            kind: binding.str_at(&["roleRef", "kind"]).to_owned(),
            name: binding.str_at(&["roleRef", "name"]).to_owned(),
        }
    }
}

/// A role binding or, without namespace, a cluster role binding.
#[derive(Debug, PartialEq, Eq)]
pub struct Binding {
    /// `metadata.name`.
    pub name: String,
    /// Empty for cluster role bindings.
    pub namespace: String,
    /// What it grants.
    pub role: RoleRef,
    /// To whom.
    pub subjects: Vec<Subject>,
}

impl Binding {
    fn from_value(namespace: &str, name: &str, binding: &Value) -> Binding {
        let subject = |s: &Value| Subject {
            kind: s.str_at(&["kind"]).to_owned(),
            name: s.str_at(&["name"]).to_owned(),
            namespace: s.str_at(&["namespace"]).to_owned(),
        };
        Binding {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            role: RoleRef::of_binding(binding),
            subjects: binding.array_at(&["subjects"]).iter().map(subject).collect(),
        }
    }

    /// Under which key a subject is found; `None` for one that can be nobody.
    fn key(&self, subject: &Subject) -> Option<SubjectKey> {
        match subject.kind.as_str() {
            "User" => Some((Whose::User, subject.name.as_str().into())),
            "Group" => Some((Whose::Group, subject.name.as_str().into())),
            "ServiceAccount" => {
                let namespace = match subject.namespace.as_str() {
                    "" => &self.namespace,
                    set => set,
                };
                let name = &subject.name;
                (!namespace.is_empty()).then(|| (Whose::User, format!("{USER_PREFIX}{namespace}:{name}").into()))
            }
            _ => None,
        }
    }

    /// The first subject that is this user; no allocation, since every allowed request asks.
    fn first_subject(&self, user: &UserInfo) -> Option<usize> {
        self.subjects.iter().position(|subject| match subject.kind.as_str() {
            "User" => subject.name == user.name,
            "Group" => user.in_group(&subject.name),
            "ServiceAccount" => {
                let namespace = match subject.namespace.as_str() {
                    "" => &self.namespace,
                    set => set,
                };
                let name = user.name.strip_prefix(USER_PREFIX);
                let name = name.and_then(|n| n.strip_prefix(namespace)?.strip_prefix(':'));
                !namespace.is_empty() && name == Some(subject.name.as_str())
            }
            _ => false,
        })
    }
}

/// How a binding applies to a user, as kube-apiserver tells it: `RoleBinding "b/ns" of Role "r" to User "u"`.
#[derive(Clone, Debug)]
pub struct Source {
    binding: Arc<Binding>,
    subject: usize,
}

impl Source {
    /// Of a binding that applies to the user.
    pub(super) fn new(binding: &Arc<Binding>, user: &UserInfo) -> Source {
        Source {
            binding: binding.clone(),
            subject: binding.first_subject(user).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding {
            name, namespace, role, ..
        } = &*self.binding;
        let role = format_args!("{} {}", role.kind, field::quote(&role.name)).to_string();
        if namespace.is_empty() {
            write!(f, "ClusterRoleBinding {} of {role} to ", field::quote(name))?;
        } else {
            let name = format!("{name}/{namespace}");
            write!(f, "RoleBinding {} of {role} to ", field::quote(&name))?;
        }
        let Some(subject) = self.binding.subjects.get(self.subject) else {
            return Ok(());
        };
        let mut shown = subject.name.clone();
        if subject.kind == "ServiceAccount" {
            shown.push('/');
            shown.push_str(if subject.namespace.is_empty() {
                namespace
            } else {
                &subject.namespace
            });
        }
        write!(f, "{} {}", subject.kind, field::quote(&shown))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Whose {
    User,
    Group,
}

type SubjectKey = (Whose, Arc<str>);
type Bindings = OrdMap<Arc<str>, Arc<Binding>>;
type Rules = Arc<[PolicyRule]>;

/// The bindings of one user or group.
#[derive(Clone, Debug, Default)]
struct Bound {
    cluster: Bindings,
    namespaced: HashMap<Arc<str>, Bindings>,
}

#[derive(Clone, Debug, Default)]
struct State {
    synced: u8,
    /// Up to where each source, in the order of [`RbacKind::ALL`], is in here.
    marks: [Option<Mark>; 4],
    cluster_roles: HashMap<Arc<str>, Rules>,
    /// By namespace and name.
    roles: HashMap<Arc<str>, HashMap<Arc<str>, Rules>>,
    /// By `namespace/name`; the namespace of cluster role bindings is empty.
    bindings: OrdMap<Arc<str>, Arc<Binding>>,
    users: HashMap<Arc<str>, Bound>,
    groups: HashMap<Arc<str>, Bound>,
}

/// All roles and bindings.
#[derive(Default)]
pub struct RbacIndex {
    state: ArcSwap<State>,
    writer: Mutex<()>,
    sources: Option<[Arc<dyn ObjectSource>; 4]>,
}

/// One step of a visit: a rule that applies and why, or a role that could not be resolved.
pub type Step<'a> = Result<(&'a Arc<Binding>, &'a PolicyRule), String>;

impl RbacIndex {
    /// An index of nothing, fed by hand.
    pub fn new() -> RbacIndex {
        RbacIndex::default()
    }

    /// An index that follows these sources: roles, role bindings, cluster roles, cluster role bindings.
    pub fn following(sources: [Arc<dyn ObjectSource>; 4]) -> RbacIndex {
        RbacIndex {
            sources: Some(sources),
            ..RbacIndex::default()
        }
    }

    /// True once every kind was known completely.
    pub fn is_synced(&self) -> bool {
        let all = RbacKind::ALL.iter().fold(0, |bits, k| bits | k.bit());
        self.look().synced == all
    }

    /// The state as of now.
    fn look(&self) -> Arc<State> {
        let state = self.state.load_full();
        let Some(sources) = &self.sources else { return state };
        let marks = |snapshots: &[Option<Snapshot>; 4]| snapshots.each_ref().map(|s| s.as_ref().map(Snapshot::mark));
        let snapshots = sources.each_ref().map(|s| s.snapshot());
        if marks(&snapshots) == state.marks {
            return state;
        }
        let _writer = self.writer.lock();
        let mut state = State::clone(&self.state.load());
        let snapshots = sources.each_ref().map(|s| s.snapshot());
        for (i, kind) in RbacKind::ALL.into_iter().enumerate() {
            let Some(snapshot) = &snapshots[i] else { continue };
            if state.marks[i] == Some(snapshot.mark()) {
                continue;
            }
            news(snapshot, state.marks[i], kind.is_namespaced(), |news| match news {
                News::Forget => state.clear(kind),
                News::Object {
                    namespace,
                    name,
                    object,
                } => state.apply(kind, namespace, name, object.as_ref()),
            });
            state.marks[i] = Some(snapshot.mark());
            state.synced |= kind.bit();
        }
        let state = Arc::new(state);
        self.state.store(state.clone());
        state
    }

    /// Applies one object's change; `None` deletes it. The namespace of cluster-scoped kinds is empty.
    pub fn apply(&self, kind: RbacKind, namespace: &str, name: &str, object: Option<&Value>) {
        self.change(|state| state.apply(kind, namespace, name, object));
    }

    /// Takes a full list of a kind: what is not in it is gone.
    pub fn replace<'a>(&self, kind: RbacKind, objects: impl IntoIterator<Item = &'a Value>) {
        self.change(|state| {
            state.clear(kind);
            for object in objects {
                state.apply(kind, meta::namespace(object), meta::name(object), Some(object));
            }
            state.synced |= kind.bit();
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let _writer = self.writer.lock();
        let mut state = State::clone(&self.state.load());
        change(&mut state);
        self.state.store(Arc::new(state));
    }

    /// Visits every rule that applies to the user in a namespace (and everywhere), until `visit` breaks.
    pub fn visit(&self, user: &UserInfo, namespace: &str, mut visit: impl FnMut(Step<'_>) -> ControlFlow<()>) {
        let state = self.look();
        let _ = state.each_binding(user, namespace, |binding| {
            match state.rules(&binding.role, &binding.namespace) {
                Ok(rules) => rules.iter().try_for_each(|rule| visit(Ok((binding, rule)))),
                Err(why) => visit(Err(why)),
            }
        });
    }

    /// Every rule that applies to the user in a namespace, and which roles could not be resolved.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<PolicyRule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        // A binding that names the user and one of its groups is found twice.
        let mut seen = std::collections::HashSet::new();
        let state = self.look();
        let _ = state.each_binding(user, namespace, |binding| {
            if seen.insert(Arc::as_ptr(binding)) {
                match state.rules(&binding.role, &binding.namespace) {
                    Ok(found) => rules.extend(found.iter().cloned()),
                    Err(why) => errors.push(why),
                }
            }
            ControlFlow::Continue(())
        });
        (rules, errors)
    }

    /// The rules of a role as a binding in `namespace` (empty for cluster role bindings) names it.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Result<Arc<[PolicyRule]>, String> {
        self.look().rules(role, namespace).cloned()
    }
}

impl State {
    /// Visits the bindings of the user and its groups: those that apply everywhere, then those in the namespace.
    fn each_binding<'a>(
        &'a self,
        user: &UserInfo,
        namespace: &str,
        mut visit: impl FnMut(&'a Arc<Binding>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let own = self.users.get(user.name.as_str());
        let groups = user.groups.iter().filter_map(|g| self.groups.get(g.as_str()));
        let bound: Vec<&Bound> = own.into_iter().chain(groups).collect();
        for bound in &bound {
            bound.cluster.values().try_for_each(&mut visit)?;
        }
        if !namespace.is_empty() {
            for bindings in bound.iter().filter_map(|b| b.namespaced.get(namespace)) {
                bindings.values().try_for_each(&mut visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn rules(&self, role: &RoleRef, namespace: &str) -> Result<&Rules, String> {
        let (found, singular) = match role.kind.as_str() {
            "ClusterRole" => (self.cluster_roles.get(role.name.as_str()), "clusterrole"),
            "Role" => {
                let found = self.roles.get(namespace).and_then(|n| n.get(role.name.as_str()));
                (found, "role")
            }
            other => return Err(format!("unsupported role reference kind: {}", field::quote(other))),
        };
        found.ok_or_else(|| {
            let name = field::quote(&role.name);
            format!("{singular}.rbac.authorization.k8s.io {name} not found")
        })
    }

    fn apply(&mut self, kind: RbacKind, namespace: &str, name: &str, object: Option<&Value>) {
        let rules = || object.map(|o| Rules::from(PolicyRule::of_role(o)));
        match kind {
            RbacKind::ClusterRole => set(&mut self.cluster_roles, name, rules()),
            RbacKind::Role => {
                let mut roles = self.roles.get(namespace).cloned().unwrap_or_default();
                set(&mut roles, name, rules());
                set(&mut self.roles, namespace, (!roles.is_empty()).then_some(roles));
            }
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                let key: Arc<str> = format!("{namespace}/{name}").into();
                let new = object.map(|o| Arc::new(Binding::from_value(namespace, name, o)));
                let old = self.bindings.remove(&key);
                if old == new {
                    self.bindings.extend(old.map(|b| (key, b)));
                    return;
                }
                if let Some(old) = old {
                    self.unbind(&old);
                }
                if let Some(new) = new {
                    self.bind(&new);
                    self.bindings.insert(key, new);
                }
            }
        }
    }

    fn clear(&mut self, kind: RbacKind) {
        match kind {
            RbacKind::ClusterRole => self.cluster_roles = HashMap::new(),
            RbacKind::Role => self.roles = HashMap::new(),
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                let cluster = kind == RbacKind::ClusterRoleBinding;
                let gone: Vec<_> = self.bindings.iter().map(|(k, b)| (k.clone(), b.clone())).collect();
                for (key, binding) in gone.iter().filter(|(_, b)| b.namespace.is_empty() == cluster) {
                    self.bindings.remove(key);
                    self.unbind(binding);
                }
            }
        }
    }

    fn bound(&mut self, whose: Whose) -> &mut HashMap<Arc<str>, Bound> {
        match whose {
            Whose::User => &mut self.users,
            Whose::Group => &mut self.groups,
        }
    }

    fn bind(&mut self, binding: &Arc<Binding>) {
        let name: Arc<str> = binding.name.as_str().into();
        for (whose, subject) in binding.subjects.iter().filter_map(|s| binding.key(s)) {
            let bound = self.bound(whose).entry(subject).or_default();
            let bindings = if binding.namespace.is_empty() {
                &mut bound.cluster
            } else {
                bound.namespaced.entry(binding.namespace.as_str().into()).or_default()
            };
            bindings.insert(name.clone(), binding.clone());
        }
    }

    fn unbind(&mut self, binding: &Binding) {
        for (whose, subject) in binding.subjects.iter().filter_map(|s| binding.key(s)) {
            let subjects = self.bound(whose);
            let Some(bound) = subjects.get_mut(&subject) else {
                continue;
            };
            if binding.namespace.is_empty() {
                bound.cluster.remove(binding.name.as_str());
            } else if let Some(bindings) = bound.namespaced.get_mut(binding.namespace.as_str()) {
                bindings.remove(binding.name.as_str());
                if bindings.is_empty() {
                    bound.namespaced.remove(binding.namespace.as_str());
                }
            }
            if bound.cluster.is_empty() && bound.namespaced.is_empty() {
                subjects.remove(&subject);
            }
        }
    }
}

fn set<V: Clone>(map: &mut HashMap<Arc<str>, V>, key: &str, value: Option<V>) {
    match value {
        Some(value) => {
            map.insert(key.into(), value);
        }
        None => {
            map.remove(key);
        }
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
pub(in crate::authorization) mod tests;
