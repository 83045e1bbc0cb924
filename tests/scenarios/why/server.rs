//! What Volume Warden reports about the holder of a deleted object: admission warnings, an Event
//! and a metric.

use super::support::WhyFixture;
use crate::support::{Space, claim, volume};
use anyhow::{Result, ensure};
use kube::api::PostParams;
use serde_json::json;
use volume_warden_controlplane::{Call, Mark, eventually};

/// Creates a namespace with the claim `data`, which the pod `user` uses, and the claim `unused`.
/// Waits until the API server calls the webhook that warns of deletions.
async fn create_claims(fixture: &WhyFixture, label: &str) -> Result<Space> {
    let space = Space::new(fixture.cluster.clone(), label).await?;
    for name in ["data", "unused"] {
        space.create_claim(name).await?;
        space.claim_is_protected(name).await?;
    }
    space.create_running_pod("user", "data").await?;
    eventually(
        "the API server calls the webhook that warns of deletions",
        async || {
            let warnings = deletion_warnings(
                &space,
                &["pvc", "data", "-n", &space.name, "--dry-run=server"],
            )
            .await?;
            anyhow::Ok(!warnings.is_empty())
        },
    )
    .await?;
    Ok(space)
}

/// The warnings that `kubectl delete` prints.
async fn deletion_warnings(space: &Space, what: &[&str]) -> Result<Vec<String>> {
    let delete = [&["delete", "--wait=false"], what].concat();
    space.cluster.kubectl_warnings(&delete).await
}

/// Returns the warnings for a deletion of the claim, from a dry run. Repeats the dry run if the
/// webhook failed open, because the API server then returns no warning.
async fn dry_run_warnings(space: &Space, claim: &str) -> Result<Vec<String>> {
    let delete = ["pvc", claim, "-n", &space.name, "--dry-run=server"];
    eventually("the webhook does not fail open", async || {
        let mark = space.cluster.audit().mark()?;
        let warnings = deletion_warnings(space, &delete).await?;
        let is_reviewed = !has_failed_open(space, &delete, mark).await?;
        anyhow::Ok(Some(warnings).filter(|_| is_reviewed))
    })
    .await
}

/// Deletes the object, and checks that `wanted` is the only warning. There may be none if the API
/// server could not call the webhook, which the audit log shows.
async fn warns_of_deletion(space: &Space, what: &[&str], wanted: &str) -> Result<()> {
    let dry_run = [what, &["--dry-run=server"]].concat();
    eventually("a dry run of the deletion gets the warning", async || {
        let reported = deletion_warnings(space, &dry_run).await?;
        ensure!(reported == [wanted], "{reported:?}");
        Ok(())
    })
    .await?;
    let mark = space.cluster.audit().mark()?;
    let reported = deletion_warnings(space, what).await?;
    ensure!(
        reported == [wanted] || reported.is_empty() && has_failed_open(space, what, mark).await?,
        "{reported:?}"
    );
    Ok(())
}

/// Whether the API server deleted the object without an answer of the webhook that warns, as the
/// audit log shows.
async fn has_failed_open(space: &Space, what: &[&str], mark: Mark) -> Result<bool> {
    let audit = space.cluster.audit();
    let deletion = eventually("the deletion is in the audit log", async || {
        let calls = audit.since(mark)?;
        // Other tests delete claims of this name in their namespaces. A volume has no namespace.
        let is_in_namespace =
            |call: &Call| call.namespace.is_empty() || call.namespace == space.name;
        let is_deletion = |call: &Call| call.verb == "delete" && what.contains(&call.name.as_str());
        let mut deletions = calls
            .iter()
            .filter(|call| is_in_namespace(call) && is_deletion(call));
        anyhow::Ok(deletions.next().cloned())
    });
    let failed_open = deletion.await?.failed_open;
    let is_warning = |webhook: &String| webhook.starts_with("deletions.");
    Ok(failed_open.iter().any(is_warning))
}

#[tokio::test]
async fn deleting_a_claim_warns_which_pod_uses_it() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = create_claims(&fixture, "why-warned").await?;
    let pod = format!("{}/user", space.name);
    let wanted = format!(
        "persistentvolumeclaim \"data\" stays Terminating for now. The claim is kept because pod {pod} uses it."
    );
    warns_of_deletion(&space, &["pvc", "data", "-n", &space.name], &wanted).await?;
    space.claim_is_held("data").await?;
    let none: [&str; 0] = [];
    assert_eq!(
        dry_run_warnings(&space, "data").await?,
        none,
        "the claim is already being deleted"
    );
    assert_eq!(
        dry_run_warnings(&space, "unused").await?,
        none,
        "the claim is not in use"
    );
    space.delete_claim("unused").await?;
    space.claim_is_gone("unused").await
}

#[tokio::test]
async fn deleting_a_volume_warns_which_claim_is_bound_to_it() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = create_claims(&fixture, "why-bound").await?;
    let (create, name) = (PostParams::default(), space.name.clone());
    let class = json!({"spec": {"storageClassName": name}});
    let bound_to_volume = json!({"spec": {"storageClassName": name, "volumeName": name}});
    let created = space.volumes.create(&create, &volume(&name, class)?).await;
    created?;
    space
        .claims
        .create(&create, &claim("its", bound_to_volume)?)
        .await?;
    eventually("the volume is Bound", async || {
        let volume = space.volumes.get(&name).await?;
        let phase = volume.status.and_then(|status| status.phase);
        anyhow::Ok(phase.as_deref() == Some("Bound"))
    })
    .await?;
    let wanted = format!(
        "persistentvolume \"{name}\" stays Terminating for now. The volume is kept because the claim {name}/its is \
         bound to it; it can be deleted once the claim is deleted."
    );
    warns_of_deletion(&space, &["pv", &name], &wanted).await
}

/// The match conditions of the webhook that warns exclude the controllers of the cluster. The
/// namespace controller deletes all claims of a namespace, and does not read warnings.
#[tokio::test]
async fn the_namespace_controller_gets_no_warnings() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = create_claims(&fixture, "why-namespace").await?;
    let delete = ["delete", "namespace", &space.name, "--timeout=300s"];
    fixture.cluster.kubectl(&delete).await?;
    let (log, object) = (
        fixture.warden.process().log(),
        format!("object={}/", space.name),
    );
    let reviews = log
        .lines()
        .filter(|line| line.contains("/pvc-protection/deletions") && line.contains(&object));
    let (own, others): (Vec<_>, Vec<_>) = reviews.partition(|line| line.contains("user=\"admin\""));
    ensure!(!own.is_empty(), "the log reports no review: {log}");
    ensure!(others.is_empty(), "{others:?}");
    Ok(())
}

#[tokio::test]
async fn the_holder_of_a_claim_is_reported_in_one_event_and_a_metric() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = create_claims(&fixture, "why-reported").await?;
    space.create_claim("later").await?;
    space.claim_is_protected("later").await?;
    space.create_running_pod("user-of-later", "later").await?;
    space.delete_claim("data").await?;
    let wanted = format!(
        "The claim is kept because pod {0}/user uses it. What to do, once neither the pod nor the data of the claim is needed (the claim \
         is deleted automatically when no pod uses it, and its storage too if the volume's policy is Delete): kubectl delete pod user -n {0}",
        space.name
    );
    is_reported(&space, "data", &wanted).await?;
    let metrics = fixture.warden.metrics().await?;
    let series = "volume_warden_claims_held{reason=\"InUse\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(series));
    ensure!(count.is_some_and(|count| count != "0"), "{metrics}");
    // When the Event about `later` exists, `data` has been checked many times.
    space.delete_claim("later").await?;
    is_reported(&space, "later", "user-of-later").await?;
    is_reported(&space, "data", &wanted).await
}

/// Waits until the only Event `ClaimHeld` about the claim contains `wanted`.
async fn is_reported(space: &Space, claim: &str, wanted: &str) -> Result<()> {
    eventually(&format!("the Event about {claim} exists"), async || {
        let mut events = space.events_with("ClaimHeld").await?;
        events.retain(|event| event.involved_object.name.as_deref() == Some(claim));
        let [event] = &events[..] else {
            anyhow::bail!("{events:?}");
        };
        let (note, kind) = (event.message.clone(), event.type_.as_deref());
        let note = note.unwrap_or_default();
        ensure!(note.contains(wanted) && kind == Some("Normal"), "{event:?}");
        ensure!(event.series.is_none(), "{event:?}");
        Ok(())
    })
    .await
}
