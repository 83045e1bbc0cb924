//! Bounds the memory for the pages of LISTs.
//!
//! A page has hundreds of objects. A user who may create pods may create some of more than a
//! megabyte each, and kube reads a whole page before it parses the objects.

use crate::hashing::HashMap;
use futures::stream;
use http::{Request, Response, Uri, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::{Client, Error, client::Body, core::request::Error as BuildError};
use parking_lot::Mutex;
use std::sync::Arc;

/// Maximum size of a page in bytes, unless it is one object. 500 pods of 32 KB fit.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Divisor of the limit after a page that was too large.
const STEP: u32 = 8;

/// The limits of the LISTs that had a page that was too large, by path.
type Limits = Arc<Mutex<HashMap<String, u32>>>;
type Page = Response<Either<Body, StreamBody<stream::Iter<std::vec::IntoIter<Part>>>>>;
type Part = Result<Frame<Bytes>, Error>;

/// Returns a client that requests fewer objects if a page of a LIST has more than [`MAX_BYTES`].
/// The next pages of the LIST have the smaller limit from the beginning. It doubles with each page
/// that leaves half of the bytes unused: a few large objects of one user must not make a LIST of
/// the whole cluster slow.
pub(super) fn bounded(client: &Client) -> Client {
    bounded_by(client, MAX_BYTES)
}

fn bounded_by(client: &Client, most: usize) -> Client {
    let (inner, limits) = (client.clone(), Limits::default());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, limits) = (inner.clone(), limits.clone());
        async move {
            match limit(request.uri()) {
                Some(limit) => page(&inner, request, limit, most, &limits).await,
                None => Ok(inner.send(request).await?.map(Either::Left)),
            }
        }
    });
    Client::new(service, client.default_namespace())
}

async fn page(
    client: &Client,
    request: Request<Body>,
    requested: u32,
    most: usize,
    limits: &Limits,
) -> Result<Page, Error> {
    let (mut head, _) = request.into_parts();
    let path = head.uri.path().to_owned();
    let mut limit = requested;
    if is_continued(&head.uri) {
        limit = limits
            .lock()
            .get(&path)
            .map_or(requested, |less| requested.min(*less))
    } else {
        limits.lock().remove(&path);
    }
    loop {
        head.uri = with_limit(&head.uri, limit)?;
        let answer = client
            .send(Request::from_parts(head.clone(), Body::empty()))
            .await?;
        // One object has any size.
        let most_bytes = if limit <= 1 { usize::MAX } else { most };
        if let Some((page, size)) = read(answer, most_bytes).await? {
            if limit < requested && size <= most / 2 {
                limits.lock().insert(path, limit * 2);
            }
            return Ok(page);
        }
        limit = (limit / STEP).max(1);
        limits.lock().insert(path.clone(), limit);
        tracing::debug!(path, limit, "a page of a list was too large");
    }
}

/// Reads the answer, and returns it with its size in bytes; none if it has more than `most`.
async fn read(answer: Response<Body>, most: usize) -> Result<Option<(Page, usize)>, Error> {
    let (head, mut body) = answer.into_parts();
    let (mut parts, mut size) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await.transpose()? {
        size += frame.data_ref().map_or(0, Bytes::len);
        if size > most {
            return Ok(None);
        }
        parts.push(Ok(frame));
    }
    let body = StreamBody::new(stream::iter(parts));
    Ok(Some((
        Response::from_parts(head, Either::Right(body)),
        size,
    )))
}

/// Returns the limit of a LIST; none if the request has no limit.
fn limit(uri: &Uri) -> Option<u32> {
    let mut pairs = uri.query()?.split('&');
    pairs
        .find_map(|pair| pair.strip_prefix("limit="))?
        .parse()
        .ok()
}

fn is_continued(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|pair| pair.starts_with("continue="))
}

fn with_limit(uri: &Uri, limit: u32) -> Result<Uri, Error> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let pairs = pairs.map(|pair| {
        if pair.starts_with("limit=") {
            format!("limit={limit}")
        } else {
            pair.to_owned()
        }
    });
    let query = pairs.collect::<Vec<_>>().join("&");
    let mut parts = uri.clone().into_parts();
    let failed = |error: http::Error| Error::BuildRequest(BuildError::BuildRequest(error));
    let whole = PathAndQuery::try_from(format!("{}?{query}", uri.path()));
    parts.path_and_query = Some(whole.map_err(|error| failed(error.into()))?);
    Uri::from_parts(parts).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::answering;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::{Api, ResourceExt, api::ListParams};
    use serde_json::json;

    /// The number of objects of the API server.
    const COUNT: usize = 40;
    /// The size of each, about.
    const SIZE: usize = 1000;

    type Requests = Arc<Mutex<Vec<(u32, usize)>>>;

    /// An API server whose continue tokens are the numbers of the next objects, and the limits and
    /// tokens of its requests.
    fn server() -> (Client, Requests) {
        server_with(|_| SIZE)
    }

    /// The same with objects of these sizes.
    fn server_with(size: fn(usize) -> usize) -> (Client, Requests) {
        let requested = Requests::default();
        let seen = requested.clone();
        let client = answering(move |head, _| {
            let uri = &head.uri;
            let mut pairs = uri.query().unwrap_or_default().split('&');
            let from = pairs.find_map(|pair| pair.strip_prefix("continue="));
            let from: usize = from.map_or(0, |from| from.parse().expect("a number"));
            let limit = limit(uri).expect("a limit");
            seen.lock().push((limit, from));
            let to = COUNT.min(from + usize::try_from(limit).expect("a number"));
            let object = |number| json!({"metadata": {"name": format!("n{number}")}, "data": {"a": "x".repeat(size(number))}});
            let items: Vec<_> = (from..to).map(object).collect();
            let next = (to < COUNT).then(|| to.to_string());
            (200, json!({"metadata": {"continue": next}, "items": items}))
        });
        (client, requested)
    }

    /// Lists all objects in pages of 16, with at most this number of bytes in each answer. Returns
    /// the limits and tokens of the requests.
    async fn list(client: &Client, requested: &Requests) -> Vec<(u32, usize)> {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
        let (mut params, mut names) = (ListParams::default().limit(16), Vec::new());
        loop {
            let page = api.list(&params).await.expect("a page");
            names.extend(page.items.iter().map(ResourceExt::name_any));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        let all: Vec<_> = (0..COUNT).map(|number| format!("n{number}")).collect();
        assert_eq!(names, all);
        std::mem::take(&mut *requested.lock())
    }

    #[tokio::test]
    async fn a_page_that_is_too_large_is_requested_with_fewer_objects() {
        let (server, requested) = server();
        let plain = bounded_by(&server, 17 * SIZE + 2000);
        let pages = list(&plain, &requested).await;
        assert_eq!(pages, [(16, 0), (16, 16), (16, 32)]);
        let bounded = bounded_by(&server, 4 * SIZE);
        for _ in 0..2 {
            let pages = list(&bounded, &requested).await;
            assert_eq!(pages[..3], [(16, 0), (2, 0), (2, 2)], "{pages:?}");
            assert_eq!(
                pages.len(),
                1 + COUNT / 2,
                "each page but the first has the new limit"
            );
        }
    }

    /// Those that follow in the same LIST may belong to others.
    #[tokio::test]
    async fn a_few_large_objects_do_not_slow_the_rest_of_a_list() {
        let (server, requested) = server_with(|number| if number < 2 { 60 * SIZE } else { SIZE });
        let pages = list(&bounded_by(&server, 40 * SIZE), &requested).await;
        assert_eq!(
            pages,
            [
                (16, 0),
                (2, 0),
                (1, 0),
                (1, 1),
                (1, 2),
                (2, 3),
                (4, 5),
                (8, 9),
                (16, 17),
                (16, 33)
            ]
        );
    }

    #[tokio::test]
    async fn one_object_may_have_any_size() {
        let (server, requested) = server();
        let pages = list(&bounded_by(&server, SIZE / 2), &requested).await;
        assert_eq!(pages[..4], [(16, 0), (2, 0), (1, 0), (1, 1)]);
    }
}
