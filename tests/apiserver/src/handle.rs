//! Selects the operation that answers a request.

use crate::{
    body::Body,
    create::Creation,
    json::{json_of, metadata_of, parse},
    route::Route,
    server::{ApiServer, User},
    status::{Answer, Failure},
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use time::format_description::well_known::Rfc2822;

impl ApiServer {
    /// Carries out one request. It waits only for admission webhooks.
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
                let options = if request.body().is_empty() {
                    json!({})
                } else {
                    parse(request.body())?
                };
                (
                    200,
                    self.delete(user, &route, &options, &mut warnings).await?,
                )
            }
            _ => return Err(Failure::method_not_allowed()),
        };
        let body = if metadata_only && object["kind"] != "Status" {
            json_of(&metadata_of(&object))
        } else {
            json_of(&object)
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
        review["status"] = if path.ends_with("tokenreviews") {
            json!({"authenticated": false})
        } else {
            json!({"allowed": true})
        };
        Ok(respond(201, review.to_string().into()))
    }
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
