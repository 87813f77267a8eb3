//! The schemas of all tiers together, for tests.

use std::path::Path;
use std::sync::OnceLock;

use crate::Table;

/// Every schema text of this repository, compiled once.
#[allow(clippy::unwrap_used)]
pub fn everything() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let directories = [
            "shared/schema/text",
            "core-api/schema",
            "extensions-api/schema",
            "aggregator/schema",
        ];
        let sources = triptych_schema_compiler::read(&directories.map(|d| root.join(d))).unwrap();
        let bytes = triptych_schema_compiler::compile(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        Table::load(bytes.leak()).unwrap()
    })
}
