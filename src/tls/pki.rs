//! A self-signed certificate authority, for clusters without cert-manager.

use super::config::{Pair, Validity};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use time::{Duration, OffsetDateTime};
use x509_parser::{extensions::GeneralName, parse_x509_certificate};

/// How far the validity begins before the creation, because clocks differ. For a short lifetime it
/// is at most a tenth of that; see [`Validity::made`].
const BACKDATED: Duration = Duration::minutes(5);

/// A CA: its certificate and its private key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Authority {
    /// The certificate of the CA, as PEM.
    pub certificate: String,
    /// The private key of the CA, in PKCS#8 form.
    pub key: String,
}

impl Authority {
    /// Generates a new CA.
    ///
    /// # Errors
    /// When the operating system has no random numbers.
    pub fn generate(lifetime: Duration, now: OffsetDateTime) -> anyhow::Result<Self> {
        let mut parameters = parameters(Vec::new(), "volume-warden CA", now, lifetime)?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
        Ok(Self {
            certificate: issuer.pem(),
            key: issuer.key().serialize_pem(),
        })
    }

    /// Returns whether the key matches the certificate.
    pub fn key_matches(&self) -> bool {
        let (Ok(certificate), Ok(key)) = (der(&self.certificate), KeyPair::from_pem(&self.key))
        else {
            return false;
        };
        parse_x509_certificate(&certificate).is_ok_and(|(_, parsed)| {
            key.public_key_raw() == &*parsed.public_key().subject_public_key.data
        })
    }

    /// Returns whether this CA has signed the leaf of the pair, and the leaf is valid for all
    /// `names`.
    pub fn issued(&self, pair: &Pair, names: &[String]) -> bool {
        let (Ok(authority), Ok(leaf)) = (der(&self.certificate), der(&pair.certificate)) else {
            return false;
        };
        let (Ok((_, authority)), Ok((_, leaf))) = (
            parse_x509_certificate(&authority),
            parse_x509_certificate(&leaf),
        ) else {
            return false;
        };
        let alternatives = leaf.subject_alternative_name().ok().flatten();
        let is_for = |name: &String| {
            let mut known = alternatives
                .iter()
                .flat_map(|names| &names.value.general_names);
            known.any(|known| matches!(known, GeneralName::DNSName(known) if known == name))
        };
        leaf.verify_signature(Some(authority.public_key())).is_ok() && names.iter().all(is_for)
    }

    /// Issues a certificate for these DNS names, which expires no later than this CA.
    ///
    /// # Errors
    /// When the PEM of the CA cannot be parsed or a name is not a DNS name.
    pub fn issue(
        &self,
        names: &[String],
        lifetime: Duration,
        now: OffsetDateTime,
    ) -> anyhow::Result<Pair> {
        let issuer = Issuer::from_ca_cert_pem(&self.certificate, KeyPair::from_pem(&self.key)?)?;
        let end = OffsetDateTime::from_unix_timestamp(Validity::of(&self.certificate)?.until)?;
        let common_name = names.first().map_or("volume-warden", String::as_str);
        let mut parameters = parameters(names.to_vec(), common_name, now, lifetime)?;
        parameters.not_after = parameters.not_after.min(end);
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
    // rcgen's default validity, from 1975 to 4096, is replaced.
    parameters.not_before = now - BACKDATED.min(lifetime / 10);
    parameters.not_after = now + lifetime;
    parameters.distinguished_name = DistinguishedName::new();
    // A common name has at most 64 characters. Clients verify the DNS names instead.
    parameters.distinguished_name.push(
        DnType::CommonName,
        common_name.chars().take(64).collect::<String>(),
    );
    Ok(parameters)
}

fn der(certificate: &str) -> Result<CertificateDer<'static>, rustls::pki_types::pem::Error> {
    CertificateDer::from_pem_slice(certificate.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, tls::config::server_config};

    #[test]
    fn a_pair_that_does_not_match_is_refused() {
        let (clock, day) = (Clock::system(), Duration::DAY);
        let now = clock.now();
        let authority = Authority::generate(day * 2, now).expect("authority");
        let issue = || {
            let pair = authority.issue(&["localhost".into()], day, now);
            pair.expect("leaf")
        };
        let (a, b) = (issue(), issue());
        assert!(server_config(&a, None, &clock).is_ok());
        let mixed = Pair {
            certificate: a.certificate,
            key: b.key,
        };
        assert!(server_config(&mixed, None, &clock).is_err());
    }

    #[test]
    fn a_leaf_ends_with_its_authority_at_the_latest() {
        let now = OffsetDateTime::now_utc();
        let authority = Authority::generate(Duration::DAY * 30, now).expect("authority");
        let leaf = |days: i64, lifetime: i64| {
            let now = now + Duration::days(days);
            let pair = authority.issue(&["localhost".into()], Duration::days(lifetime), now);
            Validity::of(&pair.expect("leaf").certificate).expect("validity")
        };
        let end = Validity::of(&authority.certificate).expect("validity");
        assert_eq!(leaf(10, 15).until, end.until - 5 * 86_400);
        assert_eq!(leaf(20, 15).until, end.until);
    }
}
