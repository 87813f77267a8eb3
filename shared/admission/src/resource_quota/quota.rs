//! A ResourceQuota as admission sees it, and whether an object still fits.
//!
//! Contract (k8s.io/apiserver/pkg/admission/plugin/resourcequota): what counts is `status.hard` and `status.used`, which
//! the quota controller fills in; a quota without them limits nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use triptych_object::selector::Operator;
use triptych_object::{GroupResource, Gvr, Quantity, Status, StatusResult, Value, meta};

use super::classes::Classes;
use super::evaluator::Evaluator;
use super::usage::{MUST_BE_NAMED, Measured, Scope};
use crate::amounts::{Amounts, amounts};

/// A quota.
#[derive(Clone, Debug)]
pub struct Quota {
    /// Its name.
    pub name: String,
    /// Its limits.
    pub hard: Amounts,
    /// What is used of them.
    pub used: Amounts,
    /// All must hold for an object to count.
    pub scopes: Vec<Scope>,
    /// The quota itself, to be written with other usage.
    pub object: Arc<Value>,
}

impl Quota {
    /// Reads a quota.
    pub fn of(object: Value) -> Quota {
        let plain = object.array_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
        let mut scopes: Vec<Scope> = plain
            .map(|name| Scope {
                name: name.to_owned(),
                operator: Operator::Exists,
                values: Vec::new(),
            })
            .collect();
        scopes.extend(
            object
                .array_at(&["spec", "scopeSelector", "matchExpressions"])
                .iter()
                .map(scope),
        );
        Quota {
            name: meta::name(&object).to_owned(),
            hard: amounts(object.at(&["status", "hard"])),
            used: amounts(object.at(&["status", "used"])),
            scopes,
            object: Arc::new(object),
        }
    }

    /// The revision it was read at, by which readings of the same quota are ordered.
    pub fn revision(&self) -> u64 {
        meta::resource_version(&self.object).parse().unwrap_or(0)
    }

    /// The quota as it is to be written.
    pub fn document(&self) -> Value {
        let mut object = (*self.object).clone();
        let used = self
            .used
            .iter()
            .map(|(name, amount)| (name.clone(), amount.to_string().into()));
        object.set_at(&["status", "used"], Value::Object(used.collect()));
        object
    }

    fn holds(&self, measured: &Measured) -> bool {
        self.scopes.iter().all(|scope| scope.holds(&measured.scopes))
    }
}

fn scope(expression: &Value) -> Scope {
    let values = expression.array_at(&["values"]).iter().filter_map(Value::as_str);
    Scope {
        name: expression.str_at(&["scopeName"]).to_owned(),
        operator: match expression.str_at(&["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::Exists,
        },
        values: values.map(str::to_owned).collect(),
    }
}

/// One write that quotas are asked about.
#[derive(Debug)]
pub struct Charge {
    /// How the resource is measured.
    pub evaluator: Evaluator,
    /// The resource.
    pub resource: Gvr,
    /// The name by which a refusal calls the object.
    pub name: String,
    /// Subresource `status` is charged beyond limits, since what it tells has happened already.
    pub unlimited: bool,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The object.
    pub new: Measured,
    /// The object before an update.
    pub old: Option<Measured>,
    /// Device classes as of the request.
    pub classes: Arc<Classes>,
}

impl Charge {
    fn refuse(&self, why: String) -> Box<Status> {
        let resource = GroupResource::new(self.resource.group.as_str(), self.resource.resource.as_str());
        Status::forbidden(&resource, &self.name, why)
    }

    /// What containers have to name and do not.
    fn missing(&self, tracked: &BTreeSet<&str>) -> Option<String> {
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for required in MUST_BE_NAMED.iter().filter(|name| tracked.contains(*name)) {
            let without = self
                .new
                .containers
                .iter()
                .filter(|(_, named)| !named.contains(required));
            for (container, _) in without {
                missing.entry(required).or_default().insert(container);
            }
        }
        let text = |(resource, containers): (&&str, &BTreeSet<&str>)| {
            let containers: Vec<&str> = containers.iter().copied().collect();
            format!("{resource} for: {}", containers.join(","))
        };
        let texts: Vec<String> = missing.iter().map(text).collect();
        (!texts.is_empty()).then(|| format!("must specify {}", texts.join("; ")))
    }

    /// Charges the write to all quotas that it counts for, or to none: true if usage changed.
    pub fn apply(&self, quotas: &mut [Quota]) -> StatusResult<bool> {
        let mut concerned = Vec::new();
        for (index, quota) in quotas.iter().enumerate() {
            let tracks = |name: &&String| self.evaluator.tracks(&self.resource, name, &self.classes);
            let tracked: BTreeSet<&str> = quota.hard.keys().filter(tracks).map(String::as_str).collect();
            if tracked.is_empty() || !quota.holds(&self.new) {
                continue;
            }
            if let Some(why) = self.missing(&tracked) {
                return Err(self.refuse(format!("failed quota: {}: {why}", quota.name)));
            }
            if tracked.iter().any(|name| !quota.used.contains_key(*name)) {
                let names: Vec<&str> = tracked.into_iter().collect();
                let why = format!(
                    "status unknown for quota: {}, resources: {}",
                    quota.name,
                    names.join(",")
                );
                return Err(self.refuse(why));
            }
            concerned.push(index);
        }
        if concerned.is_empty() {
            return Ok(false);
        }
        let negative: Vec<&str> = self
            .new
            .usage
            .iter()
            .filter(|(_, amount)| amount.sign() < 0)
            .map(|(name, _)| name.as_str())
            .collect();
        if !negative.is_empty() {
            let why = format!("quota usage is negative for resource(s): {}", negative.join(","));
            return Err(self.refuse(why));
        }

        let mut charged = Vec::new();
        for index in concerned {
            let quota = &quotas[index];
            let delta = self.delta(quota);
            if delta.values().all(Quantity::is_zero) {
                continue;
            }
            charged.push((index, self.charged(quota, &delta)?));
        }
        let mut changed = false;
        for (index, used) in charged {
            changed |= used != quotas[index].used;
            quotas[index].used = used;
        }
        Ok(changed)
    }

    /// What the write adds, by a quota's view: all, unless the object counted for it before.
    fn delta(&self, quota: &Quota) -> Amounts {
        let before = self.old.as_ref().filter(|old| quota.holds(old));
        let nonzero = |(name, amount): (&String, &Quantity)| {
            let mut amount = amount.clone();
            if let Some(before) = before.and_then(|before| before.usage.get(name)) {
                amount.sub(before);
            }
            (amount.sign() > 0).then(|| (name.clone(), amount))
        };
        self.new.usage.iter().filter_map(nonzero).collect()
    }

    /// What is used of a quota after the write, or why it does not fit.
    fn charged(&self, quota: &Quota, delta: &Amounts) -> StatusResult<Amounts> {
        let mut used = quota.used.clone();
        let mut exceeded = Vec::new();
        for (name, amount) in delta {
            let Some(hard) = quota.hard.get(name) else {
                continue;
            };
            let sum = used.entry(name.clone()).or_insert_with(|| {
                let mut zero = Quantity::zero();
                zero.add(amount);
                zero.sub(amount);
                zero
            });
            sum.add(amount);
            if *sum > *hard && !self.unlimited {
                exceeded.push(name.as_str());
            }
        }
        if exceeded.is_empty() {
            return Ok(used);
        }
        let text = |amounts: &Amounts| {
            let shown = exceeded
                .iter()
                .filter_map(|name| Some(format!("{name}={}", amounts.get(*name)?)));
            shown.collect::<Vec<_>>().join(",")
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name,
            text(delta),
            text(&quota.used),
            text(&quota.hard)
        );
        Err(self.refuse(why))
    }
}
