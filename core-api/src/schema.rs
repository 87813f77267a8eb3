//! The schema table of this tier: its own texts in `schema/` and the shared ones.

use std::sync::LazyLock;

use triptych_schema::Table;
use triptych_schema::table::TableError;
use triptych_schema::types::{Schema, TypeId};

static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schema.bin"));

/// Reads the table that this program was built with.
pub fn load() -> Result<Table, TableError> {
    Table::load(TABLE)
}

/// The types, read once and never changed: how a Go struct is shown in an error depends on its type, and a debug build
/// checks every field name that validation uses. `None` if this program was built with a damaged table, which keeps a
/// tier from starting.
pub fn types() -> Option<&'static Schema> {
    static TYPES: LazyLock<Option<Table>> = LazyLock::new(|| load().ok());
    TYPES.as_ref().map(|table| &table.schema)
}

/// The type of whole objects of this kind (`apps/v1`, `Deployment`).
pub fn kind_type(api_version: &str, kind: &str) -> Option<TypeId> {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let package = match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        _ => group.split('.').next().unwrap_or(group),
    };
    types()?.named(&format!("io.k8s.api.{package}.{version}.{kind}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_loads() {
        assert!(super::load().is_ok_and(|table| !table.resources.is_empty()));
    }

    #[test]
    fn every_kind_with_a_resource_has_its_type() {
        let table = super::load().unwrap_or_else(|e| panic!("{e}"));
        for resource in &table.resources {
            let found = super::kind_type(&resource.api_version(), &resource.kind);
            assert!(found.is_some(), "{} {}", resource.api_version(), resource.kind);
        }
    }
}
