//! Makes the flow schemas and priority levels of every cluster exist and keeps them as they are meant to be
//! (kube-apiserver's `priority-and-fairness-config-producer`).
//!
//! Contract: mandatory objects always have their specification; suggested ones have it while the annotation
//! `apf.kubernetes.io/autoupdate-spec` is `true`, which it becomes when an object was never changed. Any other is its
//! owner's. Who loses a race against another replica is content.

use jiff::Timestamp;
use triptych_object::{StatusResult, Value, meta};

use super::create_missing;
use super::flow_schema_status as status;
use crate::flowcontrol::GROUP;
use crate::flowcontrol::policy::{self, AUTO_UPDATE, Built, EXEMPT};
use crate::loopback::{Loopback, Target};

const MANAGER: &str = "api-priority-and-fairness-config-producer-v1";

/// A resource of the group.
pub(super) fn target(resource: &'static str) -> Target<'static> {
    Target {
        group: GROUP,
        version: "v1",
        resource,
        namespace: "",
    }
}

/// Makes what is missing, brings up to date what follows the policy, and says that the schemas' levels exist.
pub async fn ensure(objects: &Loopback) -> StatusResult<()> {
    let producer = objects.managed_by(MANAGER);
    for built in policy::objects() {
        let found = follow(&producer, built).await?;
        if built.resource == "flowschemas" {
            // its level was made before it
            if let Some(told) = status::told(&found, true, Timestamp::now()) {
                status::tell(objects, &told).await?;
            }
        }
    }
    Ok(())
}

/// Brings one object to what is wanted, if it follows; what it is then.
async fn follow(producer: &Loopback, built: Built<'_>) -> StatusResult<Value> {
    let target = target(built.resource);
    loop {
        let found = create_missing(producer, target, built.object).await?;
        let Some(wanted) = revised(built, &found) else {
            return Ok(found);
        };
        match producer.update(target, built.name, &wanted).await {
            // another replica was faster
            Err(status) if matches!(&*status.reason, "Conflict" | "NotFound") => {}
            outcome => return outcome,
        }
    }
}

/// The object as it should be, if it is not.
fn revised(built: Built<'_>, current: &Value) -> Option<Value> {
    let annotation = meta::annotation(current, AUTO_UPDATE);
    let ours = built.mandatory
        || match annotation {
            Some("true") => true,
            Some("false") => false,
            _ => meta::generation(current) == 1,
        };
    let mut spec = built.object.get("spec").cloned()?;
    if built.name == EXEMPT
        && let Some(capacity) = current.at(&["spec", "exempt"])
    {
        // what it has of the capacity is the administrator's to say
        spec.set_at(&["exempt"], capacity.clone());
    }
    let wanted = if ours { "true" } else { "false" };
    let differs = ours && current.get("spec") != Some(&spec);
    if annotation == Some(wanted) && !differs {
        return None;
    }
    let mut revised = current.clone();
    meta::set_annotation(&mut revised, AUTO_UPDATE, wanted);
    if differs {
        revised.set_at(&["spec"], spec);
    }
    Some(revised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(name: &str) -> Built<'static> {
        policy::objects().find(|b| b.name == name).unwrap()
    }

    #[test]
    fn an_administrators_changes_stay_but_not_in_mandatory_objects() {
        let (suggested, mandatory) = (built("system"), built("catch-all"));
        for (built, kept) in [(suggested, true), (mandatory, false)] {
            assert_eq!(revised(built, built.object), None);
            let mut changed = built.object.clone();
            meta::set_annotation(&mut changed, AUTO_UPDATE, "false");
            changed.set_at(&["spec", "limited", "nominalConcurrencyShares"], Value::Int(7));
            assert_eq!(revised(built, &changed).is_none(), kept);
        }
    }

    #[test]
    fn an_object_without_the_annotation_is_taken_over_if_it_was_never_changed() {
        let built = built("system");
        let mut object = built.object.clone();
        meta::remove_annotation(&mut object, AUTO_UPDATE);
        object.set_at(&["spec", "limited", "lendablePercent"], Value::Int(1));
        meta::set_generation(&mut object, 1);
        let revised_object = revised(built, &object).unwrap();
        assert_eq!(revised_object.get("spec"), built.object.get("spec"));
        meta::set_generation(&mut object, 2);
        let revised_object = revised(built, &object).unwrap();
        assert_eq!(revised_object.get("spec"), object.get("spec"));
        assert_eq!(meta::annotation(&revised_object, AUTO_UPDATE), Some("false"));
    }
}
