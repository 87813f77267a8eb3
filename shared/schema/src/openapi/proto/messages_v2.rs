//! gnostic's `openapi.v2` messages, as far as our documents use them.

use super::{Form, Message, NOTHING, has, members};

/// `openapi.v2.Document`.
pub(super) static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::One(&INFO)),
        ("host", 3, Form::Text),
        ("basePath", 4, Form::Text),
        ("schemes", 5, Form::Texts),
        ("consumes", 6, Form::Texts),
        ("produces", 7, Form::Texts),
        ("paths", 8, Form::One(&PATHS)),
        ("definitions", 9, Form::One(&SCHEMAS)),
        ("parameters", 10, Form::One(&PARAMETERS)),
        ("security", 12, Form::Many(&SECURITY)),
        ("securityDefinitions", 13, Form::One(&SECURITY_DEFINITIONS)),
    ],
    extensions: 16,
    ..NOTHING
};
static INFO: Message = Message {
    fields: &[
        ("title", 1, Form::Text),
        ("version", 2, Form::Text),
        ("description", 3, Form::Text),
    ],
    extensions: 7,
    ..NOTHING
};
static PATHS: Message = Message {
    rest: Some((2, Form::One(&PATH_ITEM))),
    extensions: 1,
    ..NOTHING
};
static PATH_ITEM: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("get", 2, Form::One(&OPERATION)),
        ("put", 3, Form::One(&OPERATION)),
        ("post", 4, Form::One(&OPERATION)),
        ("delete", 5, Form::One(&OPERATION)),
        ("options", 6, Form::One(&OPERATION)),
        ("head", 7, Form::One(&OPERATION)),
        ("patch", 8, Form::One(&OPERATION)),
        ("parameters", 9, Form::Many(&PARAMETER_OR_REFERENCE)),
    ],
    extensions: 10,
    ..NOTHING
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
        ("parameters", 8, Form::Many(&PARAMETER_OR_REFERENCE)),
        ("responses", 9, Form::One(&RESPONSES)),
        ("schemes", 10, Form::Texts),
        ("deprecated", 11, Form::Bool),
    ],
    extensions: 13,
    ..NOTHING
};
static REFERENCE: Message = Message {
    fields: &[("$ref", 1, Form::Text), ("description", 2, Form::Text)],
    ..NOTHING
};
static PARAMETER_OR_REFERENCE: Message = Message {
    choose: Some(|text| match has(text, "$ref") {
        true => (2, Form::One(&REFERENCE)),
        false => (1, Form::One(&PARAMETER)),
    }),
    ..NOTHING
};
static PARAMETER: Message = Message {
    choose: Some(|text| match place(text) {
        Some(b"\"body\"") => (1, Form::One(&BODY)),
        _ => (2, Form::One(&NO_BODY)),
    }),
    ..NOTHING
};
static NO_BODY: Message = Message {
    choose: Some(|text| match place(text) {
        Some(b"\"path\"") => (4, Form::One(&IN_PATH)),
        _ => (3, Form::One(&IN_QUERY)),
    }),
    ..NOTHING
};
static BODY: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Bool),
        ("schema", 5, Form::One(&SCHEMA)),
    ],
    extensions: 6,
    ..NOTHING
};
static IN_QUERY: Message = Message {
    fields: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
        ("uniqueItems", 20, Form::Bool),
    ],
    extensions: 23,
    ..NOTHING
};
static IN_PATH: Message = Message {
    fields: &[
        ("required", 1, Form::Bool),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
        ("uniqueItems", 19, Form::Bool),
    ],
    extensions: 22,
    ..NOTHING
};
static PARAMETERS: Message = Message {
    rest: Some((1, Form::One(&PARAMETER))),
    ..NOTHING
};
static RESPONSES: Message = Message {
    rest: Some((1, Form::One(&RESPONSE_OR_REFERENCE))),
    extensions: 2,
    ..NOTHING
};
static RESPONSE_OR_REFERENCE: Message = Message {
    choose: Some(|text| match has(text, "$ref") {
        true => (2, Form::One(&REFERENCE)),
        false => (1, Form::One(&RESPONSE)),
    }),
    ..NOTHING
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Form::Text), ("schema", 2, Form::One(&SCHEMA_ITEM))],
    extensions: 5,
    ..NOTHING
};
static SCHEMA_ITEM: Message = Message {
    choose: Some(|_| (1, Form::One(&SCHEMA))),
    ..NOTHING
};
static SCHEMAS: Message = Message {
    rest: Some((1, Form::One(&SCHEMA))),
    ..NOTHING
};
static ADDITIONAL: Message = Message {
    choose: Some(|text| match text.first() {
        Some(b'{') => (1, Form::One(&SCHEMA)),
        _ => (2, Form::Bool),
    }),
    ..NOTHING
};
static TYPES: Message = Message {
    choose: Some(|_| (1, Form::Texts)),
    ..NOTHING
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Double),
        ("maximum", 7, Form::Double),
        ("exclusiveMaximum", 8, Form::Bool),
        ("minimum", 9, Form::Double),
        ("exclusiveMinimum", 10, Form::Bool),
        ("maxLength", 11, Form::Int),
        ("minLength", 12, Form::Int),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Int),
        ("minItems", 15, Form::Int),
        ("uniqueItems", 16, Form::Bool),
        ("maxProperties", 17, Form::Int),
        ("minProperties", 18, Form::Int),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::Anys),
        ("additionalProperties", 21, Form::One(&ADDITIONAL)),
        ("type", 22, Form::One(&TYPES)),
        ("items", 23, Form::One(&SCHEMA_ITEM)),
        ("allOf", 24, Form::Many(&SCHEMA)),
        ("properties", 25, Form::One(&SCHEMAS)),
        ("discriminator", 26, Form::Text),
        ("readOnly", 27, Form::Bool),
        ("example", 30, Form::Any),
    ],
    extensions: 31,
    ..NOTHING
};
static SECURITY: Message = Message {
    rest: Some((1, Form::One(&TYPES))),
    ..NOTHING
};
static SECURITY_DEFINITIONS: Message = Message {
    rest: Some((1, Form::One(&SECURITY_DEFINITION))),
    ..NOTHING
};
static SECURITY_DEFINITION: Message = Message {
    choose: Some(|_| (2, Form::One(&API_KEY))),
    ..NOTHING
};
static API_KEY: Message = Message {
    fields: &[
        ("type", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("description", 4, Form::Text),
    ],
    extensions: 5,
    ..NOTHING
};

fn place(text: &[u8]) -> Option<&[u8]> {
    let members = members(text).ok()?;
    members.into_iter().find(|(n, _)| *n == "in").map(|(_, v)| v)
}
