//! `authorization.k8s.io`: questions about what somebody may.

mod access_review;
mod node;
mod rules_review;

use std::sync::Arc;

use crate::access::Access;
use crate::kinds::Kinds;
use access_review::{AccessReview, Asked};
use rules_review::RulesReview;

pub use node::node_authorizer;

const GROUP: &str = "authorization.k8s.io";

/// Gives the reviews of this group their answers.
pub fn register(kinds: &mut Kinds, access: &Access) {
    let review = |asked| AccessReview {
        asked,
        authorizer: access.authorization.clone(),
    };
    kinds.action(GROUP, "subjectaccessreviews", "", review(Asked::Subject));
    kinds.action(GROUP, "localsubjectaccessreviews", "", review(Asked::Local));
    kinds.action(GROUP, "selfsubjectaccessreviews", "", review(Asked::OneSelf));
    let resolver = Arc::clone(&access.authorization);
    kinds.action(GROUP, "selfsubjectrulesreviews", "", RulesReview { resolver });
}
