//! Reads response bodies of the StorageOS API up to a limit.

use crate::backend::Failure;
use reqwest::Response;
use serde::Deserialize;

/// Maximum size of the list of namespaces, in bytes. A list of 2,000 namespaces has a tenth of it.
pub(super) const LIST: usize = 4 << 20;
/// Maximum size of any other response body, in bytes.
pub(super) const SMALL: usize = 64 << 10;

/// Reads the whole body of a response.
///
/// # Errors
/// When the body is longer than `limit`, or the connection breaks before its end.
pub(super) async fn whole(response: Response, limit: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    match fill(response, limit, &mut body).await {
        Ok(true) => Ok(body),
        Ok(false) => Err(Failure::server(format!(
            "the answer is longer than {limit} bytes"
        ))),
        Err(error) => Err(super::wire::failure(error)),
    }
}

/// Returns the error message in a response: the API's message if the body has one, else the
/// beginning of the body, or a fixed sentence if the body is empty. If the connection breaks or
/// times out, only the part of the body that has arrived counts.
pub(super) async fn error_message(response: Response) -> String {
    let mut body = Vec::new();
    let _ = fill(response, SMALL, &mut body).await;
    if let Ok(error) = serde_json::from_slice::<Error>(&body) {
        return error.error;
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    if text.trim().is_empty() {
        return "the response has no message".to_owned();
    }
    text
}

/// Reads the body up to `limit` bytes and returns whether that is all of it.
async fn fill(
    mut response: Response,
    limit: usize,
    body: &mut Vec<u8>,
) -> Result<bool, reqwest::Error> {
    while let Some(chunk) = response.chunk().await? {
        let room = limit - body.len();
        body.extend(chunk.iter().take(room));
        if chunk.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}

#[derive(Deserialize)]
struct Error {
    error: String,
}
