//! The CA and serving certificate that the replicas share, and the pure functions that renew them.
//!
//! A CA is replaced in two steps. First the next CA is created and published beside the one in use.
//! It signs a certificate only after every configuration contains it and API servers have had time
//! to observe that, or the CA in use is not valid any more. The old CA stays published until it
//! expires, for a replica that still serves its certificate.

use super::{
    config::{Pair, Validity},
    lifetimes::Lifetimes,
    pki::Authority,
};
use std::time::Duration;
use time::OffsetDateTime;

/// Minimum time in seconds from the creation of the next CA to its first signature, and from the
/// first read that shows it as published everywhere, while the CA in use is valid: API servers
/// observe meanwhile that it is published. It is at most a thirteenth of the lifetime of the CA.
const ANNOUNCED: i64 = 60;

/// Maximum number of older CAs that stay trusted. Mostly there is at most one, but a replica whose
/// clock is wrong by months and one with the right time would each replace the CA of the other, and
/// the Secret and the caBundles would grow with every round.
const MAX_PREVIOUS: usize = 8;

/// The inputs of a renewal step.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// The DNS names of the Service.
    pub(super) names: &'a [String],
    pub(super) lifetimes: Lifetimes,
    pub(super) now: OffsetDateTime,
}

/// The CA and serving certificate that the replicas share.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The CA that signs certificates.
    pub(super) authority: Authority,
    /// The CA that signs once every caBundle contains it and API servers have had time to observe
    /// that; none most of the time.
    pub(super) next: Option<Authority>,
    /// Older CAs that are still trusted, as PEM; mostly empty.
    pub(super) previous: String,
    pub(super) pair: Pair,
}

impl Material {
    /// Generates a new CA and certificate. The published CAs stay trusted, because another replica
    /// may serve a certificate that one of them signed.
    pub(super) fn generate(published: &str, scene: Scene<'_>) -> anyhow::Result<Self> {
        let authority = Authority::generate(scene.lifetimes.authority, scene.now)?;
        Self {
            pair: Pair {
                certificate: String::new(),
                key: String::new(),
            },
            next: None,
            previous: unexpired(published, scene.now),
            authority,
        }
        .with_new_leaf(scene)
    }

    /// Returns the material after the renewal step that is due, or equal material if none is due.
    /// Expired CAs in `previous` are dropped in any case. `published` is how long this replica has
    /// known that the caBundle of every webhook equals [`Self::trusted`]; none if that is not so.
    pub(super) fn renewed(
        &self,
        published: Option<Duration>,
        scene: Scene<'_>,
    ) -> anyhow::Result<Self> {
        let mut material = self.clone();
        material.previous = unexpired(&self.previous, scene.now);
        if !is_valid(&self.authority.certificate, scene.now) {
            // No client trusts a CA outside of its validity, so the next CA, or a new one, signs
            // at once. A CA that is not valid yet by the local clock stays published, because it
            // may be valid by the clock of another replica.
            let known = format!("{}{}", self.previous, self.authority.certificate);
            material.previous = unexpired(&known, scene.now);
            material.authority = match material.next.take() {
                Some(next) if is_valid(&next.certificate, scene.now) => next,
                _ => Authority::generate(scene.lifetimes.authority, scene.now)?,
            };
            return material.with_new_leaf(scene);
        }
        match &self.next {
            Some(next) if is_observed(next, published) && is_announced(next, scene.now) => {
                material.previous.push_str(&self.authority.certificate);
                material.authority = next.clone();
                material.next = None;
                return material.with_new_leaf(scene);
            }
            None if is_due(&self.authority.certificate, scene.now) => {
                let next = Authority::generate(scene.lifetimes.authority, scene.now)?;
                material.next = Some(next);
            }
            _ => {}
        }
        if is_due(&self.pair.certificate, scene.now) {
            return material.with_new_leaf(scene);
        }
        Ok(material)
    }

    fn with_new_leaf(self, scene: Scene<'_>) -> anyhow::Result<Self> {
        let lifetime = scene.lifetimes.certificate;
        let pair = self.authority.issue(scene.names, lifetime, scene.now)?;
        Ok(Self { pair, ..self })
    }

    /// Returns the caBundle: every CA that may have signed the certificate of a replica, or is
    /// about to.
    pub(super) fn trusted(&self) -> String {
        let next = self.next.as_ref().map(|next| next.certificate.as_str());
        format!(
            "{}{}{}",
            self.authority.certificate,
            next.unwrap_or_default(),
            self.previous
        )
    }

    /// Returns the Unix time at which the next renewal step is due, if a next CA was published at
    /// its creation.
    pub(super) fn next_step(&self) -> i64 {
        let due = |certificate: &str| Validity::of(certificate).map_or(0, Validity::due);
        let authority = match &self.next {
            Some(next) => announced(next),
            None => due(&self.authority.certificate),
        };
        authority.min(due(&self.pair.certificate))
    }
}

/// Returns whether a certificate must be renewed: after two thirds of its lifetime, outside of its
/// validity, or if it cannot be parsed.
fn is_due(certificate: &str, now: OffsetDateTime) -> bool {
    Validity::of(certificate).map_or(true, |validity| {
        !validity.covers(now) || now.unix_timestamp() >= validity.due()
    })
}

fn is_valid(certificate: &str, now: OffsetDateTime) -> bool {
    Validity::of(certificate).is_ok_and(|validity| validity.covers(now))
}

fn is_announced(next: &Authority, now: OffsetDateTime) -> bool {
    now.unix_timestamp() >= announced(next)
}

/// Returns the Unix time from which the next CA may sign, if it was published at its creation.
fn announced(next: &Authority) -> i64 {
    Validity::of(&next.certificate).map_or(0, |validity| validity.made() + delay(validity))
}

/// Returns whether API servers have had time to observe that the next CA is published. Its creation
/// does not show that: it may have been published later, and the clocks of replicas may differ.
fn is_observed(next: &Authority, published: Option<Duration>) -> bool {
    let delay = Validity::of(&next.certificate).map_or(0, delay);
    published.is_some_and(|time| time >= Duration::from_secs(delay.unsigned_abs()))
}

fn delay(validity: Validity) -> i64 {
    ANNOUNCED.min((validity.until - validity.from) / 13)
}

/// Returns the last [`MAX_PREVIOUS`] certificates of a PEM text that have not expired. Certificates
/// that cannot be parsed are dropped.
fn unexpired(certificates: &str, now: OffsetDateTime) -> String {
    let certificates = certificates.split_inclusive("-----END CERTIFICATE-----");
    let unexpired = certificates.filter(|certificate| {
        Validity::of(certificate).is_ok_and(|validity| now.unix_timestamp() <= validity.until)
    });
    let unexpired: Vec<_> = unexpired.collect();
    let oldest = unexpired.len().saturating_sub(MAX_PREVIOUS);
    unexpired[oldest..]
        .iter()
        .map(|certificate| format!("{}\n", certificate.trim()))
        .collect()
}

#[cfg(test)]
pub(super) mod tests;
