//! Writes a webhook configuration once more after its webhooks have changed.
//!
//! The API server caches the webhooks of each configuration. A request that it handles while a
//! configuration changes can put the old webhooks back into that cache after the change has removed
//! them: without a path or caBundle, no call succeeds then. They stay there until the next change
//! of the configuration, or until the API server's resync, which takes up to ten minutes. (Source:
//! `getMutatingWebhookConfigurations` in `pkg/admission/configuration/mutating_webhook_manager.go`
//! of k8s.io/apiserver, 1.34 to 1.37; the one for validating webhooks does the same.)

use crate::{
    cluster::{Configurations, StoredConfiguration},
    objects::keys::REPEATED_GENERATION,
};
use kube::{Client, ResourceExt as _};

/// Writes the configuration once more, if that has not been done since its webhooks changed, by
/// whichever program. It changes only an annotation, so the generation remains the same.
pub(super) async fn repeat(client: &Client, found: &mut StoredConfiguration) -> kube::Result<()> {
    let Some(generation) = found.object.metadata.generation else {
        return Ok(());
    };
    let generation = generation.to_string();
    if found.object.annotations().get(REPEATED_GENERATION) == Some(&generation) {
        return Ok(());
    }
    Configurations::annotate(client, found, REPEATED_GENERATION, &generation).await
}
