//! Builds the component pv-releaser from its options and the shared parts.

use super::{
    Caches, Identity, NAME, Options, PvReleaserReconciler, Reservations, VolumeWebhook,
    reservation_hook, strip_binding_hook, volume_hook,
};
use crate::{
    cluster::{Configuration, LiveGet, SharedList, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The component `pv-releaser`: makes volumes of deleted claims available again.
pub struct PvReleaser;

impl Component for PvReleaser {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[
            Configuration::Mutating("volume-warden-pv-releaser"),
            Configuration::Validating("volume-warden-pv-releaser"),
        ]
    }

    fn is_per_controller_id(&self) -> bool {
        true
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, shared.options()?)) })
    }
}

fn parts(shared: &Shared, options: Options) -> Parts {
    let namespace = shared.namespace.as_deref();
    if let Some(namespace) = namespace {
        tracing::warn!(
            namespace,
            "--namespace does not limit which volumes pv-releaser releases, because volumes have \
             no namespace: it releases every volume with its managed-by label. It adds this label \
             only to the volumes of claims in --namespace"
        );
    }
    let options = Options {
        id: shared.controller_id.clone(),
        system_namespace: shared.system_namespace.clone(),
        ..options
    };
    let mut parts = Parts::watching(&[
        Kind::PersistentVolume,
        Kind::PersistentVolumeClaim,
        Kind::VolumeAttachment,
        Kind::StorageClass,
    ]);
    let caches = Caches::new(&shared.feeds, namespace, options);
    let reservations = reservations(shared, &caches);
    // The webhooks and the reconciler have separate limits for live reads, so neither waits for the
    // other.
    let identity = identity(shared);
    let volumes = VolumeWebhook {
        caches: caches.clone(),
        identity: identity.clone(),
    };
    let claims = Reservations {
        identity,
        ..reservations.clone()
    };
    parts.webhooks = vec![volume_hook(volumes), reservation_hook(claims)];
    parts.safeguards = vec![strip_binding_hook()];
    let reconciler = PvReleaserReconciler {
        caches,
        reservations,
        live_attachments: SharedList::new(shared.metrics.clone(), &shared.client),
        apply: shared.apply.clone(),
        events: Arc::default(),
    };
    let queue = Arc::new(WorkQueue::default());
    reconciler.listen(&queue);
    reconciler.register_metrics(&shared.metrics);
    parts.reconcile(shared, reconciler, queue);
    parts
}

fn reservations(shared: &Shared, caches: &Caches) -> Reservations {
    Reservations {
        caches: caches.clone(),
        identity: identity(shared),
        apply: shared.apply.clone(),
        client: shared.client.clone(),
        exempt: shared.exempt.clone().into(),
        reserved: Arc::default(),
    }
}

fn identity(shared: &Shared) -> Identity {
    Identity {
        namespaces: LiveGet::new(shared.metrics.clone(), &shared.client),
        claims: LiveGet::new(shared.metrics.clone(), &shared.client),
    }
}
