//! What a CRD's structural schema can demand of a value besides its shape.

use std::sync::OnceLock;

use triptych_object::Value;

use super::Name;

/// What a structural schema can demand of a value besides its shape.
#[derive(Debug, Default)]
pub struct Validation {
    /// `pattern`.
    pub pattern: Option<Pattern>,
    /// `format`.
    pub format: Option<Name>,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`, in characters.
    pub min_length: Option<i64>,
    /// `maxLength`, in characters.
    pub max_length: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `enum`; empty when not given.
    pub enum_values: Vec<Value>,
    /// `required`, in document order.
    pub required: Vec<Name>,
    /// `allOf`.
    pub all_of: Vec<NestedValidation>,
    /// `anyOf`.
    pub any_of: Vec<NestedValidation>,
    /// `oneOf`.
    pub one_of: Vec<NestedValidation>,
    /// `not`.
    pub not: Option<Box<NestedValidation>>,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
}

/// A schema under `allOf`, `anyOf`, `oneOf` or `not`: constraints only, no shape of its own.
#[derive(Debug, Default)]
pub struct NestedValidation {
    /// Constraints on the value.
    pub validation: Validation,
    /// `type`, where a nested schema may give one (`x-kubernetes-int-or-string`).
    pub type_name: Option<Name>,
    /// `properties`.
    pub properties: Vec<(Name, NestedValidation)>,
    /// `items`.
    pub items: Option<Box<NestedValidation>>,
    /// `additionalProperties`.
    pub additional_properties: Option<Box<NestedValidation>>,
}

/// A regular expression, compiled on first use.
#[derive(Debug)]
pub struct Pattern {
    /// As written in the schema.
    pub source: Name,
    compiled: OnceLock<Option<regex::Regex>>,
}

impl Pattern {
    /// A pattern with this source.
    pub fn new(source: Name) -> Self {
        Self {
            source,
            compiled: OnceLock::new(),
        }
    }

    /// The compiled expression; none when the source is no regular expression.
    pub fn regex(&self) -> Option<&regex::Regex> {
        self.compiled
            .get_or_init(|| crate::go_regex::compile(&self.source).ok())
            .as_ref()
    }
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// The CEL expression.
    pub rule: Name,
    /// `message`.
    pub message: Option<Name>,
    /// `messageExpression`.
    pub message_expression: Option<Name>,
    /// `reason`.
    pub reason: Option<Name>,
    /// `fieldPath`.
    pub field_path: Option<Name>,
    /// `optionalOldSelf`.
    pub optional_old_self: Option<bool>,
}
