//! The CA and leaf that the replicas share, and their renewal: pure functions of them and the
//! time.
//!
//! A CA is replaced in two steps. The next CA is created and published beside the one in use. It
//! signs a certificate only when every configuration has it and API servers have had time to
//! observe it. The old one stays published until it expires, for a replica that is late.

use super::{
    config::{Pair, Validity},
    lifetimes::Lifetimes,
    pki::Authority,
};
use time::OffsetDateTime;

/// For how long a new CA is published, in seconds, before anything is signed with it; less in a
/// life of minutes.
const ANNOUNCED: i64 = 60;

/// Inputs of a rotation step.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    /// The DNS names of the Service.
    pub(super) names: &'a [String],
    pub(super) lifetimes: Lifetimes,
    pub(super) now: OffsetDateTime,
}

/// The CA and leaf that the replicas share.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Material {
    /// The CA in use.
    pub(super) authority: Authority,
    /// The CA after it, published and not in use yet.
    pub(super) next: Option<Authority>,
    /// Older ones, still to be trusted, as PEM; mostly empty.
    pub(super) previous: String,
    pub(super) pair: Pair,
}

impl Material {
    /// Generates a new CA and leaf. Published CAs stay trusted: another replica may serve with
    /// them.
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

    /// The same while it is young; else the next step. `published` says that the caBundle of every
    /// configuration has been this material's for as long as is known.
    pub(super) fn renewed(&self, published: bool, scene: Scene<'_>) -> anyhow::Result<Self> {
        let mut material = self.clone();
        material.previous = unexpired(&self.previous, scene.now);
        if !is_valid(&self.authority.certificate, scene.now) {
            // No client trusts it any more, so there is no reason to wait. By a clock that is
            // ahead of the local one it may only just be valid.
            let known = format!("{}{}", self.previous, self.authority.certificate);
            material.previous = unexpired(&known, scene.now);
            material.authority = match material.next.take() {
                Some(next) if is_valid(&next.certificate, scene.now) => next,
                _ => Authority::generate(scene.lifetimes.authority, scene.now)?,
            };
            return material.with_new_leaf(scene);
        }
        match &self.next {
            Some(next) if published && scene.now.unix_timestamp() >= announced(next) => {
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

    /// The caBundle: every CA that may have signed what some replica serves, or is about to.
    pub(super) fn trusted(&self) -> String {
        let next = self.next.as_ref().map(|next| next.certificate.as_str());
        format!(
            "{}{}{}",
            self.authority.certificate,
            next.unwrap_or_default(),
            self.previous
        )
    }

    /// When [`Self::renewed`] has something to do next.
    pub(super) fn next_step(&self) -> i64 {
        let due = |certificate: &str| Validity::of(certificate).map_or(0, Validity::due);
        let authority = match &self.next {
            Some(next) => announced(next),
            None => due(&self.authority.certificate),
        };
        authority.min(due(&self.pair.certificate))
    }
}

/// Whether two thirds of a certificate's life are over. One that is not valid yet, or cannot be
/// read, is due too.
fn is_due(certificate: &str, now: OffsetDateTime) -> bool {
    Validity::of(certificate).map_or(true, |validity| {
        !validity.covers(now) || now.unix_timestamp() >= validity.due()
    })
}

fn is_valid(certificate: &str, now: OffsetDateTime) -> bool {
    Validity::of(certificate).is_ok_and(|validity| validity.covers(now))
}

/// When API servers have had the time to hear of a CA that was made to be published at once.
fn announced(next: &Authority) -> i64 {
    let Ok(validity) = Validity::of(&next.certificate) else {
        return 0;
    };
    let life = validity.until - validity.from;
    validity.made() + ANNOUNCED.min(life / 13)
}

/// Those of the certificates of a PEM text that have not expired. What cannot be read goes too.
fn unexpired(certificates: &str, now: OffsetDateTime) -> String {
    let certificates = certificates.split_inclusive("-----END CERTIFICATE-----");
    certificates
        .filter(|certificate| {
            Validity::of(certificate).is_ok_and(|validity| now.unix_timestamp() <= validity.until)
        })
        .map(|certificate| format!("{}\n", certificate.trim()))
        .collect()
}

#[cfg(test)]
pub(super) mod tests;
