//! One page of a LIST, in protobuf if the kind has a decoder.
//!
//! kube requests and parses JSON only.

use crate::{
    cluster::api::UNREADABLE_ANSWER,
    objects::{
        Tracked,
        protobuf::{self, MEDIA_TYPE, Page},
    },
};
use http::{
    HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use kube::{
    Api, Error, Resource,
    api::{ListParams, ObjectList, Request},
    client::Body,
    core::Status,
};
use prost::bytes::Bytes;
use serde::de::DeserializeOwned;

/// The API server answers in the first encoding that it has for the kind.
const ENCODINGS: HeaderValue =
    HeaderValue::from_static("application/vnd.kubernetes.protobuf, application/json");

/// Reads one page of a LIST: the whole list if `params` has no limit.
///
/// # Errors
/// When the page could not be read. If it cannot be decoded from protobuf, it is requested again as
/// JSON: a text in an object need not be UTF-8 there, and is always valid in JSON.
pub async fn read_page<T: Tracked>(
    api: &Api<T::Wire>,
    params: &ListParams,
) -> kube::Result<Page<T::Wire>> {
    let Some(decode) = T::DECODER else {
        return Ok(page(api.list(params).await?));
    };
    let (is_protobuf, body) = request(api, params).await?;
    if !is_protobuf {
        return parse(&body);
    }
    match decode(&body) {
        Ok(page) => Ok(page),
        Err(error) => {
            tracing::debug!(kind = T::KIND.plural(), %error, "cannot decode a protobuf LIST; requesting it as JSON");
            Ok(page(api.list(params).await?))
        }
    }
}

/// Requests a page in protobuf, and returns whether it came in it.
async fn request<K: Clone + Resource>(
    api: &Api<K>,
    params: &ListParams,
) -> kube::Result<(bool, Bytes)> {
    let request = Request::new(api.resource_url()).list(params);
    let mut request = request.map_err(Error::BuildRequest)?.map(Body::from);
    request.headers_mut().insert(ACCEPT, ENCODINGS);
    let answer = api.clone().into_client().send(request).await?;
    let media_type = answer.headers().get(CONTENT_TYPE);
    let is_protobuf = media_type.is_some_and(|media_type| media_type == MEDIA_TYPE);
    let code = answer.status();
    let body = answer.into_body().collect().await;
    let body = body
        .map_err(|error| Error::Service(error.into()))?
        .to_bytes();
    if code.is_success() {
        Ok((is_protobuf, body))
    } else {
        Err(Error::Api(Box::new(failure(code, is_protobuf, &body))))
    }
}

/// Returns the status of a failed request. If the API server did not write the answer, it has the
/// reason that kube gives it.
fn failure(code: StatusCode, is_protobuf: bool, body: &Bytes) -> Status {
    let status = if is_protobuf {
        protobuf::status(body).ok()
    } else {
        serde_json::from_slice(body).ok()
    };
    status.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(body);
        Status::failure(text.trim(), UNREADABLE_ANSWER).with_code(code.as_u16())
    })
}

fn parse<K: Clone + DeserializeOwned>(body: &Bytes) -> kube::Result<Page<K>> {
    let list = serde_json::from_slice(body);
    list.map(page).map_err(Error::SerdeError)
}

fn page<K: Clone>(list: ObjectList<K>) -> Page<K> {
    let next = list.metadata.continue_.filter(|token| !token.is_empty());
    Page {
        items: list.items,
        next,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Pod;
    use kube::Client;
    use parking_lot::Mutex;
    use std::sync::Arc;

    const JSON: &str = "application/json";
    const EMPTY: &str = r#"{"metadata": {"resourceVersion": "7"}, "items": []}"#;

    type Answer = (u16, &'static str, Bytes);

    /// Reads a page from an API server that gives these answers, and returns the requested
    /// encodings, too.
    async fn read_from(
        answers: impl IntoIterator<Item = Answer>,
    ) -> (kube::Result<usize>, Vec<bool>) {
        let answers = Mutex::new(answers.into_iter().collect::<Vec<_>>().into_iter());
        let (answers, requests) = (Arc::new(answers), Arc::new(Mutex::new(Vec::new())));
        let recorded = requests.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let accepts = request.headers().get(ACCEPT);
            let in_protobuf = accepts.is_some_and(|types| *types == ENCODINGS);
            recorded.lock().push(in_protobuf);
            let next = answers.lock().next();
            async move {
                let (code, media_type, body) = next.expect("no other request");
                let answer = http::Response::builder().status(code);
                let answer = answer.header(CONTENT_TYPE, media_type);
                Ok::<_, std::io::Error>(answer.body(Body::from(body.to_vec())).expect("a response"))
            }
        });
        let api = Api::namespaced(Client::new(service, "ns"), "ns");
        let read = read_page::<Pod>(&api, &ListParams::default()).await;
        let requests = std::mem::take(&mut *requests.lock());
        (read.map(|page| page.items.len()), requests)
    }

    #[tokio::test]
    async fn a_page_that_cannot_be_decoded_is_requested_as_json() {
        let garbled = (200, MEDIA_TYPE, Bytes::from_static(b"k8s\0garbled"));
        let (read, requests) = read_from([garbled, (200, JSON, EMPTY.into())]).await;
        assert_eq!((read.ok(), requests), (Some(0), vec![true, false]));
    }

    #[tokio::test]
    async fn an_api_server_may_answer_in_json() {
        let (read, requests) = read_from([(200, JSON, EMPTY.into())]).await;
        assert_eq!((read.ok(), requests), (Some(0), vec![true]));
        for body in ["", "{}", "[]", EMPTY.trim_end_matches('}')] {
            let (read, _) = read_from([(200, JSON, body.into())]).await;
            assert!(read.is_err(), "{body}");
        }
    }

    #[tokio::test]
    async fn an_error_has_the_reason_of_the_api_server_only() {
        let json = r#"{"kind": "Status", "status": "Failure", "message": "no", "reason": "Forbidden", "code": 403}"#;
        for (answer, code, reason) in [
            (
                (
                    403,
                    MEDIA_TYPE,
                    protobuf::wrapped_status("no", "Forbidden", 403),
                ),
                403,
                "Forbidden",
            ),
            ((403, JSON, json.into()), 403, "Forbidden"),
            (
                (404, MEDIA_TYPE, "no".into()),
                404,
                "Failed to parse error data",
            ),
            (
                (404, "text/html", "no".into()),
                404,
                "Failed to parse error data",
            ),
        ] {
            let (read, requests) = read_from([answer.clone()]).await;
            let Err(Error::Api(status)) = read else {
                panic!("{answer:?}: {read:?}");
            };
            let expected = (code, reason, "no");
            assert_eq!((status.code, &*status.reason, &*status.message), expected);
            assert_eq!(requests, [true], "no second request");
        }
    }
}
