//! Builds the component pvc-provisioner from its flags and the shared parts.

use super::{
    Attempts, Caches, NAME, Notices, Options, PodWebhook, PvcProvisionerReconciler, Requesters,
    Waiting, hook, strip_marker_hook,
};
use crate::{
    cluster::{Access, Configuration, LiveGet, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use std::sync::Arc;

/// The component `pvc-provisioner`: creates the claims that pods request by annotation.
pub struct PvcProvisioner;

impl Component for PvcProvisioner {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[
            Configuration::Validating("volume-warden-pvc-provisioner"),
            Configuration::Mutating("volume-warden-pvc-provisioner-marks"),
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
    let (client, metrics) = (&shared.client, &shared.metrics);
    let options = Arc::new(Options {
        controller_id: shared.controller_id.clone(),
        ..options
    });
    let caches = Caches::new(&shared.feeds, options.templates.clone());
    let requesters = options
        .authorizes()
        .then(|| Requesters::new(Access::new(client.clone(), metrics.clone())));
    let pods = PodWebhook {
        caches: caches.clone(),
        apply: shared.apply.clone(),
        clock: shared.clock.clone(),
        requesters,
        attempts: Attempts::watching(&caches),
        options: options.clone(),
        namespace: shared.namespace.clone(),
        exempt: shared.exempt.clone(),
    };
    let mut parts = Parts::watching(&[Kind::PersistentVolumeClaim, Kind::Pod]);
    parts.webhooks = vec![hook(pods)];
    parts.safeguards = vec![strip_marker_hook()];
    let reconciler = PvcProvisionerReconciler {
        caches,
        live_claims: LiveGet::new(metrics.clone(), client),
        live_pod: LiveGet::new(metrics.clone(), client),
        live_pods: shared.live_pods.clone(),
        apply: shared.apply.clone(),
        options,
        exempt: shared.exempt.clone(),
        notices: Notices::new(shared.apply.clone()),
        waiting: Waiting::default(),
    };
    let queue = Arc::new(WorkQueue::default());
    reconciler.listen(&queue);
    reconciler.register_metrics(metrics);
    parts.reconcile(shared, reconciler, queue);
    parts
}
