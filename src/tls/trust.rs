//! Checks whether a client that trusts a caBundle, as the API server does, accepts a certificate.

use super::config::{Validity, chain};
use crate::clock::unix_time;
use rustls::{
    CertificateError, Error, RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};
use time::OffsetDateTime;

/// The result of checking a certificate against a caBundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The certificate is trusted, by a CA of this validity.
    Until(Validity),
    /// The certificate is not trusted, for this reason.
    Refused(String),
    /// The verifier of this process cannot decide it; the client's verifier may trust the
    /// certificate.
    Unknown(String),
}

/// Checks a certificate against a caBundle. `host` is the DNS name that the client expects, if it
/// is known.
pub(super) fn trust(
    certificate: &str,
    bundle: &str,
    host: Option<&str>,
    now: OffsetDateTime,
) -> Trust {
    let chain = match chain(certificate) {
        Ok(chain) => chain,
        Err(error) => return Trust::Refused(error.to_string()),
    };
    if let Err(refused) = named(&chain[0], host) {
        return refused;
    }
    let anchors = CertificateDer::pem_slice_iter(bundle.as_bytes()).filter_map(Result::ok);
    let verdicts = anchors.map(|anchor| verify_with_ca(&chain, &anchor, now));
    let none = Trust::Refused("the caBundle holds no certificate".to_owned());
    verdicts.reduce(better).unwrap_or(none)
}

fn named(leaf: &CertificateDer<'_>, host: Option<&str>) -> Result<(), Trust> {
    let Some(Ok(host)) = host.map(ServerName::try_from) else {
        return Ok(());
    };
    let parsed = ParsedCertificate::try_from(leaf).map_err(verdict)?;
    verify_server_name(&parsed, &host).map_err(verdict)
}

/// Checks a certificate chain against this one CA.
fn verify_with_ca(
    chain: &[CertificateDer<'_>],
    anchor: &CertificateDer<'_>,
    now: OffsetDateTime,
) -> Trust {
    let Ok(validity) = Validity::of_der(anchor) else {
        return Trust::Unknown("a certificate of the caBundle cannot be read".to_owned());
    };
    // Go requires a root certificate to be valid at present, too; the verifier of this process does
    // not, so its validity is checked here.
    if !validity.covers(now) {
        return Trust::Refused(
            "the CA in the caBundle has expired, or is not valid yet".to_owned(),
        );
    }
    // If the caBundle contains the certificate itself, the client trusts it, whatever its
    // extensions are.
    if chain[0] == *anchor {
        return Trust::Until(validity);
    }
    match verified(chain, anchor, now) {
        Ok(()) => Trust::Until(validity),
        Err(error) => verdict(error),
    }
}

fn verified(
    chain: &[CertificateDer<'_>],
    anchor: &CertificateDer<'_>,
    now: OffsetDateTime,
) -> Result<(), Error> {
    let mut roots = RootCertStore::empty();
    roots.add(anchor.clone().into_owned())?;
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(&chain[0])?,
        &roots,
        &chain[1..],
        unix_time(now),
        ring::default_provider()
            .signature_verification_algorithms
            .all,
    )
}

fn verdict(error: Error) -> Trust {
    use CertificateError as E;
    let refused = matches!(
        error,
        Error::InvalidCertificate(
            E::UnknownIssuer
                | E::BadSignature
                | E::Expired
                | E::ExpiredContext { .. }
                | E::NotValidYet
                | E::NotValidYetContext { .. }
                | E::NotValidForName
                | E::NotValidForNameContext { .. }
                | E::InvalidPurpose
                | E::InvalidPurposeContext { .. }
        )
    );
    // The library's messages about these two errors are not used, because they contain the current
    // time and would differ at each check.
    let message = match error {
        Error::InvalidCertificate(E::ExpiredContext { .. }) => "the certificate has expired".into(),
        Error::InvalidCertificate(E::NotValidYetContext { .. }) => {
            "the certificate is not valid yet".into()
        }
        error => error.to_string(),
    };
    if refused {
        Trust::Refused(message)
    } else {
        Trust::Unknown(message)
    }
}

/// Returns the more favourable of the results for two CAs.
fn better(one: Trust, other: Trust) -> Trust {
    match (one, other) {
        (Trust::Until(one), Trust::Until(other)) => Trust::Until(one.max(other)),
        (until @ Trust::Until(_), _) | (_, until @ Trust::Until(_)) => until,
        (unknown @ Trust::Unknown(_), _) | (_, unknown @ Trust::Unknown(_)) => unknown,
        (refused, _) => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::pki::Authority;
    use time::Duration;

    const HOST: &str = "a.b.svc";

    fn authority(now: OffsetDateTime) -> Authority {
        Authority::generate(Duration::days(100), now).expect("a CA")
    }

    fn leaf(authority: &Authority, now: OffsetDateTime) -> String {
        let pair = authority.issue(&[HOST.to_owned()], Duration::days(50), now);
        pair.expect("a leaf").certificate
    }

    fn refused(trust: &Trust) -> bool {
        matches!(trust, Trust::Refused(_))
    }

    #[test]
    fn a_leaf_is_trusted_by_its_ca_whatever_else_is_in_the_bundle() {
        let now = OffsetDateTime::now_utc();
        let (own, other) = (authority(now), authority(now));
        let leaf = leaf(&own, now);
        let ask = |bundle: &str, host| trust(&leaf, bundle, Some(host), now);
        let until = Validity::of(&own.certificate).expect("validity");
        let both = format!("{}{}", other.certificate, own.certificate);
        assert_eq!(ask(&both, HOST), Trust::Until(until));
        assert!(refused(&ask(&other.certificate, HOST)), "another CA");
        assert!(refused(&ask(&both, "c.d.svc")), "another name");
        for bundle in ["", "junk"] {
            assert!(refused(&ask(bundle, HOST)), "{bundle}");
        }
        assert!(refused(&trust("junk", &both, Some(HOST), now)));
        assert_eq!(trust(&leaf, &both, None, now), Trust::Until(until));
    }

    #[test]
    fn time_ends_trust() {
        let now = OffsetDateTime::now_utc();
        let own = authority(now);
        let ask = |leaf: &str, days| {
            let now = now + Duration::days(days);
            trust(leaf, &own.certificate, Some(HOST), now)
        };
        let early = leaf(&own, now);
        assert!(!refused(&ask(&early, 49)));
        let expired = Trust::Refused("the certificate has expired".to_owned());
        assert_eq!(
            [51, 52].map(|days| ask(&early, days)),
            [expired.clone(), expired]
        );
        assert!(refused(&ask(&early, -1)), "it is not valid yet");
        // The certificate is valid longer than the CA: only the CA has expired.
        let expired = Authority::generate(Duration::days(1), now - Duration::days(5));
        let verdict = trust(&early, &expired.expect("a CA").certificate, None, now);
        assert!(refused(&verdict), "{verdict:?}");
    }

    /// The SelfSigned issuer of cert-manager creates such certificates.
    #[test]
    fn a_certificate_that_is_its_own_root_is_trusted() {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).expect("a pair");
        let (certificate, now) = (made.cert.pem(), OffsetDateTime::now_utc());
        let verdict = trust(&certificate, &certificate, Some(HOST), now);
        assert!(matches!(verdict, Trust::Until(_)), "{verdict:?}");
    }
}
