//! Reviews that are sent a second time, with the object as the first answer patched it.

use crate::{
    admission::{self, Endpoint},
    checks::{Repeated, is_allowed, patched},
    cluster::Cluster,
};
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use volume_warden_apiserver_model::WebhookCall;

/// On average, one of this number of reviews is repeated.
const ONE_IN: u64 = 8;

/// Sends the review again, if `chance` selects it and the first answer allows the request. The API
/// server does that with `reinvocationPolicy: IfNeeded`. Users cause the same when they create a
/// stored object again elsewhere. The request does not wait for the second review.
pub fn repeat(
    cluster: &Arc<Cluster>,
    endpoint: &Endpoint,
    uri: &str,
    call: &WebhookCall<'_>,
    first_began: u64,
    (chance, answer): (u64, &Value),
) {
    if !chance.is_multiple_of(ONE_IN) || !is_allowed(answer) {
        return;
    }
    let mut review = call.review.clone();
    let original = review["request"]["object"].take();
    let result = patched(&original, answer);
    review["request"]["object"] = result.unwrap_or_else(|| original.clone());
    review["request"]["uid"] = format!("again-{chance}").into();
    let (cluster, endpoint) = (cluster.clone(), endpoint.clone());
    let (uri, webhook, timeout) = (uri.to_owned(), call.webhook.to_owned(), call.timeout);
    tokio::spawn(async move {
        let repeated = Repeated {
            first_began,
            began: cluster.schedule.now(),
            original,
        };
        let body = Bytes::from(serde_json::to_vec(&review).unwrap_or_default());
        let answer = admission::review(&endpoint.router, &uri, body).await;
        let Some(answer) = answer.ok().filter(|_| !endpoint.connection.is_cut()) else {
            return;
        };
        let call = WebhookCall {
            configuration: "",
            webhook: &webhook,
            client_config: &Value::Null,
            timeout,
            review: &review,
        };
        cluster
            .trace
            .add_line(cluster.schedule.now(), || format!("    {webhook} again"));
        cluster
            .checks
            .repeated(cluster.schedule.now(), &repeated, &call, &answer);
    });
}
