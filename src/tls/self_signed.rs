//! A CA and a leaf in a Secret that all replicas share, and the CA published in our webhook configurations.
//!
//! The first replica to create the Secret wins, the others serve what they find. Rotation is judged by the wall clock; a new CA
//! is published beside the old one, and only a round later does a replica serve a leaf of it.

use super::{
    ca_bundle::{self, Configuration},
    config::{Pair, server_config},
    mounted::serve,
    pki::{Authority, is_due},
};
use crate::{admission::Certificate, cluster::within, telemetry::Metrics};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How soon a replica sees what another wrote, and repairs a caBundle that somebody emptied.
const ROUND: Duration = Duration::from_secs(30);
/// Less than a round, so that the next one serves it.
const TRUSTED_AFTER: Duration = Duration::from_secs(20);
const AFTER_FAILURE: Duration = Duration::from_secs(2);
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Where the Secret is, for whom the certificate is, and who is to trust it.
#[derive(Clone)]
pub struct SelfSigned {
    /// The client.
    pub client: Client,
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub secret: String,
    /// DNS names of the Service.
    pub dns_names: Vec<String>,
    /// The configurations whose webhooks get the caBundle.
    pub configurations: Vec<Configuration>,
}

impl SelfSigned {
    /// Keeps a certificate in service until `stop`.
    pub async fn follow(
        self,
        certificate: Certificate,
        metrics: Arc<Metrics>,
        stop: CancellationToken,
    ) {
        let mut service = Service::default();
        loop {
            let pause = match self.round(&mut service, &certificate, &metrics).await {
                Ok(()) => ROUND,
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(
                        error,
                        secret = self.secret,
                        "the certificate is not in order yet"
                    );
                    AFTER_FAILURE
                }
            };
            tokio::select! { () = stop.cancelled() => return, () = tokio::time::sleep(pause) => {} }
        }
    }

    async fn round(
        &self,
        service: &mut Service,
        certificate: &Certificate,
        metrics: &Metrics,
    ) -> anyhow::Result<()> {
        let material = self
            .share(service.served.as_ref(), OffsetDateTime::now_utc())
            .await?;
        ca_bundle::publish(&self.client, &self.configurations, &material.trusted()).await?;
        if service.is_due(&material, Instant::now()) {
            serve(&material.pair, certificate, metrics)?;
            tracing::info!(secret = self.secret, "certificate in service");
            service.served = Some(material);
        }
        Ok(())
    }

    /// What the replicas share: as found, or renewed. A Secret that is missing or damaged gets what this replica serves, so that
    /// nobody has to learn to trust anything new; only without that is everything made anew.
    async fn share(
        &self,
        served: Option<&Material>,
        now: OffsetDateTime,
    ) -> anyhow::Result<Material> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = within(CALL_LIMIT, secrets.get_opt(&self.secret)).await?;
        let shared = found
            .as_ref()
            .and_then(|secret| Material::read(secret, &self.dns_names));
        let material = match shared.as_ref().or(served) {
            Some(known) => known.renewed(&self.dns_names, now)?,
            None => Material::generate(&self.dns_names, now)?,
        };
        if shared.as_ref() != Some(&material) {
            self.write(&secrets, found, &material).await?;
            tracing::info!(secret = self.secret, "certificate shared");
        }
        Ok(material)
    }

    /// Fails if another replica was first; the next round then finds what that one wrote.
    async fn write(
        &self,
        secrets: &Api<Secret>,
        found: Option<Secret>,
        material: &Material,
    ) -> anyhow::Result<()> {
        let parameters = PostParams::default();
        if let Some(mut secret) = found {
            secret.data = Some(material.data());
            within(
                CALL_LIMIT,
                secrets.replace(&self.secret, &parameters, &secret),
            )
            .await?;
        } else {
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(self.secret.clone()),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".into()),
                data: Some(material.data()),
                ..Secret::default()
            };
            within(CALL_LIMIT, secrets.create(&parameters, &secret)).await?;
        }
        Ok(())
    }
}

/// What this replica serves.
#[derive(Default)]
struct Service {
    served: Option<Material>,
    /// A CA that is not served yet, and since when this replica knows it to be published.
    announced: Option<(Authority, Instant)>,
}

impl Service {
    /// Whether to serve this now. A leaf of a CA that is trusted already needs no delay; one of a new CA waits until every API server
    /// has had the time to hear of the CA, whichever replica published it.
    fn is_due(&mut self, material: &Material, now: Instant) -> bool {
        let Some(served) = &self.served else {
            return true;
        };
        if served.authority == material.authority {
            return served.pair != material.pair;
        }
        match &self.announced {
            Some((authority, since)) if *authority == material.authority => {
                now.duration_since(*since) >= TRUSTED_AFTER
            }
            _ => {
                self.announced = Some((material.authority.clone(), now));
                false
            }
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Material {
    authority: Authority,
    /// The CA before this one, still to be trusted; empty at first.
    previous: String,
    pair: Pair,
}

impl Material {
    fn generate(names: &[String], now: OffsetDateTime) -> anyhow::Result<Self> {
        let authority = Authority::generate(now)?;
        let pair = authority.issue(names, now)?;
        Ok(Self {
            authority,
            previous: String::new(),
            pair,
        })
    }

    /// The same while it is young; else with a new leaf, or a new CA beside the old one.
    fn renewed(&self, names: &[String], now: OffsetDateTime) -> anyhow::Result<Self> {
        if is_due(&self.authority.certificate, now) {
            let previous = self.authority.certificate.clone();
            return Ok(Self {
                previous,
                ..Self::generate(names, now)?
            });
        }
        if is_due(&self.pair.certificate, now) {
            return Ok(Self {
                pair: self.authority.issue(names, now)?,
                ..self.clone()
            });
        }
        Ok(self.clone())
    }

    /// The caBundle: the CA and the one before it.
    fn trusted(&self) -> String {
        format!("{}{}", self.authority.certificate, self.previous)
    }

    /// What the Secret holds, if it is all there, fits together and is for these names.
    fn read(secret: &Secret, names: &[String]) -> Option<Self> {
        let data = secret.data.as_ref()?;
        let text = |key: &str| {
            data.get(key)
                .and_then(|value| String::from_utf8(value.0.clone()).ok())
        };
        let material = Self {
            authority: Authority {
                certificate: text("ca.crt")?,
                key: text("ca.key")?,
            },
            previous: text("previous-ca.crt").unwrap_or_default(),
            pair: Pair {
                certificate: text("tls.crt")?,
                key: text("tls.key")?,
            },
        };
        let usable = server_config(&material.pair).is_ok()
            && material.authority.vouches_for(&material.pair, names);
        usable.then_some(material)
    }

    fn data(&self) -> BTreeMap<String, ByteString> {
        let entries = [
            ("ca.crt", &self.authority.certificate),
            ("ca.key", &self.authority.key),
            ("previous-ca.crt", &self.previous),
            ("tls.crt", &self.pair.certificate),
            ("tls.key", &self.pair.key),
        ];
        entries
            .into_iter()
            .map(|(key, value)| (key.to_owned(), ByteString(value.clone().into_bytes())))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> [String; 1] {
        ["a.b.svc".to_owned()]
    }

    fn generate() -> Material {
        crate::tls::install_crypto();
        Material::generate(&names(), OffsetDateTime::now_utc()).expect("generates")
    }

    fn after(days: i64, material: &Material) -> Material {
        let now = OffsetDateTime::now_utc() + time::Duration::days(days);
        material.renewed(&names(), now).expect("renews")
    }

    #[test]
    fn leaf_and_authority_are_renewed_each_in_its_time() {
        let first = generate();
        assert!(after(30, &first) == first);
        let leaf = after(70, &first);
        assert!(leaf.authority == first.authority && leaf.pair != first.pair);
        let authority = after(250, &leaf);
        assert!(authority.authority != first.authority && authority.pair != leaf.pair);
        assert_eq!(
            authority.trusted(),
            authority.authority.certificate.clone() + &first.authority.certificate
        );
    }

    #[test]
    fn a_secret_is_read_as_written_and_a_damaged_one_is_not() {
        let material = generate();
        let mut secret = Secret {
            data: Some(material.data()),
            ..Secret::default()
        };
        assert!(
            Material::read(&secret, &names()).is_some_and(
                |read| read.pair == material.pair && read.authority == material.authority
            )
        );
        for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
            let mut damaged = secret.clone();
            damaged.data.as_mut().expect("data").remove(key);
            assert!(Material::read(&damaged, &names()).is_none(), "{key}");
        }
        secret
            .data
            .as_mut()
            .expect("data")
            .insert("tls.key".into(), ByteString(b"junk".to_vec()));
        assert!(Material::read(&secret, &names()).is_none());
    }

    #[test]
    fn what_does_not_fit_together_is_damaged() {
        let (ours, other) = (generate(), generate());
        let secret = |material: &Material| Secret {
            data: Some(material.data()),
            ..Secret::default()
        };
        let of = |authority: &Authority| Material {
            authority: authority.clone(),
            ..ours.clone()
        };
        let mixed = Authority {
            certificate: ours.authority.certificate.clone(),
            key: other.authority.key.clone(),
        };
        assert!(
            Material::read(&secret(&of(&other.authority)), &names()).is_none(),
            "a leaf of another CA"
        );
        assert!(
            Material::read(&secret(&of(&mixed)), &names()).is_none(),
            "a key of another CA"
        );
        assert!(
            Material::read(&secret(&ours), &["c.d.svc".to_owned()]).is_none(),
            "for another Service"
        );
    }

    #[test]
    fn a_new_authority_is_served_only_when_it_can_be_trusted() {
        let (mut service, first, start) = (Service::default(), generate(), Instant::now());
        assert!(
            service.is_due(&first, start),
            "there is nothing else to serve"
        );
        service.served = Some(first.clone());
        assert!(!service.is_due(&first, start));
        let leaf = after(70, &first);
        assert!(
            service.is_due(&leaf, start),
            "a leaf of a CA that is trusted"
        );
        let next = after(250, &first);
        assert!(!service.is_due(&next, start), "heard of it just now");
        assert!(!service.is_due(&next, start + TRUSTED_AFTER / 2));
        assert!(service.is_due(&next, start + TRUSTED_AFTER));
    }
}
