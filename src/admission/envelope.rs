//! Decodes the `AdmissionReview` that carries a request, and encodes the one that carries the
//! answer.
//!
//! This module defines its own types because those of kube buffer the whole body to flatten it,
//! parse every object in advance, and write a patch as an array of numbers instead of base64.

use super::{answer::Answer, request::Request};
use crate::plain::Plain;
use json_patch::Patch;
use k8s_openapi::ByteString;
use serde::{Deserialize, Serialize};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// Returns the request of an `AdmissionReview`.
///
/// # Errors
/// One sentence about what is wrong with the body. The caller answers with HTTP 400, because
/// without a uid there is no review that it could answer.
pub fn decode(body: &[u8]) -> Result<Request, String> {
    let review: ReviewRequest = serde_json::from_slice(body)
        .map_err(|error| format!("the body is not an AdmissionReview: {error}"))?;
    if review.api_version != API_VERSION || review.kind != KIND {
        return Err(format!(
            "expected {API_VERSION} {KIND}, got {} {}",
            review.api_version, review.kind
        ));
    }
    let request = review.request.ok_or("the AdmissionReview has no request")?;
    if request.uid.is_empty() {
        return Err("the AdmissionReview's request has no uid".to_owned());
    }
    Ok(request)
}

/// Encodes the `AdmissionReview` that carries `answer`. In a dry run, the review allows the
/// request, and a warning describes the denial or patch.
pub fn encode(uid: &str, answer: Answer, dry_run: bool) -> Vec<u8> {
    let answer = if dry_run { described(answer) } else { answer };
    let review = ReviewResponse {
        api_version: API_VERSION,
        kind: KIND,
        response: response(uid, answer),
    };
    // The review contains only strings and numbers, so encoding it as JSON cannot fail.
    serde_json::to_vec(&review).unwrap_or_default()
}

/// What a dry run answers instead: the review allows the request, and a warning describes the
/// answer.
fn described(answer: Answer) -> Answer {
    let warning = match &answer {
        Answer::Deny { message, .. } => {
            format!("volume-warden (dry run) would refuse this: {message}")
        }
        Answer::Patch { what, .. } => format!("volume-warden (dry run) would {what}"),
        Answer::Allow | Answer::Warn(_) => return answer,
    };
    Answer::Warn(vec![warning])
}

fn response(uid: &str, answer: Answer) -> Response<'_> {
    let mut response = Response {
        uid,
        allowed: true,
        status: None,
        patch_type: None,
        patch: None,
        warnings: Vec::new(),
    };
    match answer {
        Answer::Allow => {}
        Answer::Warn(sentences) => response.warnings = sentences,
        Answer::Deny { code, message } => {
            response.allowed = false;
            let message = Plain(message).to_string();
            response.status = Some(Status { code, message });
        }
        Answer::Patch {
            operations,
            warnings,
            ..
        } => {
            response.warnings = warnings;
            response.patch_type = Some("JSONPatch");
            response.patch = serde_json::to_vec(&Patch(operations)).ok().map(ByteString);
        }
    }
    // Control characters are escaped, because the API server drops a warning that contains one.
    for warning in &mut response.warnings {
        *warning = Plain(&warning).to_string();
    }
    response
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewRequest {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<Request>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<ByteString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status {
    code: u16,
    message: String,
}
