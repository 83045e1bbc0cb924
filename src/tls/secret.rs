//! The Secret with the CA and serving certificate that the replicas share.

use super::{
    config::{Pair, server_config},
    material::Material,
    pki::Authority,
};
use crate::clock::Clock;
use crate::cluster::{DEFAULT_CALL_TIMEOUT, existing, within};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use std::collections::BTreeMap;

/// The Secret with the CA and the serving certificate.
pub(super) struct Shared {
    pub(super) api: Api<Secret>,
    pub(super) name: String,
}

impl Shared {
    pub(super) async fn read(&self) -> kube::Result<Option<Secret>> {
        existing(within(DEFAULT_CALL_TIMEOUT, self.api.get(&self.name)).await)
    }

    /// Writes the Secret. It fails if another replica has written the Secret since it was read; the
    /// next round then reads that content.
    pub(super) async fn write(
        &self,
        found: Option<Secret>,
        material: &Material,
    ) -> kube::Result<Secret> {
        let parameters = PostParams::default();
        if let Some(mut secret) = found {
            secret.data = Some(data(material));
            let replace = self.api.replace(&self.name, &parameters, &secret);
            return within(DEFAULT_CALL_TIMEOUT, replace).await;
        }
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("kubernetes.io/tls".into()),
            data: Some(data(material)),
            ..Secret::default()
        };
        within(DEFAULT_CALL_TIMEOUT, self.api.create(&parameters, &secret)).await
    }
}

/// Returns the content of the Secret if its CA and certificate are present and match their keys,
/// the CA has signed the certificate, and the certificate has these DNS names. Expired certificates
/// are returned, too; a next CA that does not match its key is omitted.
pub(super) fn material(secret: &Secret, names: &[String]) -> Option<Material> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| {
        data.get(key)
            .and_then(|value| String::from_utf8(value.0.clone()).ok())
    };
    let authority = |name: &str| {
        let authority = Authority {
            certificate: text(&format!("{name}.crt"))?,
            key: text(&format!("{name}.key"))?,
        };
        authority.key_matches().then_some(authority)
    };
    let material = Material {
        authority: authority("ca")?,
        next: authority("next-ca"),
        previous: text("previous-ca.crt").unwrap_or_default(),
        pair: Pair {
            certificate: text("tls.crt")?,
            key: text("tls.key")?,
        },
    };
    let usable = server_config(&material.pair, None, &Clock::system()).is_ok()
        && material.authority.issued(&material.pair, names);
    usable.then_some(material)
}

fn data(material: &Material) -> BTreeMap<String, ByteString> {
    let mut entries = vec![
        ("ca.crt", &material.authority.certificate),
        ("ca.key", &material.authority.key),
        ("previous-ca.crt", &material.previous),
        ("tls.crt", &material.pair.certificate),
        ("tls.key", &material.pair.key),
    ];
    if let Some(next) = &material.next {
        entries.push(("next-ca.crt", &next.certificate));
        entries.push(("next-ca.key", &next.key));
    }
    entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), ByteString(value.clone().into_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::material::tests::{day, names, scene};

    fn generate() -> Material {
        Material::generate("", scene(0)).expect("generates")
    }

    fn secret(material: &Material) -> Secret {
        Secret {
            data: Some(data(material)),
            ..Secret::default()
        }
    }

    #[test]
    fn a_secret_is_read_as_written() {
        let first = generate();
        let rotating = first.renewed(None, scene(day(250))).expect("renews");
        assert!(rotating.next.is_some());
        for written in [first, rotating] {
            assert!(material(&secret(&written), &names()) == Some(written));
        }
    }

    #[test]
    fn a_damaged_secret_is_not() {
        let whole = secret(&generate());
        for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
            let mut damaged = whole.clone();
            damaged.data.as_mut().expect("data").remove(key);
            assert!(material(&damaged, &names()).is_none(), "without {key}");
            let junk = ByteString(b"junk".to_vec());
            damaged
                .data
                .as_mut()
                .expect("data")
                .insert(key.into(), junk);
            assert!(material(&damaged, &names()).is_none(), "junk in {key}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_damaged() {
        let (own, other) = (generate(), generate());
        let of = |authority: &Authority| Material {
            authority: authority.clone(),
            ..own.clone()
        };
        let mixed = Authority {
            certificate: own.authority.certificate.clone(),
            key: other.authority.key.clone(),
        };
        let read = |made: &Material, names: &[String]| material(&secret(made), names).is_some();
        assert!(
            !read(&of(&other.authority), &names()),
            "a leaf of another CA"
        );
        assert!(!read(&of(&mixed), &names()), "a key of another CA");
        assert!(!read(&own, &["c.d.svc".to_owned()]), "for another Service");
        let next = Some(mixed);
        let half = Material {
            next,
            ..own.clone()
        };
        let read = material(&secret(&half), &names()).expect("usable");
        assert!(read.next.is_none(), "a CA that cannot sign is none");
    }
}
