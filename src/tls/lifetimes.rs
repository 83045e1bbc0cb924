//! Lifetimes of the self-signed CA and the serving certificate.

use time::Duration;

/// Minimum lifetime: a shorter one leaves no time for a late renewal.
const SHORTEST: Duration = Duration::seconds(10);
const LONGEST: Duration = Duration::days(3650);

/// Lifetimes of the CA and the serving certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Lifetime of the CA.
    pub(super) authority: Duration,
    /// Lifetime of the serving certificate.
    pub(super) certificate: Duration,
}

impl Lifetimes {
    /// Checks the lifetimes.
    ///
    /// # Errors
    /// A sentence that states which lifetime is invalid.
    pub fn new(
        authority: std::time::Duration,
        certificate: std::time::Duration,
    ) -> Result<Self, &'static str> {
        let (Ok(authority), Ok(certificate)) = (authority.try_into(), certificate.try_into())
        else {
            return Err("the CA lifetime must be at most 87600h (ten years)");
        };
        if authority > LONGEST {
            return Err("the CA lifetime must be at most 87600h (ten years)");
        }
        if certificate < SHORTEST {
            return Err("the certificate lifetime must be at least 10s");
        }
        if certificate * 2 > authority {
            return Err("the CA lifetime must be at least twice the certificate lifetime");
        }
        Ok(Self {
            authority,
            certificate,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_refused() {
        let seconds = std::time::Duration::from_secs;
        let refused = |authority, certificate| {
            Lifetimes::new(seconds(authority), seconds(certificate)).is_err()
        };
        assert!(!refused(365 * 86_400, 90 * 86_400));
        assert!(!refused(20, 10));
        assert!(refused(20, 9), "too short");
        assert!(refused(179, 90), "not twice as long");
        assert!(refused(3650 * 86_400 + 1, 90), "too long");
        assert!(refused(u64::MAX, 90), "more than can be counted");
    }
}
