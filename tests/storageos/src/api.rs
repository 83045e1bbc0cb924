//! The behavior of the API without simulated faults.

use crate::{
    Shared, TokenIn, lock,
    state::{State as Cluster, written},
};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Path, Query, State},
    http::{
        HeaderMap, HeaderName, Response, StatusCode,
        header::{AUTHORIZATION, CONTENT_TYPE},
    },
    routing::{delete, get, post},
};
use serde_json::{Value, json};
use std::collections::HashMap;

const EXPIRES_SECONDS: HeaderName = HeaderName::from_static("authorization-expires-seconds");
const EXPIRES_IN: HeaderName = HeaderName::from_static("authorization-expires-in");

type Answer = Response<Body>;

pub(crate) fn router(state: Shared, path: &str) -> Router {
    let api = Router::new()
        .route("/v2/auth/login", post(log_in))
        .route("/v2/auth/refresh", post(refresh))
        .route("/v2/namespaces", get(list))
        .route("/v2/namespaces/{id}", delete(delete_namespace))
        .with_state(state);
    if path.is_empty() {
        api
    } else {
        Router::new().nest(path, api)
    }
}

async fn log_in(State(state): State<Shared>, body: Bytes) -> Answer {
    let mut cluster = lock(&state);
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (Some(user), Some(password)) = (body["username"].as_str(), body["password"].as_str())
    else {
        return error(400, "username and password are required");
    };
    if user != crate::USER || password != cluster.password {
        // The error contains the password, which the client must not repeat.
        return error(401, &format!("wrong password {password} of {user}"));
    }
    granted(&mut cluster, EXPIRES_SECONDS)
}

async fn refresh(State(state): State<Shared>, headers: HeaderMap) -> Answer {
    let mut cluster = lock(&state);
    if !cluster.knows(authorization(&headers)) {
        return error(401, "log in first");
    }
    granted(&mut cluster, EXPIRES_IN)
}

async fn list(State(state): State<Shared>, headers: HeaderMap) -> Answer {
    let cluster = lock(&state);
    if !cluster.knows(authorization(&headers)) {
        return error(401, "log in first");
    }
    answer(200, &cluster.listed())
}

async fn delete_namespace(
    State(state): State<Shared>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Answer {
    let mut cluster = lock(&state);
    if !cluster.knows(authorization(&headers)) {
        return error(401, "log in first");
    }
    let Some(version) = query.get("version").filter(|version| version.len() <= 30) else {
        return error(400, "a version is required");
    };
    let ignored = query
        .get("ignore-version")
        .is_some_and(|text| text == "true");
    let Some(namespace) = cluster.namespaces.get(&id) else {
        return error(404, "there is no such namespace");
    };
    if !ignored && *version != written(namespace.version) {
        return error(412, "the version is stale");
    }
    if namespace.volumes > 0 {
        return error(
            409,
            &format!("the namespace has {} volumes", namespace.volumes),
        );
    }
    cluster.namespaces.remove(&id);
    answer(200, &json!({}))
}

fn granted(cluster: &mut Cluster, expires: HeaderName) -> Answer {
    let token = cluster.grant();
    let mut session = json!({});
    if matches!(cluster.token_in, TokenIn::Both | TokenIn::Body) {
        session["token"] = json!(token);
    }
    if let Some(life) = cluster.announced_lifetime {
        session["expiresInSeconds"] = json!(life);
    }
    let body = json!({"id": "user-1", "username": crate::USER, "isAdmin": true, "groups": null, "session": session});
    let mut answer = answer(200, &body);
    let headers = answer.headers_mut();
    let in_header = match cluster.token_in {
        TokenIn::Both => Some(format!("Bearer {token}")),
        TokenIn::BareHeader => Some(token),
        TokenIn::Body | TokenIn::Nowhere => None,
    };
    if let Some(Ok(value)) = in_header.map(|text| text.parse()) {
        headers.insert(AUTHORIZATION, value);
    }
    if let Some(life) = cluster.announced_lifetime {
        headers.insert(expires, life.into());
    }
    answer
}

pub(crate) fn authorization(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()
}

fn error(status: u16, message: &str) -> Answer {
    answer(status, &json!({ "error": message }))
}

fn answer(status: u16, body: &Value) -> Answer {
    raw(status, body.to_string().into())
}

pub(crate) fn raw(status: u16, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    let json = axum::http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}
