//! What the strategies of this group share: nobody grants what they do not hold.
//!
//! Contract: the check needs the authorizer, which is assembled after the strategies; until it is set, only members of
//! `system:masters` write.

use std::sync::{Arc, OnceLock};

use triptych_auth::authorization::escalation::{EscalationCheck, RbacWrite};
use triptych_object::user::MASTERS;
use triptych_object::{Status, StatusResult, Value, meta};
use triptych_registry::strategy::Context;

/// The escalation check, once there is one.
#[derive(Clone, Default)]
pub struct EscalationGuard(Arc<OnceLock<EscalationCheck>>);

impl EscalationGuard {
    /// Sets the check; the first one stays.
    pub fn set(&self, check: EscalationCheck) {
        let _ = self.0.set(check);
    }

    /// Refuses a write that would grant what the user does not hold.
    pub(super) async fn check(
        &self,
        resource: &'static str,
        cx: &Context,
        new: &Value,
        old: Option<&Value>,
    ) -> StatusResult<()> {
        if cx.user.in_group(MASTERS) {
            return Ok(());
        }
        let Some(check) = self.0.get() else {
            return Err(Status::service_unavailable("authorization is not ready yet", 1));
        };
        let write = RbacWrite {
            user: &cx.user,
            resource,
            namespace: &cx.namespace,
            name: old.map_or("", meta::name),
            new,
            old,
        };
        check.check(write).await
    }
}
