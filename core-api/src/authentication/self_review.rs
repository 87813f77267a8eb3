//! SelfSubjectReview: who am I?

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::authentication::review::user_info;
use triptych_object::{StatusResult, Value, time};
use triptych_registry::{Action, ActionContext, Answer};

/// Answers `selfsubjectreviews`.
pub struct SelfReview;

impl Action for SelfReview {
    fn run<'a>(&'a self, cx: &'a ActionContext<'a>, _document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        // The answer is a new document: what was asked is not repeated.
        let answer = Value::from([
            ("kind", "SelfSubjectReview".into()),
            ("apiVersion", "authentication.k8s.io/v1".into()),
            (
                "metadata",
                Value::from([("creationTimestamp", time::rfc3339(cx.now).into())]),
            ),
            ("status", Value::from([("userInfo", user_info(&cx.request.user))])),
        ]);
        std::future::ready(Ok(Answer::Document(answer))).boxed()
    }
}
