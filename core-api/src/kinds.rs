//! Every kind of this tier that has code of its own.

pub use triptych_registry::kinds::Kinds;

/// Registers them, group by group.
pub fn all() -> Kinds {
    let mut kinds = Kinds::new();
    crate::core::register(&mut kinds);
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_registered_is_in_the_schema_texts() {
        let table = crate::schema::load().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(all().unknown(&table), Vec::<String>::new());
    }
}
