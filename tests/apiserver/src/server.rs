//! The API server: what it is made of, and which operation answers a request.

use crate::{
    admission::Admission,
    body::Body,
    create::Creation,
    route::Route,
    status::{Answer, Failure},
    store::{Change, Store, resource},
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use time::{
    OffsetDateTime,
    format_description::well_known::{Rfc2822, Rfc3339},
};

/// The version of Kubernetes that the model behaves like, where versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Kubernetes 1.34.
    V1_34,
    /// Kubernetes 1.37.
    V1_37,
}

/// The settings of an API server.
pub struct Settings {
    /// The version that it behaves like.
    pub version: Version,
    /// The seed of uids and generated names.
    pub seed: u64,
    /// The wall clock.
    pub clock: Arc<dyn Fn() -> OffsetDateTime + Send + Sync>,
    /// Whether the admission plugin StorageObjectInUseProtection adds the protection finalizers.
    pub in_tree_protection: bool,
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name of the user.
    pub name: String,
    /// The groups of the user.
    pub groups: Vec<String>,
}

/// A write as a policy sees it.
pub struct Attempt<'a> {
    /// Who writes.
    pub user: &'a User,
    /// CREATE, UPDATE or DELETE.
    pub operation: &'a str,
    /// The plural of the kind.
    pub plural: &'a str,
    /// The subresource, or nothing (`""`).
    pub subresource: &'a str,
    /// The object before the write.
    pub old: Option<&'a Value>,
    /// The object after the write.
    pub new: Option<&'a Value>,
}

/// A ValidatingAdmissionPolicy or a quota: returns why a write is refused. A text that begins with
/// `exceeded quota` is answered with 403, any other with 422.
pub type Policy = Arc<dyn Fn(&Attempt<'_>) -> Result<(), String> + Send + Sync>;

/// Returns whether the spec of a SubjectAccessReview is allowed.
pub type Access = Arc<dyn Fn(&Value) -> bool + Send + Sync>;

pub(crate) struct Parts {
    pub(crate) settings: Settings,
    pub(crate) store: Mutex<Store>,
    outside: Mutex<Outside>,
}

/// What the user of the model plugs in.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) policy: Option<Policy>,
    pub(crate) access: Option<Access>,
}

/// An API server. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) parts: Arc<Parts>,
}

impl ApiServer {
    /// Creates an API server without objects.
    pub fn new(settings: Settings) -> Self {
        let store = Mutex::new(Store::new(settings.seed));
        Self {
            parts: Arc::new(Parts {
                settings,
                store,
                outside: Mutex::default(),
            }),
        }
    }

    /// Delivers the reviews of webhooks. Without it, no webhook is called.
    pub fn set_admission(&self, admission: Arc<dyn Admission>) {
        self.plug().admission = Some(admission);
    }

    /// Refuses writes. Without it, all are allowed.
    pub fn set_policy(&self, policy: Policy) {
        self.plug().policy = Some(policy);
    }

    /// Answers SubjectAccessReviews. Without it, everything is allowed.
    pub fn set_access(&self, access: Access) {
        self.plug().access = Some(access);
    }

    /// Calls `observer` at each write, in order, before the write is answered. It must not call the
    /// API server.
    pub fn observe(&self, observer: Box<dyn Fn(&Change) + Send + Sync>) {
        self.store().observers.push(observer);
    }

    /// Returns the present object of this name. The namespace of a cluster-scoped object is empty.
    pub fn get(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.store()
            .get(resource(plural)?, namespace, name)
            .cloned()
    }

    /// Returns the present objects of a kind in the order of their names.
    pub fn list(&self, plural: &str, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let store = self.store();
        let objects = resource(plural).and_then(|resource| store.kind(resource));
        let within = |name: &str| namespace.is_none_or(|namespace| namespace == name);
        let objects = objects
            .into_iter()
            .flatten()
            .filter(|(name, _)| within(&name.0));
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.store().revision
    }

    /// Forgets the history: watches and pages from before are answered with 410 from now on.
    pub fn compact(&self) {
        let mut store = self.store();
        store.compacted = store.revision;
        store.history.clear();
        store.snapshots.clear();
    }

    /// Ends all watches, as a restart does.
    pub fn end_watches(&self) {
        self.store().watchers.clear();
    }

    /// Carries out one request. It waits for nothing but admission webhooks.
    pub async fn handle(&self, user: &User, request: Request<Bytes>) -> Response<Body> {
        let answer = self.answer(user, &request).await;
        match answer {
            Ok(answer) => answer,
            Err(failure) => respond(failure.code, json_of(&failure.status())),
        }
    }

    /// The version, with the time of the API server in the header `Date`.
    fn version(&self) -> Response<Body> {
        let mut answer = respond(200, json!({"major": "1"}).to_string().into());
        let date = (self.parts.settings.clock)()
            .format(&Rfc2822)
            .unwrap_or_default();
        let date = HeaderValue::from_str(&date.replace("+0000", "GMT"));
        if let Ok(date) = date {
            answer.headers_mut().insert("date", date);
        }
        answer
    }

    async fn answer(&self, user: &User, request: &Request<Bytes>) -> Answer<Response<Body>> {
        let path = request.uri().path();
        if path.ends_with("accessreviews") || path.ends_with("tokenreviews") {
            return self.review(path, request.body());
        }
        if path == "/version" {
            return Ok(self.version());
        }
        let route = Route::parse(request.uri()).ok_or_else(Failure::unknown)?;
        let metadata_only = header(request, "accept").contains("as=PartialObjectMetadata");
        let mut warnings = Vec::new();
        let (code, object) = match *request.method() {
            Method::GET if route.is_set("watch") => {
                return self.watch(&route, metadata_only);
            }
            Method::GET if route.name.is_empty() => {
                return self
                    .list_page(&route, metadata_only)
                    .map(|list| respond(200, list));
            }
            Method::GET => (200, self.read(&route)?),
            Method::POST => {
                let creation = Creation {
                    user,
                    route: &route,
                    warnings: &mut warnings,
                };
                (201, self.create(creation, parse(request.body())?).await?)
            }
            // Source: `AllowCreateOnUpdate` of `pkg/registry/coordination/lease/strategy.go`.
            Method::PUT if route.resource.kind == "Lease" && self.read(&route).is_err() => {
                let creation = Creation {
                    user,
                    route: &route,
                    warnings: &mut warnings,
                };
                let mut object = parse(request.body())?;
                object["metadata"]["resourceVersion"] = Value::Null;
                (201, self.create(creation, object).await?)
            }
            Method::PUT => (
                200,
                self.replace(user, &route, parse(request.body())?, &mut warnings)
                    .await?,
            ),
            Method::PATCH => {
                let patch = (header(request, "content-type"), &request.body()[..]);
                (200, self.patch(user, &route, patch, &mut warnings).await?)
            }
            Method::DELETE if !route.name.is_empty() => {
                let options = match request.body().is_empty() {
                    true => json!({}),
                    false => parse(request.body())?,
                };
                (
                    200,
                    self.delete(user, &route, &options, &mut warnings).await?,
                )
            }
            _ => return Err(Failure::method_not_allowed()),
        };
        let body = match metadata_only && object["kind"] != "Status" {
            true => json_of(&metadata_of(&object)),
            false => json_of(&object),
        };
        let mut response = respond(code, body);
        for warning in warnings {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
                response.headers_mut().append("warning", value);
            }
        }
        Ok(response)
    }

    /// Answers a review of the API: it is not stored.
    fn review(&self, path: &str, body: &[u8]) -> Answer<Response<Body>> {
        let mut review = parse(body)?;
        review["status"] = match path.ends_with("tokenreviews") {
            true => json!({"authenticated": false}),
            false => {
                let access = self.outside().access;
                json!({"allowed": access.is_none_or(|allowed| allowed(&review["spec"]))})
            }
        };
        Ok(respond(201, review.to_string().into()))
    }

    pub(crate) fn now(&self) -> String {
        let now = (self.parts.settings.clock)().replace_nanosecond(0);
        let text = now.ok().and_then(|now| now.format(&Rfc3339).ok());
        text.unwrap_or_default()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.parts
            .store
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outside(&self) -> Outside {
        self.plug().clone()
    }

    fn plug(&self) -> MutexGuard<'_, Outside> {
        self.parts
            .outside
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The object without anything but its metadata.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// The JSON of a value. `Value::to_string` takes longer.
pub(crate) fn json_of(value: &Value) -> Bytes {
    // A `Value` has only texts as keys, so this cannot fail.
    serde_json::to_vec(value).unwrap_or_default().into()
}

pub(crate) fn parse(body: &[u8]) -> Answer<Value> {
    let parsed = serde_json::from_slice(body);
    parsed.map_err(|error| {
        Failure::bad_request(format!("the object provided is unrecognized: {error}"))
    })
}

fn header<'a>(request: &'a Request<Bytes>, name: &str) -> &'a str {
    request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn respond(code: u16, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(body)));
    // The codes in this crate are all valid.
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or_default();
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    response
}
