//! The component as a value.

use super::{NAME, metrics, options::Options, reconcile::GreeterReconciler, webhooks::hook};
use clap::{Args as _, Command};
use futures::future::BoxFuture;
use std::sync::Arc;
use volume_warden::{
    cluster::{Configuration, WorkQueue},
    component::{Component, Parts, Shared},
    objects::Kind,
};

pub struct Greeter;

impl Component for Greeter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn webhook_configurations(&self) -> &'static [Configuration] {
        &[Configuration::Mutating("volume-warden-greeter")]
    }

    fn flags(&self, run: Command) -> Command {
        Options::augment_args(run)
    }

    fn build<'a>(&'a self, shared: &'a Shared) -> BoxFuture<'a, anyhow::Result<Parts>> {
        Box::pin(async { Ok(parts(shared, shared.options::<Options>()?)) })
    }
}

fn parts(shared: &Shared, options: Options) -> Parts {
    let greeting: Arc<str> = options.greeting.into();
    let queue = Arc::new(WorkQueue::default());
    let mut parts = Parts::watching(&[Kind::PersistentVolumeClaim]);
    parts.webhooks = vec![hook(greeting.clone())];
    let reconciler = GreeterReconciler {
        claims: shared.feeds.claims.clone(),
        apply: shared.apply.clone(),
        greeting,
        greetings: metrics::register(&shared.metrics),
    };
    reconciler.listen(&queue);
    parts.reconcile(shared, reconciler, queue);
    parts
}
