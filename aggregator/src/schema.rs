//! The schema table of this tier: its own texts in `schema/` and the shared ones.

use triptych_schema::Table;
use triptych_schema::table::TableError;

static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schema.bin"));

/// Reads the table that this program was built with.
pub fn load() -> Result<Table, TableError> {
    Table::load(TABLE)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_loads() {
        assert!(super::load().is_ok_and(|table| !table.resources.is_empty()));
    }
}
