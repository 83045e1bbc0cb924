//! Bodies, of which only so much is ever kept.

use crate::backend::Failure;
use reqwest::Response;
use serde::Deserialize;

/// For a list. Two thousand namespaces have a tenth of that.
pub(super) const LIST: usize = 4 << 20;
/// For everything else.
pub(super) const SMALL: usize = 64 << 10;

/// All of it.
///
/// # Errors
/// When it is longer than `limit`, or does not come to its end.
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

/// What an error says: the message of the API if it is one, else how the text begins. What is late
/// or broken says less.
pub(super) async fn words(response: Response) -> String {
    let mut body = Vec::new();
    let _ = fill(response, SMALL, &mut body).await;
    if let Ok(error) = serde_json::from_slice::<Error>(&body) {
        return error.error;
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    if text.trim().is_empty() {
        return "it says nothing about it".to_owned();
    }
    text
}

/// Whether all of it fits.
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
