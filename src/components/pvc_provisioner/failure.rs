//! What the error of a request to create a claim means, and its text for users.

use crate::cluster::for_users;

/// Maximum length in bytes of a message of the API server that a notice quotes.
const CAUSE_LIMIT: usize = 500;

/// Whether the API server refused the claim because of its content (400 or 422), so that it would
/// refuse the same template again.
pub fn is_the_templates_fault(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 422))
}

/// Truncates a text that is longer than `limit` bytes, and marks that.
pub fn shortened(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit - '…'.len_utf8()));
        text.push('…');
    }
    text
}

/// The message of the API server as the cause of the failure. It quotes values of the template, so
/// it is bounded. Errors of other origin, such as those of the network or of a proxy, are not shown
/// to users.
pub fn cause(error: &kube::Error) -> String {
    let message = match error {
        kube::Error::Api(status) => for_users(status),
        _ => None,
    };
    match message {
        Some(message) => shortened(message, CAUSE_LIMIT),
        None => "the API server did not answer".to_owned(),
    }
}
