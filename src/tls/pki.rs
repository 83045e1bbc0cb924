//! A certificate authority of our own, for clusters without cert-manager.

use super::config::{Pair, validity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use time::{Duration, OffsetDateTime};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

const AUTHORITY_LIFETIME: Duration = Duration::days(365);
const LEAF_LIFETIME: Duration = Duration::days(90);
/// Clocks differ.
const BACKDATED: Duration = Duration::minutes(5);

/// A CA: the certificate to trust and the key to sign with, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// One certificate.
    pub certificate: String,
    /// PKCS#8.
    pub key: String,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When the machine has no randomness.
    pub fn generate(now: OffsetDateTime) -> anyhow::Result<Self> {
        let mut parameters = parameters(Vec::new(), "volume-warden CA", now, AUTHORITY_LIFETIME)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self {
            certificate: issuer.pem(),
            key: issuer.key().serialize_pem(),
        })
    }

    /// Whether the pair's leaf is for all these names and signed by this CA, and the CA's key is the one it signs with.
    pub fn vouches_for(&self, pair: &Pair, names: &[String]) -> bool {
        let (Ok(authority), Ok(leaf)) = (der(&self.certificate), der(&pair.certificate)) else {
            return false;
        };
        let (Ok((_, authority)), Ok((_, leaf))) = (
            parse_x509_certificate(&authority),
            parse_x509_certificate(&leaf),
        ) else {
            return false;
        };
        let signs = KeyPair::from_pem(&self.key).is_ok_and(|key| {
            key.public_key_raw() == &*authority.public_key().subject_public_key.data
        });
        let alternatives = leaf.subject_alternative_name().ok().flatten();
        let is_for = |name: &String| {
            let mut known = alternatives
                .iter()
                .flat_map(|names| &names.value.general_names);
            known.any(|known| matches!(known, GeneralName::DNSName(known) if known == name))
        };
        signs
            && leaf.verify_signature(Some(authority.public_key())).is_ok()
            && names.iter().all(is_for)
    }

    /// A leaf for these DNS names, signed by this CA.
    ///
    /// # Errors
    /// When the CA's PEM does not parse or a name is none.
    pub fn issue(&self, names: &[String], now: OffsetDateTime) -> anyhow::Result<Pair> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let common_name = names.first().map_or("volume-warden", String::as_str);
        let mut parameters = parameters(names.to_vec(), common_name, now, LEAF_LIFETIME)?;
        parameters.is_ca = IsCa::ExplicitNoCa;
        parameters.use_authority_key_identifier_extension = true;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &issuer)?;
        Ok(Pair {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }
}

fn parameters(
    names: Vec<String>,
    common_name: &str,
    now: OffsetDateTime,
    lifetime: Duration,
) -> anyhow::Result<CertificateParams> {
    let mut parameters = CertificateParams::new(names)?;
    // The defaults are 1975 and 4096.
    parameters.not_before = now - BACKDATED;
    parameters.not_after = now + lifetime;
    parameters.distinguished_name = DistinguishedName::new();
    // A common name has at most 64 characters; the names that count are the DNS names.
    parameters.distinguished_name.push(
        DnType::CommonName,
        common_name.chars().take(64).collect::<String>(),
    );
    Ok(parameters)
}

fn der(certificate: &str) -> Result<CertificateDer<'static>, rustls::pki_types::pem::Error> {
    CertificateDer::from_pem_slice(certificate.as_bytes())
}

/// Whether two thirds of a certificate's life are over, by the wall clock. One that cannot be read is due too.
pub fn is_due(certificate: &str, now: OffsetDateTime) -> bool {
    validity(certificate).map_or(true, |(from, until)| {
        now.unix_timestamp() >= from + (until - from) / 3 * 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::config::server_config;

    #[test]
    fn a_leaf_is_served_and_falls_due_at_two_thirds() {
        crate::tls::install_crypto();
        let now = OffsetDateTime::now_utc();
        let leaf = Authority::generate(now)
            .and_then(|authority| authority.issue(&["a.b.svc".into()], now))
            .expect("leaf");
        assert!(server_config(&leaf).is_ok());
        assert!(!is_due(&leaf.certificate, now + Duration::days(59)));
        assert!(is_due(&leaf.certificate, now + Duration::days(61)));
        assert!(is_due("junk", now));
    }

    #[test]
    fn a_pair_that_does_not_match_is_refused() {
        crate::tls::install_crypto();
        let now = OffsetDateTime::now_utc();
        let authority = Authority::generate(now).expect("authority");
        let issue = || authority.issue(&["localhost".into()], now).expect("leaf");
        let (a, b) = (issue(), issue());
        assert!(
            server_config(&Pair {
                certificate: a.certificate,
                key: b.key
            })
            .is_err()
        );
    }
}
