//! Sends one write to the API server.

use kube::Client;
use serde::{Deserialize, de::IgnoredAny};

/// The answer to a write: the object, or the `Status` of a deletion. Nothing of it is read: a user
/// can write a time that cannot be represented into an object, and an accepted write would look
/// like one that failed.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "metadata")]
    _metadata: IgnoredAny,
}

/// Sends the write.
///
/// # Errors
/// When the API server refuses it, or does not answer that it is done.
pub(super) async fn send(client: &Client, request: http::Request<Vec<u8>>) -> kube::Result<()> {
    client.request::<Written>(request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::answering;
    use serde_json::{Value, json};

    async fn sent(code: u16, answer: Value) -> kube::Result<()> {
        let client = answering(move |_, _| (code, answer.clone()));
        let request = http::Request::delete("/").body(Vec::new());
        send(&client, request.expect("a request")).await
    }

    /// A user can write such an entry into an object.
    #[tokio::test]
    async fn a_write_is_done_whatever_the_object_contains() {
        let entry = json!({"manager": "a", "time": "9999-12-31T23:59:59Z"});
        let object = json!({"metadata": {"name": "a", "managedFields": [entry]}});
        assert!(sent(200, object).await.is_ok());
        let deleted = json!({"kind": "Status", "metadata": {}, "status": "Success"});
        assert!(sent(200, deleted).await.is_ok());
        assert!(sent(200, json!({})).await.is_err());
        let refused = json!({"kind": "Status", "metadata": {}, "status": "Failure", "code": 409});
        assert!(sent(409, refused).await.is_err());
    }
}
