use super::*;
use crate::cluster::test_server::answering;
use serde_json::{Value, json};

/// The requests that the fake API server received, in order.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Vec<Value>>>);

impl Fake {
    fn tokens(&self) -> Tokens {
        let fake = self.clone();
        let client = answering(move |_, body| {
            let answer = answer(&body);
            fake.0.lock().push(body);
            (if answer.is_null() { 500 } else { 201 }, answer)
        });
        Tokens::new(client, "/metrics")
    }

    fn calls(&self) -> usize {
        self.0.lock().len()
    }
}

/// Answers as an API server on which each token is `token-of-<user>`, and only prometheus may read.
fn answer(body: &Value) -> Value {
    let mut answer = body.clone();
    if let Some(token) = body["spec"]["token"].as_str() {
        let Some(name) = token.strip_prefix("token-of-") else {
            answer["status"] = json!({"error": "invalid bearer token"});
            return answer;
        };
        if name == "no-answer" {
            return Value::Null;
        }
        let user = json!({"username": name, "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}});
        answer["status"] = json!({"authenticated": true, "user": user});
    } else {
        answer["status"] = json!({"allowed": body["spec"]["user"] == "prometheus"});
    }
    answer
}

#[tokio::test(start_paused = true)]
async fn the_api_server_judges() {
    let fake = Fake::default();
    let tokens = fake.tokens();
    for (token, expected) in [
        ("token-of-prometheus", TokenDecision::Allowed),
        ("token-of-tenant", TokenDecision::Forbidden),
        ("junk", TokenDecision::Unauthenticated),
        ("token-of-no-answer", TokenDecision::Unavailable),
    ] {
        assert_eq!(tokens.authorize(token.into()).await, expected, "{token}");
    }
    let sent = fake.0.lock()[1]["spec"].clone();
    let expected = json!({
        "user": "prometheus", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    });
    assert_eq!(sent, expected);
}

#[tokio::test(start_paused = true)]
async fn judgements_are_remembered_for_a_while() {
    let fake = Fake::default();
    let tokens = fake.tokens();
    for (token, lasts, calls) in [
        ("token-of-prometheus", ALLOWED_FOR, 2),
        ("token-of-tenant", REFUSED_FOR, 2),
        ("junk", REFUSED_FOR, 1),
        ("token-of-no-answer", Duration::ZERO, 1),
    ] {
        let before = fake.calls();
        let first = tokens.authorize(token.into()).await;
        tokio::time::advance(lasts.saturating_sub(Duration::from_millis(1))).await;
        if !lasts.is_zero() {
            assert_eq!(tokens.authorize(token.into()).await, first);
            assert_eq!(fake.calls(), before + calls, "{token}");
        }
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(tokens.authorize(token.into()).await, first);
        assert_eq!(fake.calls(), before + 2 * calls, "{token}");
    }
}

/// Tokens that are not allowed cause few calls and evict no allowed token from the cache, even if
/// the clients disconnect before the result.
#[tokio::test(start_paused = true)]
async fn invalid_tokens_cause_few_calls() {
    let fake = Fake::default();
    let tokens = fake.tokens();
    let allowed = "token-of-prometheus".to_owned();
    tokens.authorize(allowed.clone()).await;
    let started = Instant::now();
    for number in 0..1000 {
        if started.elapsed() > ALLOWED_FOR / 2 {
            break;
        }
        let token = format!("junk-{number}");
        let impatient = tokens.authorize(token);
        let _ = tokio::time::timeout(Duration::from_millis(1), impatient).await;
    }
    let pauses = started.elapsed().div_duration_f64(PAUSE).ceil() as usize;
    let calls = fake.calls();
    // The first two calls are those for the token that is allowed.
    assert!(
        (3..=2 + MAX_CONCURRENT_CHECKS * pauses).contains(&calls),
        "{calls} in {pauses} pauses"
    );
    assert!(tokens.0.cache.lock().len() <= MAX_CACHED_TOKENS);
    assert_eq!(tokens.authorize(allowed).await, TokenDecision::Allowed);
    assert_eq!(fake.calls(), calls);
}
