//! Asks another tier whom a token stands for.
//!
//! Contract: used after the token's signature was checked here. A tier that cannot be reached does not make a token bad:
//! the request is answered 503 and may be tried again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_client::api::Api;
use triptych_object::{UserInfo, Value};

use super::token::{TokenAuthenticator, TokenVerdict};

/// TokenReview at core-api.
pub struct RemoteReview {
    api: Api,
}

impl RemoteReview {
    /// At the tier behind `api`.
    pub fn new(api: Api) -> RemoteReview {
        RemoteReview { api }
    }
}

impl TokenAuthenticator for RemoteReview {
    fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
        async move {
            let mut spec = Value::from([("token", token.into())]);
            if !audiences.is_empty() {
                spec.set_at(&["audiences"], audiences.to_vec().into());
            }
            let review = Value::from([
                ("kind", "TokenReview".into()),
                ("apiVersion", "authentication.k8s.io/v1".into()),
                ("spec", spec),
            ]);
            match self
                .api
                .create("/apis/authentication.k8s.io/v1/tokenreviews", &review)
                .await
            {
                Ok(answer) => verdict(&answer),
                Err(status) => TokenVerdict::Unavailable(status.message),
            }
        }
        .boxed()
    }
}

fn verdict(review: &Value) -> TokenVerdict {
    let status = review.get("status").cloned().unwrap_or_default();
    if status.get("authenticated").and_then(Value::as_bool) != Some(true) {
        return match status.str_at(&["error"]) {
            "" => TokenVerdict::Unknown,
            why => TokenVerdict::Bad(why.to_owned()),
        };
    }
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().unwrap_or(&[]).iter();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let list = |path: &[&str]| status.at(path).map(texts).unwrap_or_default();
    let extra = status.at(&["user", "extra"]).and_then(Value::as_object);
    let user = UserInfo {
        name: status.str_at(&["user", "username"]).to_owned(),
        uid: status.str_at(&["user", "uid"]).to_owned(),
        groups: list(&["user", "groups"]),
        extra: extra
            .into_iter()
            .flat_map(|e| e.iter())
            .map(|(key, values)| (key.to_owned(), texts(values)))
            .collect(),
    };
    TokenVerdict::Known {
        user: Arc::new(user),
        audiences: list(&["audiences"]),
    }
}

#[cfg(test)]
mod tests {
    use triptych_object::json;

    use super::*;

    #[test]
    fn a_review_is_read_back() {
        let review = |status: &str| {
            let text = format!(r#"{{"status":{status}}}"#);
            verdict(&json::from_slice(text.as_bytes()).unwrap())
        };
        let TokenVerdict::Known { user, audiences } = review(
            r#"{"authenticated":true,"user":{"username":"ann","uid":"1","groups":["a"],"extra":{"k":["v"]}},"audiences":["api"]}"#,
        ) else {
            panic!("not known")
        };
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("ann", "1"));
        assert_eq!(
            (&user.groups[..], &user.extra["k"][..], &audiences[..]),
            (&["a".to_owned()][..], &["v".to_owned()][..], &["api".to_owned()][..])
        );
        assert_eq!(
            review(r#"{"user":{},"error":"gone"}"#),
            TokenVerdict::Bad("gone".to_owned())
        );
        assert_eq!(review(r#"{"authenticated":false}"#), TokenVerdict::Unknown);
        assert_eq!(review("null"), TokenVerdict::Unknown);
    }
}
