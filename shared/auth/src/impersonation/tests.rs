//! Who may act as whom: requests to impersonate, against rights given one by one.

use super::*;
use futures_util::future::BoxFuture;

/// Allows what is listed as `verb group/resource[/sub] namespace name`, names with `*` any.
struct Allowing(&'static [&'static str]);

impl Authorizer for Allowing {
    fn authorize<'a>(&'a self, a: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let r = a.request;
        let ask = format!("{} {}/{} {} {}", r.verb, r.group, r.resource, r.namespace, r.name);
        let allowed = self.0.contains(&ask.as_str());
        Box::pin(std::future::ready(if allowed {
            Decision::Allow(crate::Reason::NONE)
        } else {
            Decision::NoOpinion {
                reason: String::new(),
                error: String::new(),
            }
        }))
    }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (k, v) in pairs {
        map.append(*k, v.parse().unwrap());
    }
    map
}

fn run(allowed: &'static [&'static str], pairs: &[(&'static str, &str)]) -> StatusResult<UserInfo> {
    let want = wanted(&headers(pairs))?.unwrap();
    let info = RequestInfo::parse("GET", "/api/v1/namespaces/a/configmaps", "").unwrap();
    let requestor = UserInfo::new("joe", [AUTHENTICATED]);
    let modes = Modes::default();
    let authorizer = Allowing(allowed);
    let mut future = Box::pin(modes.impersonate(&authorizer, &requestor, &want, &info));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut cx) {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => unreachable!("nothing waits"),
    }
}

#[test]
fn the_first_constrained_refusal_is_the_answer() {
    let refusal = run(&[], &[("impersonate-user", "bob")]).unwrap_err();
    assert_eq!(
        refusal.message,
        r#"configmaps is forbidden: User "joe" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the namespace "a""#
    );
    let refusal = run(&[], &[("impersonate-user", "system:node:n")]).unwrap_err();
    assert!(
        refusal.message.contains("impersonate-on:arbitrary-node:list"),
        "{}",
        refusal.message
    );
}

#[test]
fn the_older_rule_suffices_and_adds_the_authenticated_group() {
    let user = run(
        &["impersonate /users  bob", "impersonate /groups  g"],
        &[("impersonate-user", "bob"), ("impersonate-group", "g")],
    )
    .unwrap();
    assert_eq!(user.groups, ["g", AUTHENTICATED]);
}

#[test]
fn a_service_account_gets_its_groups() {
    let user = run(
        &["impersonate /serviceaccounts ns sa"],
        &[("impersonate-user", "system:serviceaccount:ns:sa")],
    )
    .unwrap();
    assert_eq!(
        user.groups,
        ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]
    );
}

#[test]
fn constrained_modes_never_give_masters() {
    let on = &[
        "impersonate-on:user-info:list /configmaps a ",
        "impersonate:user-info authentication.k8s.io/users  bob",
        "impersonate:user-info authentication.k8s.io/groups  system:masters",
    ];
    let refusal = run(on, &[("impersonate-user", "bob"), ("impersonate-group", MASTERS)]).unwrap_err();
    assert!(
        refusal
            .message
            .ends_with("impersonating the system:masters group is not allowed")
    );
}

#[test]
fn headers_without_a_user_are_refused_in_gos_syntax() {
    for (pairs, want) in [
        (
            &[("impersonate-group", "g")][..],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name"#,
        ),
        (
            &[("impersonate-extra-x", "y")][..],
            r#"requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"x":[]string{"y"}}} without impersonating a user name"#,
        ),
    ] {
        assert_eq!(wanted(&headers(pairs)).unwrap_err().message, want);
    }
    assert_eq!(wanted(&headers(&[("accept", "x")])).unwrap(), None);
}

#[test]
fn extra_keys_are_unescaped_and_headers_removed() {
    let mut map = headers(&[
        ("impersonate-user", "u"),
        ("impersonate-extra-acme.com%2fproject", "p"),
        ("impersonate-extra-100%", "q"),
    ]);
    let user = wanted(&map).unwrap().unwrap();
    assert_eq!(user.extra["acme.com/project"], ["p"]);
    assert_eq!(user.extra["100%"], ["q"]);
    remove_headers(&mut map);
    assert!(map.is_empty());
}
