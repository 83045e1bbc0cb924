//! What each component is made of.

use super::Assembly;
use crate::{
    admission::Review,
    cluster::{Access, LiveGet, SharedList, WorkQueue},
    components::{
        Component, namespace_gc,
        pv_protection::{self, PvProtection},
        pv_releaser::{self, PvReleaser},
        pvc_protection::{self, PvcProtection},
        pvc_provisioner::{self, PvcProvisioner},
        pvc_retention::{self, Caches, PvcRetention},
    },
};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Assembly {
    pub(super) fn add_pvc_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        let live_claims = LiveGet::namespaced(context.metrics.clone(), &context.client);
        self.hooks.extend(pvc_protection::hooks(
            &feeds.claims,
            &live_claims,
            &feeds.pods,
            &context.exempt,
        ));
        let deletions = pvc_protection::deletions_hook(&feeds.pods, context.finished_pods);
        self.hooks.push(deletions);
        let teller = pvc_protection::Teller {
            claims: feeds.claims.clone(),
            pods: feeds.pods.clone(),
            apply: context.apply.clone(),
            leadership: context.leadership.clone(),
            finished_pods: context.finished_pods,
            told: Arc::default(),
        };
        self.reconcilers.push(Box::pin(teller.run(stop.clone())));
        let component = PvcProtection {
            claims: feeds.claims,
            pods: feeds.pods,
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            finished_pods: context.finished_pods,
        };
        component.listen(&queue);
        component.register_metrics(&context.metrics);
        self.reconcile(Component::PvcProtection, component, queue, stop);
    }

    pub(super) fn add_pv_protection(&mut self, stop: &CancellationToken) {
        let (context, feeds) = (&self.context, self.feeds.clone());
        let queue = Arc::new(WorkQueue::default());
        let live_claims = LiveGet::namespaced(context.metrics.clone(), &context.client);
        self.hooks.extend(pv_protection::hooks(
            &feeds.claims,
            &live_claims,
            context.namespace.as_deref(),
        ));
        self.hooks.push(pv_protection::deletions_hook());
        let component = PvProtection {
            volumes: feeds.volumes,
            apply: context.apply.clone(),
        };
        component.listen(&queue);
        component.register_metrics(&context.metrics);
        self.reconcile(Component::PvProtection, component, queue, stop);
    }

    /// Where claims are protected too, the claims of sets get their finalizer in the same call: the manifests have them sent here only.
    pub(super) fn add_pvc_retention(&mut self, protects: bool, stop: &CancellationToken) {
        let (context, sets) = (&self.context, &self.feeds.sets);
        let live_sets = LiveGet::namespaced(context.metrics.clone(), &context.client);
        let queue = Arc::new(WorkQueue::default());
        let mut hook = pvc_retention::hook(sets, &live_sets, context.namespace.as_deref());
        if protects {
            hook.review = hook
                .review
                .and(Review::from_memory(pvc_protection::protect));
        }
        self.hooks.push(hook);
        self.hooks.push(pvc_retention::strip_marker_hook());
        let component = PvcRetention {
            caches: Caches::from(&self.feeds),
            live_sets,
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            told: Arc::default(),
        };
        component.listen(&queue);
        component.register_metrics(&context.metrics);
        self.reconcile(Component::PvcRetention, component, queue, stop);
    }

    pub(super) fn add_pvc_provisioner(&mut self, stop: &CancellationToken) {
        let context = &self.context;
        let (client, metrics) = (&context.client, &context.metrics);
        let caches = pvc_provisioner::Caches::from(&self.feeds);
        let requesters = context.provisioning.authorizes().then(|| {
            let access = Access::new(client.clone(), metrics.clone());
            pvc_provisioner::Requesters::new(access)
        });
        self.hooks
            .push(pvc_provisioner::hook(pvc_provisioner::PodWebhook {
                caches: caches.clone(),
                apply: context.apply.clone(),
                requesters,
                options: context.provisioning.clone(),
                namespace: context.namespace.clone(),
                exempt: context.exempt.clone(),
            }));
        self.hooks.push(pvc_provisioner::strip_marker_hook());
        let component = PvcProvisioner {
            caches,
            live_claims: LiveGet::namespaced(metrics.clone(), client),
            live_pod: LiveGet::namespaced(metrics.clone(), client),
            live_pods: self.live_pods.clone(),
            apply: context.apply.clone(),
            options: context.provisioning.clone(),
            tell: pvc_provisioner::Tell::new(context.apply.clone()),
            waiting: pvc_provisioner::Waiting::default(),
        };
        let queue = Arc::new(WorkQueue::default());
        component.listen(&queue);
        component.register_metrics(metrics);
        self.reconcile(Component::PvcProvisioner, component, queue, stop);
    }

    /// Where volumes are protected too, they get their finalizer in the same call: the manifests have them sent here only.
    pub(super) fn add_pv_releaser(&mut self, protects: bool, stop: &CancellationToken) {
        let (context, namespace) = (&self.context, self.context.namespace.as_deref());
        if let Some(namespace) = namespace {
            tracing::warn!(
                namespace,
                "volumes have no namespace, so pv-releaser looks after all that are labelled; only claims of this one get volumes labelled"
            );
        }
        let caches = pv_releaser::Caches::new(&self.feeds, namespace, context.releasing.clone());
        let mut hook = pv_releaser::hook(&caches);
        if protects {
            let protect = Review::from_memory(pv_protection::protect);
            hook.review = hook.review.and(protect);
        }
        self.hooks.push(hook);
        let component = PvReleaser {
            caches,
            live_attachments: SharedList::whole(context.metrics.clone(), &context.client),
            apply: context.apply.clone(),
            told: Arc::default(),
        };
        let queue = Arc::new(WorkQueue::default());
        component.listen(&queue);
        component.register_metrics(&context.metrics);
        self.reconcile(Component::PvReleaser, component, queue, stop);
    }

    /// Without a storage backend it does nothing, and watches nothing.
    pub(super) fn add_namespace_gc(&mut self, stop: &CancellationToken) {
        let context = &self.context;
        let Some(collecting) = context.collecting() else {
            let why = match context.collecting {
                Some(_) => "it looks after whole clusters, not one --namespace",
                None => "there is no --storage-backend",
            };
            tracing::info!(component = namespace_gc::NAME, why, "inactive");
            return;
        };
        let means = namespace_gc::GcDeps {
            client: context.client.clone(),
            namespaces: self.feeds.namespaces.clone(),
            apply: context.apply.clone(),
            leadership: context.leadership.clone(),
            metrics: context.metrics.clone(),
        };
        let parts = namespace_gc::assemble(&means, collecting, stop);
        self.reconcilers.extend(parts.background);
        self.reconcile(Component::NamespaceGc, parts.reconcile, parts.queue, stop);
    }
}
