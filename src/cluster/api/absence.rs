//! Detects that an object does not exist, by the API server's answer.

/// Returns whether the API server itself reports that the object does not exist.
///
/// A 404 alone does not prove it: a proxy, or a load balancer without backends, answers "404 page
/// not found" for objects that exist. Only the API server sends the reason `NotFound` in a
/// `Status`. kube's `is_not_found`, `get_opt` and `get_metadata_opt` accept any 404 whose reason
/// they do not know.
pub fn is_absent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 && status.reason == "NotFound")
}

/// Returns the object that was read; `None` if the API server reports that it does not exist.
///
/// # Errors
/// When the object could not be read. The caller must not conclude that it does not exist.
pub fn existing<T>(read: kube::Result<T>) -> kube::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::test_server::answering;
    use kube::Api;

    /// Returns how kube's client interprets a 404 with this body.
    async fn answered(body: &'static str) -> kube::Result<Option<()>> {
        let client = answering(move |_, _| (404, body));
        let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::default_namespaced(client);
        existing(secrets.get("one").await.map(drop))
    }

    #[tokio::test]
    async fn only_the_api_server_can_say_that_an_object_does_not_exist() {
        let status = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound", "message": "m"}"#;
        assert!(matches!(answered(status).await, Ok(None)));
        let unexplained = r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "", "message": "m"}"#;
        for other in [
            unexplained,
            "404 page not found",
            "<html>404</html>",
            "{}",
            "",
        ] {
            assert!(answered(other).await.is_err(), "{other}");
        }
    }
}
