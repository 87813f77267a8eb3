//! The schemas of all tiers together, for tests.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use crate::Table;
use crate::types::TypeId;

/// Every schema text of this repository, compiled once.
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

/// The type of a kind.
pub fn type_of(api_version: &str, kind: &str) -> Option<TypeId> {
    static KINDS: OnceLock<HashMap<(String, String), TypeId>> = OnceLock::new();
    let kinds = KINDS.get_or_init(|| {
        let schema = &everything().schema;
        let mut kinds = HashMap::new();
        for (_, id) in schema.all_named() {
            for k in schema.get(id).message.iter().flat_map(|m| &m.kinds) {
                let group_version = if k.group.is_empty() {
                    k.version.to_string()
                } else {
                    format!("{}/{}", k.group, k.version)
                };
                kinds.insert((group_version, k.kind.to_string()), id);
            }
        }
        kinds
    });
    kinds.get(&(api_version.to_owned(), kind.to_owned())).copied()
}
