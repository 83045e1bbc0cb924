//! What the server reports: to the user who deletes, in an Event, and in the metrics.

use super::support::Stage;
use crate::support::{Space, claim, volume};
use anyhow::{Result, ensure};
use kube::api::PostParams;
use serde_json::json;
use volume_warden_controlplane::{Call, Mark, eventually};

/// A claim `data` that the pod `user` uses, in a namespace of its own, and a claim `unused`. The
/// API server has heard of the webhook that warns.
async fn used(stage: &Stage, label: &str) -> Result<Space> {
    let space = Space::new(stage.cluster.clone(), label).await?;
    for name in ["data", "unused"] {
        space.create_claim(name).await?;
        space.claim_is_protected(name).await?;
    }
    space.create_running_pod("user", "data").await?;
    eventually("the API server asks about deletions", async || {
        let warnings = warnings(
            &space,
            &["pvc", "data", "-n", &space.name, "--dry-run=server"],
        )
        .await?;
        anyhow::Ok(!warnings.is_empty())
    })
    .await?;
    Ok(space)
}

/// What `kubectl delete` prints of warnings.
async fn warnings(space: &Space, what: &[&str]) -> Result<Vec<String>> {
    let delete = [&["delete", "--wait=false"], what].concat();
    space.cluster.kubectl_warnings(&delete).await
}

async fn deleted(space: &Space, claim: &str) -> Result<Vec<String>> {
    warnings(space, &["pvc", claim, "-n", &space.name]).await
}

/// The user who deletes this gets that warning and no other; none if the API server could not call
/// the webhook, which it reports.
async fn is_warned(space: &Space, what: &[&str], wanted: &str) -> Result<()> {
    let try_out = [what, &["--dry-run=server"]].concat();
    eventually("a deletion is warned of", async || {
        let reported = warnings(space, &try_out).await?;
        ensure!(reported == [wanted], "{reported:?}");
        Ok(())
    })
    .await?;
    let mark = space.cluster.audit().mark()?;
    let reported = warnings(space, what).await?;
    ensure!(
        reported == [wanted] || reported.is_empty() && was_not_asked(space, what, mark).await?,
        "{reported:?}"
    );
    Ok(())
}

/// By the audit log, the webhook that warns did not answer when this was deleted.
async fn was_not_asked(space: &Space, what: &[&str], mark: Mark) -> Result<bool> {
    let audit = space.cluster.audit();
    let deletion = eventually("the deletion is in the audit log", async || {
        let calls = audit.since(mark)?;
        // Others delete claims of this name in their namespaces. A volume has none.
        let here = |call: &Call| call.namespace.is_empty() || call.namespace == space.name;
        let this = |call: &Call| call.verb == "delete" && what.contains(&call.name.as_str());
        let mut deletions = calls.iter().filter(|call| here(call) && this(call));
        anyhow::Ok(deletions.next().cloned())
    });
    let unasked = deletion.await?.unasked;
    let warns = |webhook: &String| webhook.starts_with("deletions.");
    Ok(unasked.iter().any(warns))
}

#[tokio::test]
async fn whoever_deletes_a_claim_is_reported_who_holds_it() -> Result<()> {
    let stage = Stage::get().await?;
    let space = used(&stage, "why-warned").await?;
    let pod = format!("{}/user", space.name);
    let wanted = format!(
        "persistentvolumeclaim \"data\" stays Terminating for now. The claim is kept because pod {pod} uses it."
    );
    is_warned(&space, &["pvc", "data", "-n", &space.name], &wanted).await?;
    space.claim_is_held("data").await?;
    let none: [&str; 0] = [];
    assert_eq!(deleted(&space, "data").await?, none, "said already");
    assert_eq!(deleted(&space, "unused").await?, none, "it goes");
    space.claim_is_gone("unused").await
}

#[tokio::test]
async fn whoever_deletes_a_volume_is_reported_who_holds_it() -> Result<()> {
    let stage = Stage::get().await?;
    let space = used(&stage, "why-bound").await?;
    let (create, name) = (PostParams::default(), space.name.clone());
    let class = json!({"spec": {"storageClassName": name}});
    let wish = json!({"spec": {"storageClassName": name, "volumeName": name}});
    let made = space.volumes.create(&create, &volume(&name, class)?).await;
    made?;
    space.claims.create(&create, &claim("its", wish)?).await?;
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
    is_warned(&space, &["pv", &name], &wanted).await
}

/// It has no eyes to read a warning, and a namespace has ten thousand claims.
#[tokio::test]
async fn the_namespace_controller_is_reported_nothing() -> Result<()> {
    let stage = Stage::get().await?;
    let space = used(&stage, "why-namespace").await?;
    let delete = ["delete", "namespace", &space.name, "--timeout=300s"];
    stage.cluster.kubectl(&delete).await?;
    let (log, object) = (
        stage.warden.process().log(),
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
async fn who_holds_a_claim_is_an_event_once_and_a_metric() -> Result<()> {
    let stage = Stage::get().await?;
    let space = used(&stage, "why-reported").await?;
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
    let metrics = stage.warden.metrics().await?;
    let series = "volume_warden_claims_held{reason=\"InUse\"} ";
    let count = metrics.lines().find_map(|line| line.strip_prefix(series));
    ensure!(count.is_some_and(|count| count != "0"), "{metrics}");
    // When the other claim is reported, this one has been checked many times.
    space.delete_claim("later").await?;
    is_reported(&space, "later", "user-of-later").await?;
    is_reported(&space, "data", &wanted).await
}

/// One Event says that of the claim, and there is no other.
async fn is_reported(space: &Space, claim: &str, wanted: &str) -> Result<()> {
    eventually(&format!("{claim} is reported"), async || {
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
