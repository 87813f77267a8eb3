//! Compiles the schema texts of this tier and the shared ones into one table.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    triptych_schema_compiler::build(&["../shared/schema/text", "schema"])
}
