//! Which webhooks are called, in which order, and the effects of their failures.

use base64::{Engine, engine::general_purpose::STANDARD};
use futures::{FutureExt, future::BoxFuture};
use http::Request;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use time::OffsetDateTime;
use volume_warden_apiserver_model::{
    Admission, ApiServer, Body, Settings, User, Version, WebhookCall,
};

/// Answers as the name of the webhook requests, and records the calls.
#[derive(Default)]
struct Webhooks {
    calls: Mutex<Vec<(String, Value)>>,
}

impl Admission for Webhooks {
    fn review<'a>(&'a self, call: WebhookCall<'a>) -> BoxFuture<'a, Result<Value, String>> {
        let request = &call.review["request"];
        let mut calls = self.calls.lock().expect("lock");
        calls.push((call.webhook.to_owned(), request["object"].clone()));
        let uid = &request["uid"];
        let answer = match call.webhook.split('.').next() {
            Some("label") => {
                let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"by": call.configuration}}]);
                let patch = STANDARD.encode(patch.to_string());
                Ok(json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch}))
            }
            Some("deny") => Ok(json!({"uid": uid, "allowed": false, "status": {"message": "no"}})),
            Some("warn") => Ok(json!({"uid": uid, "allowed": true, "warnings": ["careful"]})),
            _ => Err("connection refused".to_owned()),
        };
        let answer = answer.map(|response| json!({"response": response}));
        Box::pin(async move { answer })
    }

    fn condition(&self, expression: &str, _: &Value) -> Option<bool> {
        expression.parse().ok()
    }
}

struct Scene {
    server: ApiServer,
    webhooks: Arc<Webhooks>,
}

impl Scene {
    /// An API server with these webhook configurations: the kind, the name of the webhook, its
    /// failure policy and its match condition.
    fn new(configurations: &[(&str, &str, &str, &str)]) -> Self {
        let server = ApiServer::new(Settings {
            version: Version::V1_34,
            seed: 1,
            clock: Arc::new(|| OffsetDateTime::UNIX_EPOCH),
            longest_page: 0,
            in_tree_protection: false,
        });
        let webhooks = Arc::new(Webhooks::default());
        let scene = Self { server, webhooks };
        for (number, (kind, webhook, policy, condition)) in configurations.iter().enumerate() {
            let object = json!({
                "metadata": {"name": format!("c{number}")},
                "webhooks": [{
                    "name": webhook, "failurePolicy": policy, "clientConfig": {},
                    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["persistentvolumes"]}],
                    "matchConditions": [{"name": "condition", "expression": condition}],
                }],
            });
            let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations");
            assert_eq!(scene.post(&path, object).0, 201);
        }
        scene.server.set_admission(scene.webhooks.clone());
        scene
    }

    fn post(&self, path: &str, object: Value) -> (u16, Value, Vec<String>) {
        let user = User {
            name: "alice".into(),
            groups: Vec::new(),
        };
        let request = Request::post(path).body(object.to_string().into());
        let response = self.server.handle(&user, request.expect("valid"));
        let response = response.now_or_never().expect("nothing waits");
        let (parts, body) = response.into_parts();
        let Body::Whole(Some(bytes)) = body else {
            unreachable!("a POST is answered as a whole")
        };
        let warnings = parts.headers.get_all("warning").into_iter();
        let warnings = warnings.map(|each| each.to_str().expect("ASCII").to_owned());
        let answer = serde_json::from_slice(&bytes).expect("JSON");
        (parts.status.as_u16(), answer, warnings.collect())
    }

    /// The metadata of the object that each webhook saw.
    fn metadata(&self) -> Vec<Value> {
        let calls = self.webhooks.calls.lock().expect("lock");
        let metadata = calls.iter().map(|(_, object)| object["metadata"].clone());
        metadata.collect()
    }

    fn create(&self) -> (u16, Value, Vec<String>) {
        let volume = json!({"metadata": {"name": "v"}, "spec": {}});
        self.post("/api/v1/persistentvolumes", volume)
    }

    fn called(&self) -> Vec<String> {
        let calls = self.webhooks.calls.lock().expect("lock");
        calls.iter().map(|(name, _)| name.clone()).collect()
    }
}

#[test]
fn mutating_webhooks_are_called_first_and_each_sees_the_patch_of_the_one_before() {
    let scene = Scene::new(&[
        ("validating", "warn.a", "Fail", "true"),
        ("mutating", "label.b", "Fail", "true"),
        ("mutating", "warn.c", "Fail", "true"),
    ]);
    let (status, created, warnings) = scene.create();
    assert_eq!(
        (status, &created["metadata"]["labels"]["by"]),
        (201, &json!("c1"))
    );
    assert_eq!(scene.called(), ["label.b", "warn.c", "warn.a"]);
    assert_eq!(warnings, ["299 - \"careful\"", "299 - \"careful\""]);
    let calls = scene.webhooks.calls.lock().expect("lock");
    let labels: Vec<_> = calls
        .iter()
        .map(|(_, object)| object["metadata"]["labels"]["by"].clone())
        .collect();
    assert_eq!(labels, [Value::Null, json!("c1"), json!("c1")]);
}

/// The API server sets the name and the uid of a new object after the mutating webhooks.
#[test]
fn a_mutating_webhook_sees_neither_a_generated_name_nor_a_uid() {
    let scene = Scene::new(&[
        ("mutating", "label.a", "Fail", "true"),
        ("validating", "warn.b", "Fail", "true"),
    ]);
    let volume = json!({"metadata": {"generateName": "v-", "uid": "mine"}, "spec": {}});
    let (status, created, _) = scene.post("/api/v1/persistentvolumes", volume);
    assert_eq!(status, 201);
    let [mutating, validating] = &scene.metadata()[..] else {
        unreachable!("two webhooks")
    };
    for field in ["name", "uid", "creationTimestamp"] {
        assert_eq!(mutating.get(field), None, "{field}");
        let final_value = &created["metadata"][field];
        assert!(final_value.is_string(), "{field}");
        assert_eq!(&validating[field], final_value, "{field}");
    }
}

#[test]
fn a_refusal_names_the_webhook_and_nothing_is_stored() {
    let scene = Scene::new(&[("validating", "deny.a", "Ignore", "true")]);
    let (status, answer, _) = scene.create();
    assert_eq!(status, 403);
    assert_eq!(
        answer["message"],
        "admission webhook \"deny.a\" denied the request: no"
    );
    assert_eq!(scene.server.get("persistentvolumes", "", "v"), None);
}

#[test]
fn the_failure_policy_decides_when_a_webhook_cannot_be_called() {
    let open = Scene::new(&[("validating", "down.a", "Ignore", "true")]);
    assert_eq!(open.create().0, 201);
    let closed = Scene::new(&[("validating", "down.a", "Fail", "true")]);
    let (status, answer, _) = closed.create();
    assert_eq!((status, &answer["reason"]), (500, &json!("InternalError")));
    assert!(answer["message"].to_string().contains("down.a"));
}

#[test]
fn a_match_condition_decides_whether_a_webhook_is_called() {
    let scene = Scene::new(&[
        ("validating", "deny.a", "Fail", "false"),
        ("validating", "deny.b", "Ignore", "unknown"),
    ]);
    assert_eq!(scene.create().0, 201);
    assert_eq!(scene.called(), Vec::<String>::new());
}
