//! What policies refuse, warn of and change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use triptych_auth::{Authorizer, Decision};
use triptych_object::{Gvk, Gvr, StatusResult, UserInfo, Value, json, meta};
use triptych_registry::Admission as _;
use triptych_registry::admission::{Attributes, Operation, Warnings};
use triptych_storage::cache::{Board, ReadError, Snapshot};
use triptych_storage::{Entry, JsonDecoder, Object, Source};

use super::Policies;
use super::definition::ParamKind;
use super::mutating::MutatingAdmissionPolicy;
use super::params::{Missing, Params, Store, unknown};
use super::validating::ValidatingAdmissionPolicy;
use crate::chain::{Chain, Plugin};
use crate::lookup::fixed::Fixed;
use crate::matching::Namespace;
use crate::testing::{AsItIs, tree};

struct Objects(Arc<Board>);

impl Objects {
    fn of(texts: &[String]) -> Arc<Objects> {
        let object = |text: &String| {
            let entry = Entry {
                key: format!("/x/{}", meta::name(&tree(text))).into(),
                revision: 1,
                value: text.clone().into(),
            };
            Arc::new(Object::ingest(&entry, &JsonDecoder::default()))
        };
        let board = Board::new(&[]);
        board.reset(texts.iter().map(object), 1);
        Arc::new(Objects(board))
    }
}

impl Source for Objects {
    fn board(&self) -> &Arc<Board> {
        &self.0
    }

    fn consistent<'a>(&'a self, _wait: Duration) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        Box::pin(std::future::ready(self.0.snapshot().ok_or(ReadError::Filling)))
    }
}

/// Parameters of kind `Limit`, in namespace `n`.
struct Limits(Vec<Value>);

impl Params for Limits {
    fn store<'a>(&'a self, kind: &'a ParamKind) -> BoxFuture<'a, Result<Arc<dyn Store>, Missing>> {
        let found = match kind.kind.kind.as_str() {
            "Limit" => Ok(Arc::new(Limits(self.0.clone())) as Arc<dyn Store>),
            _ => Err(unknown(&kind.kind)),
        };
        Box::pin(std::future::ready(found))
    }
}

impl Store for Limits {
    fn namespaced(&self) -> bool {
        true
    }

    fn get<'a>(&'a self, namespace: &'a str, name: &'a str) -> BoxFuture<'a, StatusResult<Option<Value>>> {
        let found = self
            .0
            .iter()
            .find(|limit| namespace == "n" && meta::name(limit) == name);
        Box::pin(std::future::ready(Ok(found.cloned())))
    }

    fn list<'a>(&'a self, namespace: &'a str) -> BoxFuture<'a, StatusResult<Vec<Value>>> {
        let found = if namespace == "n" { self.0.clone() } else { Vec::new() };
        Box::pin(std::future::ready(Ok(found)))
    }
}

struct Nobody;

impl Authorizer for Nobody {
    fn authorize<'a>(&'a self, _: triptych_auth::Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::PASS))
    }
}

const EVERYTHING: &str = r#""matchConstraints":{"resourceRules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}"#;

fn policies(spec: &str, binding: &str) -> Policies {
    let policy = format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{EVERYTHING},{spec}}}}}"#);
    let binding = format!(r#"{{"metadata":{{"name":"b"}},"spec":{{"policyName":"p",{binding}}}}}"#);
    let namespace = r#"{"metadata":{"name":"n","uid":"u","labels":{"team":"a"},"managedFields":[]}}"#;
    let limit = |name: &str, max: u8| {
        tree(&format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"l":"{name}"}}}},"max":{max}}}"#
        ))
    };
    Policies::new(
        Objects::of(&[policy]),
        Objects::of(&[binding]),
        Fixed::<Namespace>::of(&[namespace]),
        Arc::new(Limits(vec![limit("five", 5), limit("one", 1)])),
        Arc::new(Nobody),
    )
}

async fn admit(plugin: impl Plugin, spec: &str) -> (StatusResult<Value>, Warnings) {
    let (resource, kind) = (Gvr::new("g", "v1", "widgets"), Gvk::new("g", "v1", "Widget"));
    let (user, model) = (UserInfo::new("u", ["a"]), AsItIs::new(kind.clone()));
    let attributes = Attributes {
        operation: Operation::Create,
        resource: &resource,
        subresource: "",
        kind: &kind,
        namespace: "n",
        name: "w",
        user: &user,
        dry_run: false,
        options: None,
        model: &model,
        deadline: Instant::now() + Duration::from_secs(30),
    };
    let chain = Chain::new(vec![Box::new(plugin)]);
    let mut object = tree(&format!(
        r#"{{"kind":"Widget","apiVersion":"g/v1","metadata":{{"name":"w","namespace":"n"}},"spec":{spec}}}"#
    ));
    let mut warnings = Warnings::new();
    let outcome = async {
        chain
            .mutate(&attributes, Some(&mut object), None, &mut warnings)
            .await?;
        chain.validate(&attributes, Some(&object), None, &mut warnings).await
    };
    let outcome = outcome.await;
    (outcome.map(|()| object), warnings)
}

async fn refusal(spec: &str, binding: &str) -> String {
    let (outcome, _) = admit(ValidatingAdmissionPolicy(policies(spec, binding)), r#"{"n":3}"#).await;
    outcome.err().map(|status| status.message).unwrap_or_default()
}

const DENY: &str = r#""validationActions":["Deny"]"#;
const PREFIX: &str = "widgets.g \"w\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: ";

#[tokio::test]
async fn what_a_validation_demands_is_told_in_its_words() {
    for (spec, told) in [
        (r#""validations":[{"expression":"object.spec.n == 3"}]"#, ""),
        (
            r#""validations":[{"expression":"object.spec.n < 3"}]"#,
            "failed expression: object.spec.n < 3",
        ),
        (
            r#""validations":[{"expression":"object.spec.n < 3","message":"too many"}]"#,
            "too many",
        ),
        (
            r#""validations":[{"expression":"object.spec.n < 3","message":"too many","messageExpression":"string(object.spec.n) + ' in ' + namespaceObject.metadata.name"}]"#,
            "3 in n",
        ),
        (
            r#""validations":[{"expression":"object.spec.n < 3","message":"too many","messageExpression":"object.spec.nosuch"}]"#,
            "too many",
        ),
        (
            r#""variables":[{"name":"n","expression":"object.spec.n"}],"validations":[{"expression":"variables.n > 3"}]"#,
            "failed expression: variables.n > 3",
        ),
        (
            r#""validations":[{"expression":"object.spec.nosuch > 3"}]"#,
            "expression 'object.spec.nosuch > 3' resulted in error: no such key: nosuch",
        ),
        (
            r#""failurePolicy":"Ignore","validations":[{"expression":"object.spec.nosuch > 3"}]"#,
            "",
        ),
        (
            r#""matchConditions":[{"name":"c","expression":"object.spec.n == 4"}],"validations":[{"expression":"false"}]"#,
            "",
        ),
        (
            r#""validations":[{"expression":"authorizer.requestResource.check('create').allowed()"}]"#,
            "failed expression: authorizer.requestResource.check('create').allowed()",
        ),
        (
            r#""auditAnnotations":[{"key":"k","valueExpression":"string(object.spec.nosuch)"}]"#,
            "expression 'string(object.spec.nosuch)' resulted in error: no such key: nosuch",
        ),
    ] {
        let expected = if told.is_empty() {
            String::new()
        } else {
            format!("{PREFIX}{told}")
        };
        assert_eq!(refusal(spec, DENY).await, expected, "{spec}");
    }
}

#[tokio::test]
async fn the_reason_decides_the_code() {
    for (reason, code) in [
        ("", 422),
        (r#","reason":"Forbidden""#, 403),
        (r#","reason":"RequestEntityTooLarge""#, 413),
    ] {
        let spec = format!(r#""validations":[{{"expression":"false","message":"no"{reason}}}]"#);
        let (outcome, _) = admit(ValidatingAdmissionPolicy(policies(&spec, DENY)), "{}").await;
        let status = outcome.unwrap_err();
        assert_eq!(status.code, code);
        let causes = status.details.unwrap().causes;
        assert_eq!(
            causes[0].message,
            "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
        );
    }
}

#[tokio::test]
async fn the_binding_says_what_is_done() {
    let spec = r#""validations":[{"expression":"false","message":"no"}]"#;
    for (actions, refused, warned) in [
        ("Audit", false, 0),
        ("Warn", false, 1),
        ("Deny", true, 0),
        ("Deny\",\"Audit", true, 0),
    ] {
        let binding = format!(r#""validationActions":["{actions}"]"#);
        let (outcome, warnings) = admit(ValidatingAdmissionPolicy(policies(spec, &binding)), "{}").await;
        assert_eq!((outcome.is_err(), warnings.len()), (refused, warned), "{actions}");
    }
    let other = r#""validationActions":["Deny"],"matchResources":{"objectSelector":{"matchLabels":{"x":"y"}}}"#;
    assert_eq!(refusal(spec, other).await, "");
}

#[tokio::test]
async fn parameters_come_from_where_the_binding_says() {
    let spec = r#""paramKind":{"apiVersion":"g/v1","kind":"Limit"},"validations":[{"expression":"params == null || object.spec.n <= params.max","message":"too many"}]"#;
    let binding = |reference: &str| format!(r#"{DENY},"paramRef":{{{reference},"parameterNotFoundAction":"Deny"}}"#);
    let missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (binding, told) in [
        (binding(r#""name":"five""#), ""),
        (binding(r#""name":"one""#), "too many"),
        (binding(r#""name":"five","namespace":"other""#), missing),
        (binding(r#""selector":{"matchLabels":{"l":"one"}}"#), "too many"),
        (binding(r#""selector":{}"#), "too many"),
        (binding(r#""selector":{"matchLabels":{"l":"two"}}"#), missing),
        (
            format!(r#"{DENY},"paramRef":{{"name":"two","parameterNotFoundAction":"Allow"}}"#),
            "",
        ),
        (DENY.to_owned(), ""),
    ] {
        let expected = if told.is_empty() {
            String::new()
        } else {
            format!("{PREFIX}{told}")
        };
        assert_eq!(refusal(spec, &binding).await, expected, "{binding}");
    }
    let nowhere = r#""paramKind":{"apiVersion":"g/v1","kind":"Nope"},"validations":[{"expression":"true"}]"#;
    assert_eq!(
        refusal(nowhere, &binding(r#""name":"x""#)).await,
        "widgets.g \"w\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'g/v1, Kind=Nope'"
    );
}

async fn mutated(spec: &str) -> Result<String, String> {
    let plugin = MutatingAdmissionPolicy(policies(spec, r#""x":1"#));
    let (outcome, _) = admit(plugin, r#"{"n":3}"#).await;
    outcome
        .map(|object| json::to_string(object.get("spec").unwrap()))
        .map_err(|status| format!("{} {}", status.code, status.message))
}

fn patches(expression: &str, more: &str) -> String {
    format!(r#""mutations":[{{"patchType":"JSONPatch","jsonPatch":{{"expression":"{expression}"}}}}]{more}"#)
}

#[tokio::test]
async fn a_json_patch_changes_the_object_unless_its_test_fails() {
    let add = "[JSONPatch{op: 'add', path: '/spec/m', value: object.spec.n * 2.0}]";
    assert!(
        mutated(&patches(add, ""))
            .await
            .unwrap_err()
            .contains("no such overload")
    );
    let add = "[JSONPatch{op: 'add', path: '/spec/m', value: object.spec.n * 2}]";
    assert_eq!(mutated(&patches(add, "")).await, Ok(r#"{"n":3,"m":6}"#.to_owned()));
    let test = "[JSONPatch{op: 'test', path: '/spec/n', value: 4}, JSONPatch{op: 'remove', path: '/spec/n'}]";
    assert_eq!(mutated(&patches(test, "")).await, Ok(r#"{"n":3}"#.to_owned()));
    let wrong = "[JSONPatch{op: 'remove', path: '/spec/nosuch'}]";
    assert_eq!(
        mutated(&patches(wrong, "")).await,
        Err("403 policy 'p' with binding 'b' denied request: JSON Patch: error in remove for path: '/spec/nosuch': Unable to remove nonexistent key: nosuch: missing value".to_owned())
    );
    assert_eq!(
        mutated(&patches(wrong, r#","failurePolicy":"Ignore""#)).await,
        Ok(r#"{"n":3}"#.to_owned())
    );
}

#[tokio::test]
async fn a_policy_that_wants_to_sees_again_what_it_made() {
    let append = "[JSONPatch{op: 'replace', path: '/spec/n', value: object.spec.n + 1}]";
    assert_eq!(
        mutated(&patches(append, r#","reinvocationPolicy":"Never""#)).await,
        Ok(r#"{"n":4}"#.to_owned())
    );
    assert_eq!(
        mutated(&patches(append, r#","reinvocationPolicy":"IfNeeded""#)).await,
        Ok(r#"{"n":5}"#.to_owned())
    );
}

#[tokio::test]
async fn a_types_name_must_be_the_path_to_it() {
    let wrong = "[JSONPatch{op: 'add', path: '/spec/m', value: Object.spec{m: Object.wrong{}}}]";
    assert_eq!(
        mutated(&patches(wrong, "")).await,
        Err("403 policy 'p' with binding 'b' denied request: type mismatch: unexpected type name \"Object.wrong\", expected \"Object.spec.m\", which matches field name path from root Object type".to_owned())
    );
}
