//! Warns users about a certificate that was not renewed, in an Event and in the log: when at most
//! 30, 14 and 7 days are left, and at the expiry. A process does not repeat a warning.

use super::{
    expiry::threshold,
    serving_certificate::{CertificateRole, ServingCertificate},
};
use crate::cluster::{Apply, EventContent, LeaseObject};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};
use time::OffsetDateTime;

const ACTION: &str = "RenewCertificate";

/// Reasons of the Events about certificates.
pub mod reasons {
    use crate::reason::reasons;

    reasons! {
        /// The served certificate or its CA was not renewed when it was due, and expires within
        /// 30, 14 or 7 days, or has expired.
        NOT_RENEWED: Warning "Lease" = "CertificateNotRenewed";
    }
}

/// The last warning about each certificate, by the time of its expiry: the days left at which it
/// was due, and whether the Event was published.
type Reported = BTreeMap<(CertificateRole, i64), (i64, bool)>;

/// Reports certificates that were not renewed.
#[derive(Clone)]
pub struct Warnings {
    apply: Arc<Apply>,
    lease: LeaseObject,
    /// Where the certificate is stored: a file or a Secret.
    source: Arc<str>,
    reported: Arc<Mutex<Reported>>,
}

impl Warnings {
    /// Creates warnings about the certificate from `source`. Every replica logs them; the leader
    /// also publishes them as Events on the Lease.
    pub fn new(apply: Arc<Apply>, lease: LeaseObject, source: &str) -> Self {
        Self {
            apply,
            lease,
            source: source.into(),
            reported: Arc::default(),
        }
    }

    /// Checks the certificates in service, and warns about those that were not renewed.
    pub(super) fn check(&self, serving: &ServingCertificate) {
        let now = serving.clock.now();
        for (which, validity) in serving.watched() {
            let threshold = validity.and_then(|validity| threshold(validity, now));
            if let (Some(validity), Some(days)) = (validity, threshold) {
                self.warn((which, validity.until), days, now);
            }
        }
    }

    fn warn(&self, certificate: (CertificateRole, i64), days: i64, now: OffsetDateTime) {
        let reported = self.reported.lock().get(&certificate).copied();
        if reported == Some((days, true)) {
            return;
        }
        let note = self.note(certificate, now);
        if reported.is_none_or(|(before, _)| before != days) {
            tracing::warn!(
                reason = reasons::NOT_RENEWED,
                note,
                "certificate not renewed"
            );
        }
        self.reported.lock().insert(certificate, (days, true));
        let warnings = self.clone();
        #[expect(clippy::disallowed_methods, reason = "no renewal waits for this Event")]
        tokio::spawn(async move {
            let event_content = EventContent {
                reason: reasons::NOT_RENEWED,
                action: ACTION,
                warning: true,
                note,
                related: None,
            };
            let (lease, apply) = (warnings.lease.reference().await, warnings.apply.clone());
            // If the Event is not published, the leader publishes it, or this replica at its next
            // check.
            let otherwise = move || {
                warnings.reported.lock().insert(certificate, (days, false));
            };
            match lease {
                Some(lease) => apply.publish(lease, event_content, otherwise),
                None => otherwise(),
            }
        });
    }

    fn note(&self, (which, until): (CertificateRole, i64), now: OffsetDateTime) -> String {
        let name = match which {
            CertificateRole::Served => "the certificate of the webhooks",
            CertificateRole::Authority => "the CA of the webhooks that the API server trusts",
        };
        let end = OffsetDateTime::from_unix_timestamp(until).map_or_else(
            |_| until.to_string(),
            |end| format!("on {} (UTC)", end.date()),
        );
        let left = until - now.unix_timestamp();
        let when = if left > 0 {
            format!("expires {end}, in {} hours,", left / 3600)
        } else {
            format!("expired {end}")
        };
        format!(
            "{name} {when} and was not renewed; its source is {}. After its expiry, the API server skips the webhooks",
            self.source
        )
    }
}
