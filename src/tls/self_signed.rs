//! A self-signed CA and a serving certificate in a Secret that all replicas share. The CA is
//! published in the webhook configurations of Volume Warden.
//!
//! The first replica fills the Secret, which the manifests contain empty, and the others serve its
//! content. Every write is a compare-and-swap. A round reads the configurations first and the
//! Secret second, and writes the configurations last. So if a replica would publish an outdated CA,
//! the configuration has changed since it was read, and the write fails.

use super::{
    Lifetimes, ServingCertificate, Warnings,
    ca_bundle::{is_published, publish},
    material::{Material, Scene},
    secret::{self, Shared},
};
use crate::cluster::{
    Configuration, Configurations, Pace, ServiceName, StoredConfiguration, for_log,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Interval of rounds. In each round, a replica reads every configuration and the Secret, and
/// publishes its CAs again if another program changed a caBundle, which therefore lasts less than
/// a minute. These reads are most of the requests of a replica that does not lead.
const ROUND: Duration = Duration::from_secs(50);
/// Interval at which the wall clock is read, because a timer does not count the time during which
/// its machine was suspended.
const TICK: Duration = Duration::from_secs(1);

/// Settings of the self-signed certificate.
pub struct Settings {
    /// Client of the API server on which the Secret and the webhook configurations are stored.
    pub client: Client,
    /// Name of the Secret, in the namespace of the Service.
    pub secret: String,
    /// The Service whose DNS names the certificate has.
    pub service: ServiceName,
    /// The webhook configurations in which the CA is published.
    pub configurations: Vec<Configuration>,
    /// The lifetimes of new CAs and certificates.
    pub lifetimes: Lifetimes,
}

/// Creates, renews, publishes and serves a self-signed certificate.
pub struct SelfSigned {
    shared: Shared,
    configurations: Configurations,
    dns_names: Vec<String>,
    lifetimes: Lifetimes,
    serving: ServingCertificate,
    /// The last valid content of the Secret, kept in case the Secret is deleted or damaged.
    known: Option<Material>,
    /// The material whose certificate this replica serves.
    served: Option<Material>,
    /// The caBundle that every configuration had in each of the last rounds, and since when, by the
    /// clock of this process.
    published: Option<(String, OffsetDateTime)>,
}

impl SelfSigned {
    /// Creates the task without reading or writing anything.
    pub fn new(settings: Settings, serving: ServingCertificate) -> Self {
        let (client, name) = (settings.client, settings.secret);
        let host = format!(
            "{}.{}.svc",
            settings.service.name, settings.service.namespace
        );
        let api: Api<Secret> = Api::namespaced(client.clone(), &settings.service.namespace);
        Self {
            shared: Shared { api, name },
            configurations: Configurations::new(client, settings.configurations, settings.service),
            dns_names: ["", ".cluster.local"]
                .map(|domain| format!("{host}{domain}"))
                .to_vec(),
            lifetimes: settings.lifetimes,
            serving,
            known: None,
            served: None,
            published: None,
        }
    }

    /// Creates, renews, publishes and serves the certificate until `stop`, and warns if it was not
    /// renewed.
    pub async fn follow(mut self, warnings: Warnings, stop: CancellationToken) {
        let mut pace = Pace::new(ROUND);
        loop {
            let before = self.known.clone();
            let done = self.round().await;
            if let Err(error) = &done {
                // A message of the API server may quote the webhook configuration.
                let error = for_log(format_args!("{error:#}"));
                let secret = &self.shared.name;
                tracing::warn!(
                    error,
                    secret,
                    "the self-signed certificate could not be created, \
                    renewed or published; retrying"
                );
            }
            if self.known != before {
                // The shared material has changed, so the next renewal step may be due.
                pace.reset();
            }
            warnings.check(&self.serving);
            let overdue = self.is_overdue();
            let pause = pace.after(done.is_ok() && !overdue);
            tokio::select! { () = stop.cancelled() => return, () = self.due(pause, overdue) => {} }
        }
    }

    fn next_step(&self) -> Option<i64> {
        self.known.as_ref().map(Material::next_step)
    }

    /// Returns whether a renewal step is due. If one is due after a round, the round could not take
    /// it, because the next CA has not been published for long enough, or because another program
    /// keeps overwriting a caBundle.
    fn is_overdue(&self) -> bool {
        let now = self.serving.clock.now().unix_timestamp();
        self.next_step().is_some_and(|step| step <= now)
    }

    /// Waits for `pause`, but not longer than until the next renewal step is due by the wall
    /// clock, unless that step is `overdue`. A jump of the wall clock ends the wait, too.
    async fn due(&self, pause: Duration, overdue: bool) {
        let (began, now) = (Instant::now(), self.serving.clock.now());
        let step = self.next_step();
        while began.elapsed() < pause {
            tokio::time::sleep(TICK.min(pause)).await;
            let (before, now) = (now, self.serving.clock.now());
            let due = !overdue && step.is_some_and(|step| step <= now.unix_timestamp());
            if due || now < before || now - before > pause {
                return;
            }
        }
    }

    /// Reads the configurations and the Secret once, performs the renewal step that is due,
    /// publishes the CAs and serves the certificate.
    ///
    /// # Errors
    /// When the API server did not answer or refused a request, or another replica wrote first. A
    /// later round may succeed.
    pub async fn round(&mut self) -> anyhow::Result<()> {
        let read = self.configurations.read().await;
        let done = match read {
            Ok(mut found) => {
                let done = self.renew(&mut found).await;
                self.serving.check_trust(&found);
                done
            }
            Err(error) => Err(error.into()),
        };
        match done {
            Ok(()) => self.serving.record_success(),
            // Another program may have changed a caBundle since the last round that succeeded.
            Err(_) => self.published = None,
        }
        done
    }

    async fn renew(&mut self, found: &mut [StoredConfiguration]) -> anyhow::Result<()> {
        let material = self.share(found).await?;
        let bundle = material.trusted();
        let published = publish(self.configurations.client(), found, &bundle).await;
        self.serve(material, found)?;
        Ok(published?)
    }

    /// Returns the shared material from the Secret, after the renewal step that is due. A
    /// damaged or emptied Secret is restored from memory, and a missing one if RBAC permits its
    /// creation, so that no client has to trust a new CA. Only a replica without that content
    /// generates new material.
    async fn share(&mut self, found: &[StoredConfiguration]) -> anyhow::Result<Material> {
        let secret = self.shared.read().await?;
        let shared = secret
            .as_ref()
            .and_then(|secret| secret::material(secret, &self.dns_names));
        let names = self.dns_names.clone();
        let scene = Scene {
            names: &names,
            lifetimes: self.lifetimes,
            now: self.serving.clock.now(),
        };
        let known = shared.clone().or_else(|| self.known.clone());
        let material = match known {
            Some(known) => {
                let published = self.published_for(found, known.trusted());
                known.renewed(published, scene)?
            }
            None => Material::generate(&bundles(found), scene)?,
        };
        if shared.as_ref() != Some(&material) {
            let missing = secret.is_none();
            if let Err(error) = self.shared.write(secret, &material).await {
                // Another replica may have stored a newer CA, so the stored material is served, and
                // not published.
                if let Some(stored) = shared {
                    self.serve(stored, found)?;
                }
                return Err(anyhow::Error::from(error).context(if missing {
                    "the Secret is missing: apply the manifests, which contain it empty"
                } else {
                    "the Secret could not be written"
                }));
            }
            tracing::info!(secret = self.shared.name, "certificate stored");
        }
        self.known = Some(material.clone());
        Ok(material)
    }

    /// Returns how long this replica has known that every configuration has this caBundle; none if
    /// that is not so. An API server that does not trust a CA calls no webhook whose certificate it
    /// signed, so that is not so either while a configuration is unknown.
    fn published_for(&mut self, found: &[StoredConfiguration], bundle: String) -> Option<Duration> {
        let unknown = self.configurations.are_incomplete();
        if unknown || !found.iter().all(|found| is_published(found, &bundle)) {
            self.published = None;
            return None;
        }
        let now = self.serving.clock.now();
        let before = self.published.take();
        // After a jump of the clock into the past, the time begins again.
        let before = before.filter(|(before, since)| *before == bundle && *since <= now);
        let (_, since) = self.published.insert(before.unwrap_or((bundle, now)));
        Duration::try_from(now - *since).ok()
    }

    /// Serves the material, unless fewer webhooks trust its certificate than the one in service,
    /// for example because a caBundle is not written yet.
    fn serve(&mut self, material: Material, found: &[StoredConfiguration]) -> anyhow::Result<()> {
        if let Some(served) = &self.served {
            if served.pair == material.pair {
                return Ok(());
            }
            let judged = |of: &Material| self.serving.mismatches(&of.pair.certificate, found).0;
            if judged(&material).mismatches.len() > judged(served).mismatches.len() {
                return Ok(());
            }
        }
        self.serving.put(&material.pair)?;
        tracing::info!(
            secret = self.shared.name,
            "the webhook server uses a new certificate"
        );
        self.served = Some(material);
        Ok(())
    }
}

/// Returns the distinct caBundles that are published.
fn bundles(found: &[StoredConfiguration]) -> String {
    let mut bundles: Vec<_> = found
        .iter()
        .flat_map(StoredConfiguration::webhooks)
        .map(|webhook| webhook.bundle())
        .collect();
    bundles.sort();
    bundles.dedup();
    bundles.join("\n")
}

#[cfg(test)]
mod tests;
