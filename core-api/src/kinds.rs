//! Every kind of this tier that has code of its own.

pub use triptych_registry::kinds::Kinds;

use crate::access::Access;
use crate::context::Context;

/// Registers them, group by group; `access` answers reviews and guards roles.
pub fn all(access: &Access, context: &Context) -> Kinds {
    let mut kinds = Kinds::new();
    crate::authentication::register(&mut kinds, access);
    crate::authorization::register(&mut kinds, access);
    crate::apps::register(&mut kinds);
    crate::autoscaling::register(&mut kinds);
    crate::batch::register(&mut kinds);
    crate::coordination::register(&mut kinds);
    crate::core::register(&mut kinds, context);
    crate::rbac::register(&mut kinds, &access.escalation_check());
    crate::discovery::register(&mut kinds);
    crate::events::register(&mut kinds);
    crate::networking::register(&mut kinds);
    crate::node::register(&mut kinds);
    crate::policy::register(&mut kinds);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_registered_is_in_the_schema_texts() {
        let table = crate::schema::load().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            all(&Access::default(), &Context::default()).unknown(&table),
            Vec::<String>::new()
        );
    }
}
