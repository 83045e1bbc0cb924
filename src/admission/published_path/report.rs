//! Reports webhooks whose configuration has another path, or a failurePolicy that shows the secret
//! path to users.

use super::publish::{Carried, carried};
use crate::{
    admission::{PathSecret, SecretPaths},
    cluster::{StoredConfiguration, Webhook},
    telemetry::CertificateMetrics,
};
use std::collections::BTreeSet;

/// The webhooks that were reported last, by their name and configuration.
#[derive(Default)]
pub(super) struct Reported {
    foreign: BTreeSet<String>,
    fail_closed: BTreeSet<String>,
}

impl Reported {
    /// Reports the webhooks whose path is not Volume Warden's, and those with the failurePolicy
    /// Fail. A webhook is logged once for as long as that remains true.
    pub(super) fn report(
        &mut self,
        found: &[StoredConfiguration],
        current: &PathSecret,
        metrics: &CertificateMetrics,
    ) {
        let foreign = named(found, |each| carried(each, current) == Carried::Foreign);
        for webhook in foreign.difference(&self.foreign) {
            tracing::warn!(
                webhook,
                "the path of this webhook is not Volume Warden's, so the path is left unchanged and \
                 reviews are answered with 404; remove clientConfig.service.path, and Volume \
                 Warden publishes its path"
            );
        }
        self.foreign = foreign;
        let fail_closed = named(found, |each| each.fails_closed);
        for webhook in fail_closed.difference(&self.fail_closed) {
            tracing::warn!(
                webhook,
                "this webhook has the failurePolicy Fail: when a call fails, the API server refuses \
                 the request and shows the secret path of the webhooks to the user; set the \
                 failurePolicy Ignore, and replace the path if users have seen it"
            );
        }
        metrics.fail_closed(fail_closed.len());
        self.fail_closed = fail_closed;
    }
}

/// Returns the number of webhooks whose reviews are refused, because of their path.
pub(super) fn mismatched(
    found: &[StoredConfiguration],
    current: &PathSecret,
    accepted: &SecretPaths,
) -> usize {
    let refused = |each: &Webhook<'_>| {
        let path = each.path().unwrap_or_default();
        carried(each, current) == Carried::Foreign || accepted.authenticate(path).is_none()
    };
    named(found, refused).len()
}

/// Returns the names of the webhooks for which `applies` is true, each with its configuration.
fn named(
    found: &[StoredConfiguration],
    applies: impl Fn(&Webhook<'_>) -> bool,
) -> BTreeSet<String> {
    let each = found.iter().flat_map(|found| {
        let name = found.configuration.name();
        found.webhooks().map(move |webhook| (webhook, name))
    });
    let chosen = each.filter(|(webhook, _)| applies(webhook));
    chosen
        .map(|(webhook, configuration)| format!("{} of {configuration}", webhook.name))
        .collect()
}
