//! gnostic's `openapi.v3` messages, as far as our documents use them.

use super::{Form, Message, NOTHING, has};

/// `openapi.v3.Document`.
pub(super) static DOCUMENT: Message = Message {
    fields: &[
        ("openapi", 1, Form::Text),
        ("info", 2, Form::One(&INFO)),
        ("paths", 4, Form::One(&PATHS)),
        ("components", 5, Form::One(&COMPONENTS)),
    ],
    extensions: 9,
    ..NOTHING
};
static INFO: Message = Message {
    fields: &[
        ("title", 1, Form::Text),
        ("description", 2, Form::Text),
        ("version", 6, Form::Text),
    ],
    extensions: 7,
    ..NOTHING
};
static PATHS: Message = Message {
    rest: Some((1, Form::One(&PATH_ITEM))),
    extensions: 2,
    ..NOTHING
};
static PATH_ITEM: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("get", 4, Form::One(&OPERATION)),
        ("put", 5, Form::One(&OPERATION)),
        ("post", 6, Form::One(&OPERATION)),
        ("delete", 7, Form::One(&OPERATION)),
        ("options", 8, Form::One(&OPERATION)),
        ("head", 9, Form::One(&OPERATION)),
        ("patch", 10, Form::One(&OPERATION)),
        ("parameters", 13, Form::Many(&PARAMETER_OR_REFERENCE)),
    ],
    extensions: 14,
    ..NOTHING
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("parameters", 6, Form::Many(&PARAMETER_OR_REFERENCE)),
        ("requestBody", 7, Form::One(&BODY_OR_REFERENCE)),
        ("responses", 8, Form::One(&RESPONSES)),
        ("deprecated", 10, Form::Bool),
    ],
    extensions: 13,
    ..NOTHING
};
static REFERENCE: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
    ],
    ..NOTHING
};
static PARAMETER_OR_REFERENCE: Message = Message {
    choose: Some(|text| or_reference(text, &PARAMETER)),
    ..NOTHING
};
static PARAMETER: Message = Message {
    fields: &[
        ("name", 1, Form::Text),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("required", 4, Form::Bool),
        ("deprecated", 5, Form::Bool),
        ("schema", 10, Form::One(&SCHEMA_OR_REFERENCE)),
    ],
    extensions: 14,
    ..NOTHING
};
static BODY_OR_REFERENCE: Message = Message {
    choose: Some(|text| or_reference(text, &BODY)),
    ..NOTHING
};
static BODY: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("content", 2, Form::One(&CONTENT)),
        ("required", 3, Form::Bool),
    ],
    extensions: 4,
    ..NOTHING
};
static CONTENT: Message = Message {
    rest: Some((1, Form::One(&MEDIA_TYPE))),
    ..NOTHING
};
static MEDIA_TYPE: Message = Message {
    fields: &[("schema", 1, Form::One(&SCHEMA_OR_REFERENCE))],
    extensions: 5,
    ..NOTHING
};
static RESPONSES: Message = Message {
    fields: &[("default", 1, Form::One(&RESPONSE_OR_REFERENCE))],
    rest: Some((2, Form::One(&RESPONSE_OR_REFERENCE))),
    extensions: 3,
    ..NOTHING
};
static RESPONSE_OR_REFERENCE: Message = Message {
    choose: Some(|text| or_reference(text, &RESPONSE)),
    ..NOTHING
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Form::Text), ("content", 3, Form::One(&CONTENT))],
    extensions: 5,
    ..NOTHING
};
static COMPONENTS: Message = Message {
    fields: &[
        ("schemas", 1, Form::One(&SCHEMAS)),
        ("securitySchemes", 7, Form::One(&SECURITY_SCHEMES)),
    ],
    extensions: 10,
    ..NOTHING
};
static SCHEMAS: Message = Message {
    rest: Some((1, Form::One(&SCHEMA_OR_REFERENCE))),
    ..NOTHING
};
static SCHEMA_OR_REFERENCE: Message = Message {
    choose: Some(|text| or_reference(text, &SCHEMA)),
    ..NOTHING
};
static ITEMS: Message = Message {
    choose: Some(|_| (1, Form::One(&SCHEMA_OR_REFERENCE))),
    ..NOTHING
};
static ADDITIONAL: Message = Message {
    choose: Some(|text| match text.first() {
        Some(b'{') => (1, Form::One(&SCHEMA_OR_REFERENCE)),
        _ => (2, Form::Bool),
    }),
    ..NOTHING
};
static SCHEMA: Message = Message {
    fields: &[
        ("nullable", 1, Form::Bool),
        ("readOnly", 3, Form::Bool),
        ("writeOnly", 4, Form::Bool),
        ("example", 7, Form::Any),
        ("deprecated", 8, Form::Bool),
        ("title", 9, Form::Text),
        ("multipleOf", 10, Form::Double),
        ("maximum", 11, Form::Double),
        ("exclusiveMaximum", 12, Form::Bool),
        ("minimum", 13, Form::Double),
        ("exclusiveMinimum", 14, Form::Bool),
        ("maxLength", 15, Form::Int),
        ("minLength", 16, Form::Int),
        ("pattern", 17, Form::Text),
        ("maxItems", 18, Form::Int),
        ("minItems", 19, Form::Int),
        ("uniqueItems", 20, Form::Bool),
        ("maxProperties", 21, Form::Int),
        ("minProperties", 22, Form::Int),
        ("required", 23, Form::Texts),
        ("enum", 24, Form::Anys),
        ("type", 25, Form::Text),
        ("allOf", 26, Form::Many(&SCHEMA_OR_REFERENCE)),
        ("oneOf", 27, Form::Many(&SCHEMA_OR_REFERENCE)),
        ("anyOf", 28, Form::Many(&SCHEMA_OR_REFERENCE)),
        ("not", 29, Form::One(&SCHEMA)),
        ("items", 30, Form::One(&ITEMS)),
        ("properties", 31, Form::One(&SCHEMAS)),
        ("additionalProperties", 32, Form::One(&ADDITIONAL)),
        ("default", 33, Form::Default),
        ("description", 34, Form::Text),
        ("format", 35, Form::Text),
    ],
    extensions: 36,
    ..NOTHING
};
static SECURITY_SCHEMES: Message = Message {
    rest: Some((1, Form::One(&SECURITY_SCHEME_OR_REFERENCE))),
    ..NOTHING
};
static SECURITY_SCHEME_OR_REFERENCE: Message = Message {
    choose: Some(|text| or_reference(text, &SECURITY_SCHEME)),
    ..NOTHING
};
static SECURITY_SCHEME: Message = Message {
    fields: &[
        ("type", 1, Form::Text),
        ("description", 2, Form::Text),
        ("name", 3, Form::Text),
        ("in", 4, Form::Text),
        ("scheme", 5, Form::Text),
        ("bearerFormat", 6, Form::Text),
    ],
    extensions: 9,
    ..NOTHING
};

fn or_reference(text: &[u8], of: &'static Message) -> (u32, Form) {
    match has(text, "$ref") {
        true => (2, Form::One(&REFERENCE)),
        false => (1, Form::One(of)),
    }
}
