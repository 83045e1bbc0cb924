//! Parses a pod's annotations into claim requests, and into notices about invalid annotations.

use super::{ClaimRequest, Notice, TemplatePolicy, template::Template};
use crate::objects::{
    ClaimRequests,
    claim_requests::{MAX_CLAIMS, RequestingVolume, Setting},
};
use std::sync::Arc;
use tokio::task::yield_now;

/// Maximum number of notices about a pod's unknown keys, values that are not booleans, and missing
/// volumes. One more notice counts the rest: a pod may have thousands of annotations, and each
/// notice becomes an Event. Notices about templates are not limited by this.
const MAX_NOTICES: usize = 8;

/// The valid claim requests of the pod, in the order of its volumes, and notices about invalid
/// annotations and templates.
pub fn parse_claim_requests(
    claim_requests: &ClaimRequests,
    policy: &TemplatePolicy,
) -> (Vec<ClaimRequest>, Vec<Notice>) {
    separated(claim_requests, each_claim_request(claim_requests, policy))
}

/// Parses as [`parse_claim_requests`] does, and lets other tasks run between two templates.
pub async fn parse_with_yields(
    claim_requests: &ClaimRequests,
    policy: &TemplatePolicy,
) -> (Vec<ClaimRequest>, Vec<Notice>) {
    let mut parsed = Vec::new();
    for each in each_claim_request(claim_requests, policy) {
        parsed.push(each);
        yield_now().await;
    }
    separated(claim_requests, parsed)
}

/// Separates the valid requests from the notices about all others, and adds those about invalid
/// annotations.
fn separated(
    claim_requests: &ClaimRequests,
    parsed: impl IntoIterator<Item = Result<ClaimRequest, Notice>>,
) -> (Vec<ClaimRequest>, Vec<Notice>) {
    let mut notices = invalid_annotations(claim_requests);
    let mut claims = Vec::new();
    for each in parsed {
        match each {
            Ok(claim_request) => claims.push(claim_request),
            Err(notice) => notices.push(notice),
        }
    }
    (claims, notices)
}

/// The claim requests of the pod, each parsed only when the iterator reaches it: the most expensive
/// template takes almost a millisecond. A claim that several volumes name is requested once.
fn each_claim_request(
    claim_requests: &ClaimRequests,
    policy: &TemplatePolicy,
) -> impl Iterator<Item = Result<ClaimRequest, Notice>> {
    let volumes = claim_requests.volumes.iter();
    volumes
        .filter_map(move |requesting| claim_request(claim_requests, requesting, policy).transpose())
}

/// The first volume for which the pod requests the claim with this name with a template, and the
/// unparsed template. None if the pod does not request the claim, or has no template for it.
pub fn request_for<'a>(
    claim_requests: &'a ClaimRequests,
    claim: &str,
) -> Option<(&'a str, &'a str)> {
    let volumes = claim_requests.volumes.iter();
    let mut volumes = volumes.filter(|requesting| requesting.claim.as_deref() == Ok(claim));
    volumes.find_map(|requesting| {
        let template = claim_requests.template(&requesting.volume)?;
        Some((&*requesting.volume, template))
    })
}

/// The request for the volume's claim; none if an earlier volume requests the same claim with the
/// same template.
fn claim_request(
    claim_requests: &ClaimRequests,
    requesting: &RequestingVolume,
    policy: &TemplatePolicy,
) -> Result<Option<ClaimRequest>, Notice> {
    let volume = &*requesting.volume;
    let claim = requesting.claim.clone();
    let claim = claim.map_err(|no_claim| Notice::no_claim(volume, no_claim))?;
    let text = claim_requests.template(volume);
    let text = text.ok_or_else(|| Notice::missing_template(volume))?;
    match request_for(claim_requests, &claim) {
        Some((first, _)) if first == volume => {}
        Some((_, same)) if same == text => return Ok(None),
        Some((first, _)) => return Err(Notice::other_template(volume, &claim, first)),
        None => {}
    }
    let template =
        Template::parse(text).map_err(|error| Notice::invalid_template(volume, &error))?;
    policy
        .check(&template)
        .map_err(|refusal| Notice::invalid_template(volume, &refusal))?;
    Ok(Some(ClaimRequest {
        volume: volume.into(),
        claim,
        template: Arc::new(template),
    }))
}

/// Notices about unknown keys, values that are not booleans, and volumes that the pod does not
/// have. If the pod requests too many claims, the only notice is about that. Templates are not
/// checked here.
fn invalid_annotations(claim_requests: &ClaimRequests) -> Vec<Notice> {
    if claim_requests.requested > MAX_CLAIMS {
        return vec![Notice::too_many_claims(claim_requests.requested)];
    }
    let annotations = claim_requests.annotations.iter();
    let mut invalid = annotations.filter_map(|(key, value)| invalid(claim_requests, key, value));
    let mut notices: Vec<_> = invalid.by_ref().take(MAX_NOTICES).collect();
    match invalid.count() {
        0 => {}
        more => notices.push(Notice::more_annotations(more)),
    }
    notices
}

fn invalid(claim_requests: &ClaimRequests, key: &str, value: &str) -> Option<Notice> {
    match Setting::read(key, value) {
        Setting::Enabled(volume, None) => Some(Notice::not_a_boolean(volume, value)),
        Setting::Enabled(volume, Some(true)) => {
            let mut volumes = claim_requests.volumes.iter();
            let exists = volumes.any(|requesting| &*requesting.volume == volume);
            (!exists).then(|| Notice::missing_volume(volume))
        }
        // A template without `.enabled` is prepared for later use and has no effect.
        Setting::Enabled(_, Some(false)) | Setting::Template => None,
        Setting::Unknown => Some(Notice::unknown_key(key)),
    }
}
