//! TokenReview: whom does a token stand for?

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use triptych_auth::authentication::review::review_token;
use triptych_auth::authentication::token::TokenAuthenticator;
use triptych_object::{Status, StatusResult, Value};
use triptych_registry::{Action, ActionContext, Answer};

/// Answers `tokenreviews`.
pub struct TokenReview {
    /// Knows tokens; `None` if no kind of token is configured.
    pub tokens: Option<Arc<dyn TokenAuthenticator>>,
    /// Towards whom a token must be good if the review does not say.
    pub audiences: Vec<String>,
}

impl Action for TokenReview {
    fn run<'a>(&'a self, _cx: &'a ActionContext<'a>, document: Value) -> BoxFuture<'a, StatusResult<Answer>> {
        async move { Ok(Answer::Document(self.review(document).await?)) }.boxed()
    }
}

impl TokenReview {
    async fn review(&self, mut document: Value) -> StatusResult<Value> {
        let token = document.str_at(&["spec", "token"]).to_owned();
        if token.is_empty() {
            return Err(Status::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let Some(tokens) = &self.tokens else {
            return Ok(document);
        };
        let asked = document
            .array_at(&["spec", "audiences"])
            .iter()
            .filter_map(Value::as_str);
        let asked: Vec<String> = asked.map(str::to_owned).collect();
        let audiences = if asked.is_empty() { &self.audiences } else { &asked };
        let answer = review_token(&**tokens, &token, audiences).await;
        // Only what the answer says is set: a sender's own status is otherwise left as it is.
        document.remove_at(&["status", "authenticated"]);
        for (member, value) in answer.as_object().into_iter().flat_map(|o| o.iter()) {
            let keep = member == "user" && value.as_object().is_some_and(|u| u.is_empty());
            if !keep || document.at(&["status", "user"]).is_none() {
                document.set_at(&["status", member], value.clone());
            }
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use triptych_auth::authentication::token::TokenVerdict;
    use triptych_object::{UserInfo, json};

    use super::*;

    struct Ann;

    impl TokenAuthenticator for Ann {
        fn authenticate_token<'a>(&'a self, token: &'a str, audiences: &'a [String]) -> BoxFuture<'a, TokenVerdict> {
            let verdict = match token {
                "ann" => TokenVerdict::Known {
                    user: Arc::new(UserInfo::new("ann", ["devs"])),
                    audiences: audiences.to_vec(),
                },
                "old" => TokenVerdict::Bad("it has expired".to_owned()),
                _ => TokenVerdict::Unknown,
            };
            std::future::ready(verdict).boxed()
        }
    }

    #[tokio::test]
    async fn the_status_says_whom_a_token_stands_for() {
        let review = TokenReview {
            tokens: Some(Arc::new(Ann)),
            audiences: vec!["api".to_owned()],
        };
        for (text, want) in [
            (
                r#"{"spec":{"token":"ann"}}"#,
                r#"{"authenticated":true,"user":{"username":"ann","groups":["devs"]},"audiences":["api"]}"#,
            ),
            (
                r#"{"spec":{"token":"ann","audiences":["x"]},"status":{"authenticated":true,"error":"e","user":{}}}"#,
                r#"{"error":"e","user":{"username":"ann","groups":["devs"]},"authenticated":true,"audiences":["x"]}"#,
            ),
            (
                r#"{"spec":{"token":"bob"}}"#,
                r#"{"user":{},"error":"invalid bearer token"}"#,
            ),
            (
                r#"{"spec":{"token":"old"},"status":{"authenticated":true}}"#,
                r#"{"user":{},"error":"[invalid bearer token, it has expired]"}"#,
            ),
        ] {
            let document = json::from_slice(text.as_bytes()).unwrap();
            let answer = review.review(document).await.unwrap();
            assert_eq!(json::to_string(answer.get("status").unwrap()), want, "{text}");
        }
        let nothing = review.review(Value::object()).await.unwrap_err();
        assert_eq!(
            (nothing.code, nothing.message.as_str()),
            (400, "token is required for TokenReview in authentication")
        );
    }
}
