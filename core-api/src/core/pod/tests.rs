//! What the server does to pods, piece by piece; whole requests are in the recorded stories.

use super::*;
use triptych_object::json;

fn parse(text: &str) -> Value {
    json::from_slice(text.as_bytes()).unwrap()
}

#[test]
fn requests_follow_limits() {
    let mut pod = parse(r#"{"spec":{"containers":[{"resources":{"limits":{"memory":"1Gi","cpu":"1"}}}]}}"#);
    Pods.default(&mut pod);
    let resources = pod.array_at(&["spec", "containers"])[0].get("resources").unwrap();
    assert_eq!(
        json::to_string(resources.get("requests").unwrap()),
        r#"{"cpu":"1","memory":"1Gi"}"#
    );
    assert_eq!(qos::class(pod.get("spec").unwrap()), "Guaranteed");
}

#[test]
fn a_pod_without_a_node_is_deleted_at_once() {
    let mut pod = parse(r#"{"spec":{"terminationGracePeriodSeconds":30},"status":{"phase":"Pending"}}"#);
    assert_eq!(Pods.grace_period(&pod, Some(5)), Some(0));
    pod.set_at(&["spec", "nodeName"], "n".into());
    assert_eq!(Pods.grace_period(&pod, None), Some(30));
    assert_eq!(Pods.grace_period(&pod, Some(-5)), Some(1));
}

#[test]
fn a_changed_field_is_shown_as_a_difference() {
    let old =
        parse(r#"{"apiVersion":"v1","kind":"Pod","spec":{"hostname":"a","containers":[{"name":"c","image":"i"}]}}"#);
    let mut new = old.clone();
    new.set_at(&["spec", "hostname"], "b".into());
    let mut errors = ErrorList::new();
    check(&new, &mut errors, |pod| {
        update::update(pod, &old, &PodOptions::new(true))
    });
    let text = errors.aggregate();
    assert!(
        text.contains("- \"Hostname\": \"a\",\n+ \"Hostname\": \"b\",\n"),
        "{text}"
    );
}
