//! The CEL expressions by which claims and classes select devices: they are compiled when they are written.
//!
//! Contract: variables, types, sizes and texts of k8s.io/dynamic-resource-allocation/cel. Upstream gives attributes the
//! type Any; here they are dyn, which the checker treats alike.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use triptych_cel::cost::Range;
use triptych_cel::types::ObjectType;
use triptych_cel::{Environment, Estimate, Sizes, Type};

use crate::validation::Cursor;

const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
/// What an expression may cost at most.
const MAX_COST: u64 = 1_000_000;
const MAX_DRIVER_BYTES: u64 = 63;
const MAX_DOMAIN_BYTES: u64 = 63;
const MAX_ID_BYTES: u64 = 32;
const MAX_VALUE_BYTES: u64 = 64;
/// Attributes and capacities of one device together.
const MAX_PROPERTIES: u64 = 32;

/// The environment never changes: it is made once.
static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    let quantity = Type::Object(std::sync::Arc::new(ObjectType::named("kubernetes.Quantity")));
    let by_name = |value: Type| Type::map(Type::String, Type::map(Type::String, value));
    let fields: BTreeMap<String, Type> = [
        ("driver", Type::String),
        ("allowMultipleAllocations", Type::Bool),
        ("attributes", by_name(Type::Dyn)),
        ("capacity", by_name(quantity)),
    ]
    .into_iter()
    .map(|(name, ty)| (name.to_owned(), ty))
    .collect();
    Environment::new()
        .with_bindings()
        .variable("device", Type::object("kubernetes.DRADevice", fields))
});

/// How large the parts of a device may be.
struct DeviceSizes;

impl Sizes for DeviceSizes {
    fn size(&self, path: &[String]) -> Option<Estimate> {
        let (root, below) = path.split_first()?;
        let below: Vec<&str> = below.iter().map(String::as_str).collect();
        let max = match (root.as_str(), below.as_slice()) {
            ("device", ["driver"]) => MAX_DRIVER_BYTES,
            ("device", ["allowMultipleAllocations"]) => 1,
            ("device", ["attributes" | "capacity"] | ["attributes" | "capacity", "@items" | "@values"]) => {
                MAX_PROPERTIES
            }
            ("device", ["attributes" | "capacity", "@keys"]) => MAX_DOMAIN_BYTES,
            ("device", ["attributes" | "capacity", "@items" | "@values", "@keys"]) => MAX_ID_BYTES,
            // an attribute is found by its name as well
            ("device", ["attributes", "@items" | "@values", _]) => MAX_VALUE_BYTES,
            _ => return None,
        };
        Some(Range { min: 0, max })
    }
}

/// A selector's expression.
pub fn expression(c: Cursor<'_>) {
    if c.len() > MAX_EXPRESSION_BYTES {
        return c.too_long(MAX_EXPRESSION_BYTES);
    }
    let program = match ENVIRONMENT.compile(c.str()) {
        Ok(program) => program,
        Err(issues) => return c.invalid(c.str(), format!("compilation failed: {issues}")),
    };
    if !matches!(program.output_type(), Type::Bool | Type::Dyn) {
        let found = program.output_type();
        return c.invalid(
            c.str(),
            format!("must evaluate to bool or the unknown type, not {found}"),
        );
    }
    if let Some(why) = program.instantiation_error() {
        return c.invalid(c.str(), format!("program instantiation failed: {why}"));
    }
    if program.estimate(&DeviceSizes).max > MAX_COST {
        c.forbidden("too complex, exceeds cost limit");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::check;
    use triptych_object::Value;
    use triptych_object::field::ErrorList;

    fn found(text: &str) -> String {
        let selector = Value::from([("expression", text.into())]);
        let mut errors = ErrorList::new();
        check(&selector, &mut errors, |c| expression(c.field("expression")));
        errors.aggregate()
    }

    #[test]
    fn what_upstream_accepts_compiles() {
        for text in [
            "true",
            r#"device.driver == "dra.example.com""#,
            r#"device.attributes["dra.example.com"].model == "a100""#,
            r#"device.attributes["dra.example.com"].healthy"#,
            r#"device.capacity["dra.example.com"].memory.compareTo(quantity("1Gi")) >= 0"#,
            r#"device.attributes["x"].version.isGreaterThan(semver("1.0.0"))"#,
            r#"cel.bind(dra, device.attributes["dra.example.com"], dra.a && dra.b)"#,
            r#"device.allowMultipleAllocations == true"#,
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }

    #[test]
    fn refusals_are_worded_as_upstream() {
        assert_eq!(
            found("1"),
            r#"expression: Invalid value: "1": must evaluate to bool or the unknown type, not int"#
        );
        assert!(found("nope").contains("compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope'"));
        assert!(found("device.nope").contains("undefined field 'nope'"));
        assert_eq!(
            found(&format!("true{}", " ".repeat(MAX_EXPRESSION_BYTES))),
            "expression: Too long: may not be more than 10240 bytes"
        );
    }

    #[test]
    fn what_may_cost_too_much_is_refused() {
        let text = r#"device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a == b && c == d))))"#;
        assert_eq!(found(text), "expression: Forbidden: too complex, exceeds cost limit");
    }
}
