//! What the strategies of this group share: nobody grants what they do not hold.

use triptych_auth::authorization::escalation::{EscalationCheck, RbacWrite};
use triptych_object::{StatusResult, Value, meta};
use triptych_registry::strategy::{Context, Reservation};

/// Refuses a write that would grant what the user does not hold.
pub(super) async fn guard(
    escalation: &EscalationCheck,
    resource: &'static str,
    cx: &Context,
    new: &Value,
    old: Option<&Value>,
) -> StatusResult<Option<Box<dyn Reservation>>> {
    let write = RbacWrite {
        user: &cx.user,
        resource,
        namespace: &cx.namespace,
        name: old.map_or("", meta::name),
        new,
        old,
    };
    escalation.check(write).await?;
    Ok(None)
}
