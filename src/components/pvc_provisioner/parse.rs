//! Parses a pod's annotations into claim requests, and into notices about invalid annotations.

use super::{ClaimRequest, Notice, template::Template};
use crate::objects::{ClaimRequests, claim_requests::RequestingVolume};

const ENABLED: &str = "enabled";
const TEMPLATE: &str = "pvc";

/// The valid claim requests of the pod, in the order of its volumes, and notices about the invalid
/// requests.
pub fn parse_claim_requests(claim_requests: &ClaimRequests) -> (Vec<ClaimRequest>, Vec<Notice>) {
    let mut notices = invalid_annotations(claim_requests);
    let mut claims = Vec::new();
    for requesting in &claim_requests.volumes {
        match claim_request(claim_requests, requesting) {
            Ok(Some(claim_request)) => claims.push(claim_request),
            Ok(None) => {}
            Err(notice) => notices.push(notice),
        }
    }
    (claims, notices)
}

/// The volume for which the pod requests the claim with this name, and the unparsed template. None
/// if the pod does not request the claim, or has no template for it.
pub fn request_for<'a>(
    claim_requests: &'a ClaimRequests,
    claim: &str,
) -> Option<(&'a str, &'a str)> {
    let mut volumes = claim_requests.volumes.iter();
    let requesting = volumes.find(|requesting| {
        requesting.claim.as_deref() == Some(claim)
            && enabled(claim_requests, &requesting.volume) == Some(true)
    })?;
    Some((
        &requesting.volume,
        claim_requests.get(&requesting.volume, TEMPLATE)?,
    ))
}

fn claim_request(
    claim_requests: &ClaimRequests,
    requesting: &RequestingVolume,
) -> Result<Option<ClaimRequest>, Notice> {
    let volume = &*requesting.volume;
    if enabled(claim_requests, volume) != Some(true) {
        return Ok(None);
    }
    let claim = requesting
        .claim
        .clone()
        .ok_or_else(|| Notice::not_a_claim(volume))?;
    let text = claim_requests
        .get(volume, TEMPLATE)
        .ok_or_else(|| Notice::missing_template(volume))?;
    let template =
        Template::parse(text).map_err(|error| Notice::invalid_template(volume, &error))?;
    Ok(Some(ClaimRequest {
        volume: volume.into(),
        claim,
        template,
    }))
}

/// Notices about annotations that match no volume of the pod, or that are invalid.
fn invalid_annotations(claim_requests: &ClaimRequests) -> Vec<Notice> {
    let annotations = claim_requests.annotations.iter();
    annotations
        .filter_map(|(key, value)| match key.rsplit_once('.') {
            Some((volume, ENABLED)) => match boolean(value) {
                None => Some(Notice::not_a_boolean(volume, value)),
                Some(true) if !has(claim_requests, volume) => Some(Notice::missing_volume(volume)),
                Some(_) => None,
            },
            // A template without `.enabled` is prepared for later use and has no effect.
            Some((volume, TEMPLATE)) if !volume.is_empty() => None,
            _ => Some(Notice::unknown_key(key)),
        })
        .collect()
}

fn has(claim_requests: &ClaimRequests, volume: &str) -> bool {
    let mut volumes = claim_requests.volumes.iter();
    volumes.any(|requesting| &*requesting.volume == volume)
}

fn enabled(claim_requests: &ClaimRequests, volume: &str) -> Option<bool> {
    claim_requests.get(volume, ENABLED).and_then(boolean)
}

/// Parses like Go's `strconv.ParseBool`: manifests for plumber-cd's provisioner rely on it.
fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
