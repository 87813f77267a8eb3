//! `authentication.k8s.io`: questions about who somebody is, and tokens of service accounts.

pub mod open_id;
mod self_review;
mod token_request;
mod token_review;

use crate::access::Access;
use crate::kinds::Kinds;

const GROUP: &str = "authentication.k8s.io";

/// Gives the reviews of this group their answers, and service accounts their tokens.
pub fn register(kinds: &mut Kinds, access: &Access) {
    kinds.action(GROUP, "selfsubjectreviews", "", self_review::SelfReview);
    kinds.action(
        GROUP,
        "tokenreviews",
        "",
        token_review::TokenReview {
            tokens: access.tokens.clone(),
            audiences: access.audiences.clone(),
        },
    );
    kinds.action(
        "",
        "serviceaccounts",
        "token",
        token_request::TokenRequest {
            issuer: access.issuer.clone(),
            objects: access.objects.clone(),
        },
    );
}
