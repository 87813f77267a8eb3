//! What expressions of webhooks and policies come to.

use futures_util::future::BoxFuture;
use triptych_auth::{Attributes as Question, Authorizer, Decision};
use triptych_cel::Value as Cel;
use triptych_object::{Gvk, Gvr, UserInfo, Value};
use triptych_registry::admission::{Attributes, Operation};

use super::checks::Checks;
use super::compile::{Compiler, Returns, Uses};
use super::conditions::{self, Outcome};
use super::evaluate::{Compiled, Evaluation, Input, POLICY_BUDGET, Variable};
use crate::testing::{AsItIs, tree};

const ALL: Uses = Uses {
    params: true,
    authorizer: true,
    patches: false,
};

fn compiled(compiler: &Compiler, text: &str) -> Compiled {
    Compiled {
        text: text.to_owned(),
        program: compiler.compile(text, ALL, Returns::Anything),
    }
}

fn input<'a>(object: &'a Value, request: &'a Value) -> Input<'a> {
    Input {
        object: Some(object),
        old: None,
        params: None,
        request,
        namespace: None,
        authorizer: None,
    }
}

fn value(text: &str, variables: &[(&str, &str)]) -> Result<Value, String> {
    let mut compiler = Compiler::composed();
    let compile = |(name, text): &(&str, &str)| Variable {
        name: (*name).to_owned(),
        expression: Compiled {
            text: (*text).to_owned(),
            program: compiler.variable(name, text, ALL),
        },
    };
    let variables: Vec<Variable> = variables.iter().map(compile).collect();
    let expression = compiled(&compiler, text);
    let (object, request) = (
        tree(r#"{"spec":{"n":3},"metadata":{"name":"o"}}"#),
        tree(r#"{"operation":"CREATE"}"#),
    );
    let evaluation = Evaluation::new(input(&object, &request), &variables);
    let mut left = POLICY_BUDGET;
    let outcome = evaluation.run(&expression, &mut left).map_err(|e| e.to_string())?;
    outcome.map(|value| value.to_json().unwrap_or_default())
}

#[test]
fn expressions_see_the_request() {
    assert_eq!(value("object.spec.n + 1", &[]), Ok(Value::Int(4)));
    assert_eq!(
        value(
            "request.operation == 'CREATE' && oldObject == null && params == null",
            &[]
        ),
        Ok(Value::Bool(true))
    );
    assert_eq!(
        value("object.spec.m", &[]),
        Err("expression 'object.spec.m' resulted in error: no such key: m".to_owned())
    );
}

#[test]
fn variables_build_on_each_other_and_are_checked() {
    let variables = [
        ("a", "object.spec.n"),
        ("b", "variables.a * 2"),
        ("broken", "object.spec.nosuch"),
    ];
    assert_eq!(
        value("variables.b == 6 && has(variables.a)", &variables),
        Ok(Value::Bool(true))
    );
    assert_eq!(
        value("variables.broken", &variables),
        Err("expression 'variables.broken' resulted in error: composited variable \"broken\" fails to evaluate: no such key: nosuch".to_owned())
    );
    let told = value("variables.nosuch", &variables).unwrap_err();
    assert!(
        told.starts_with("compilation error: compilation failed: ERROR: <input>:1:10: undefined field 'nosuch'"),
        "{told}"
    );
}

#[test]
fn what_an_expression_must_come_to_is_checked() {
    let compiler = Compiler::default();
    let told = |text: &str, returns| compiler.compile(text, ALL, returns).err();
    assert_eq!(
        told("1", Returns::Bool).as_deref(),
        Some("must evaluate to bool but got int")
    );
    assert_eq!(
        told("[1]", Returns::StringOrNull).as_deref(),
        Some("must evaluate to one of [string null_type] but got list(int)")
    );
    assert_eq!(told("object.a == 1", Returns::Bool), None);
    let patches = Uses { patches: true, ..ALL };
    let object = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}";
    assert!(compiler.compile(object, patches, Returns::Object).is_ok());
    assert!(compiler.compile(object, ALL, Returns::Object).is_err());
    let operations = "[JSONPatch{op: 'add', path: '/x/' + jsonpatch.escapeKey('a/b'), value: 1}]";
    assert!(compiler.compile(operations, patches, Returns::JsonPatches).is_ok());
}

#[test]
fn one_condition_that_is_false_decides() {
    let (object, request) = (tree(r#"{"a":1}"#), tree("{}"));
    let outcome = |texts: &[&str]| {
        let conditions = conditions::compile(&Compiler::default(), texts.iter().copied(), false);
        conditions::check(&conditions, input(&object, &request), &[])
    };
    assert_eq!(outcome(&["object.a == 1"]), Outcome::Match);
    assert_eq!(outcome(&["object.b == 1", "object.a == 2"]), Outcome::NoMatch);
    assert_eq!(
        outcome(&["object.a == 1", "object.b == 1"]),
        Outcome::Error("expression 'object.b == 1' resulted in error: no such key: b".to_owned())
    );
}

/// Allows `get`.
struct Readers;

impl Authorizer for Readers {
    fn authorize<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Decision> {
        let allowed = question.request.verb == "get" && question.user.name != "system:serviceaccount:n:s";
        let decision = if allowed {
            Decision::Allow(triptych_auth::Reason::text("reader"))
        } else {
            Decision::PASS
        };
        Box::pin(std::future::ready(decision))
    }
}

#[tokio::test]
async fn the_authorizer_is_asked_what_expressions_want_to_know() {
    let (resource, kind) = (Gvr::new("", "v1", "pods"), Gvk::new("", "v1", "Pod"));
    let (user, model) = (UserInfo::new("u", ["g"]), AsItIs::new(kind.clone()));
    let attributes = Attributes {
        operation: Operation::Create,
        resource: &resource,
        subresource: "",
        kind: &kind,
        namespace: "n",
        name: "p",
        user: &user,
        dry_run: false,
        options: None,
        model: &model,
        deadline: std::time::Instant::now(),
    };
    let (object, request) = (tree("{}"), tree("{}"));
    for (text, expected) in [
        (
            "authorizer.group('').resource('pods').namespace('n').check('get').allowed()",
            true,
        ),
        (
            "authorizer.requestResource.check('get').allowed() && authorizer.requestResource.check('create').allowed()",
            false,
        ),
        ("authorizer.requestResource.check('get').reason() == 'reader'", true),
        (
            "authorizer.serviceAccount('n', 's').path('/healthz').check('get').allowed()",
            false,
        ),
    ] {
        let expression = compiled(&Compiler::default(), text);
        let checks = Checks::new(&Readers, &attributes);
        let outcome = checks
            .settle(|| {
                let seen = Input {
                    authorizer: Some((&checks.own, &checks.resource)),
                    ..input(&object, &request)
                };
                let mut left = POLICY_BUDGET;
                let outcome = Evaluation::new(seen, &[]).run(&expression, &mut left);
                outcome.map(|value| value.map(|value| matches!(value, Cel::Bool(true))))
            })
            .await;
        assert_eq!(outcome, Ok(Ok(expected)), "{text}");
    }
}
