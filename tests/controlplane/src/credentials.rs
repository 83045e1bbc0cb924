//! Certificates and keys of one cluster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use time::{Duration, OffsetDateTime};

const SERVING_NAMES: [&str; 4] = [
    "localhost",
    "kubernetes.default.svc",
    "127.0.0.1",
    "10.0.0.1",
];

/// A certificate authority, and the directory for the certificates that it issues.
pub(crate) struct Credentials {
    authority: CertifiedIssuer<'static, KeyPair>,
    directory: PathBuf,
}

/// A certificate file and its key file.
#[derive(Debug, Clone)]
pub(crate) struct CertificateFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Credentials {
    /// Creates the authority and writes its certificate.
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let mut params = parameters(vec![], "volume-warden-test-ca", None)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        fs::create_dir_all(directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        let credentials = Self {
            authority,
            directory: directory.to_owned(),
        };
        fs::write(credentials.authority_file(), credentials.authority.pem())?;
        Ok(credentials)
    }

    pub(crate) fn authority_file(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    /// The API server's serving certificate.
    pub(crate) fn serving(&self) -> Result<CertificateFiles> {
        let names = SERVING_NAMES.map(str::to_owned).to_vec();
        self.issue(
            "apiserver",
            parameters(names, "kube-apiserver", None)?,
            ExtendedKeyUsagePurpose::ServerAuth,
        )
    }

    /// A client certificate: the user is `user`, in `group`.
    pub(crate) fn client(
        &self,
        file: &str,
        user: &str,
        group: Option<&str>,
    ) -> Result<CertificateFiles> {
        self.issue(
            file,
            parameters(vec![], user, group)?,
            ExtendedKeyUsagePurpose::ClientAuth,
        )
    }

    /// The key that signs service account tokens, with its public half in place of a certificate.
    pub(crate) fn service_account_key(&self) -> Result<CertificateFiles> {
        let pair = KeyPair::generate()?;
        self.write("service-account", &pair.public_key_pem(), &pair)
    }

    fn issue(
        &self,
        file: &str,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<CertificateFiles> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let pair = KeyPair::generate()?;
        let certificate = params.signed_by(&pair, &self.authority)?;
        self.write(file, &certificate.pem(), &pair)
    }

    fn write(&self, file: &str, public: &str, pair: &KeyPair) -> Result<CertificateFiles> {
        let files = CertificateFiles {
            certificate: self.directory.join(format!("{file}.crt")),
            key: self.directory.join(format!("{file}.key")),
        };
        fs::write(&files.certificate, public)?;
        fs::write(&files.key, pair.serialize_pem())?;
        Ok(files)
    }
}

fn parameters(names: Vec<String>, user: &str, group: Option<&str>) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    let now = OffsetDateTime::now_utc();
    // rcgen's default is 1975 to 4096.
    params.not_before = now - Duration::hours(1);
    params.not_after = now + Duration::days(30);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params
            .distinguished_name
            .push(DnType::OrganizationName, group);
    }
    Ok(params)
}
