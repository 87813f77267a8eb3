//! TokenReview: what somebody else's token is worth here.

use triptych_object::{UserInfo, Value, field};

use super::token::{TokenAuthenticator, TokenVerdict, bearer};

/// Said of every token that nobody vouches for, whatever else is wrong with it.
const INVALID: &str = "invalid bearer token";

/// The status of a review of `token` towards `audiences` (the server's own if the review names none).
pub async fn review_token(tokens: &dyn TokenAuthenticator, token: &str, audiences: &[String]) -> Value {
    let header = format!("Bearer {token}");
    let verdict = match bearer(&header) {
        Some(token) => tokens.authenticate_token(token, audiences).await,
        None => TokenVerdict::Unknown,
    };
    let why = match verdict {
        TokenVerdict::Known { user, audiences } => {
            let mut status = Value::from([("authenticated", true.into()), ("user", user_info(&user))]);
            if !audiences.is_empty() {
                status.set_at(&["audiences"], audiences.into());
            }
            return status;
        }
        TokenVerdict::Unknown => INVALID.to_owned(),
        TokenVerdict::Bad(why) | TokenVerdict::Unavailable(why) => field::aggregate([INVALID.to_owned(), why]),
    };
    Value::from([("user", Value::object()), ("error", why.into())])
}

/// `authentication.k8s.io/v1` UserInfo.
pub fn user_info(user: &UserInfo) -> Value {
    let mut out = Value::object();
    if !user.name.is_empty() {
        out.set_at(&["username"], user.name.as_str().into());
    }
    if !user.uid.is_empty() {
        out.set_at(&["uid"], user.uid.as_str().into());
    }
    if !user.groups.is_empty() {
        out.set_at(&["groups"], user.groups.clone().into());
    }
    for (key, values) in &user.extra {
        out.set_at(&["extra", key], values.clone().into());
    }
    out
}
