//! Histories in which claims expire while pods are created and deleted.

use volume_warden_sim::{plan::Plan, world};

/// The seeds of histories in which claims expire.
fn seeds() -> impl Iterator<Item = u64> {
    (0..480).map(|number| number * 16 + 12)
}

#[test]
fn no_claim_expires_that_a_pod_names_or_that_could_not_be_restored() -> anyhow::Result<()> {
    let mut expired = 0;
    for seed in seeds() {
        let plan = Plan::new(seed);
        assert!(plan.expire_unused().is_some(), "seed {seed}");
        let outcome = world::run(&plan, true)?;
        assert!(
            outcome.violations.is_empty(),
            "seed {seed}: {:?}",
            outcome.violations
        );
        let deletes = |line: &&String| {
            line.contains("replica") && line.contains("DELETE namespaces/ns/persistentvolumeclaims")
        };
        expired += outcome.transcript.iter().filter(deletes).count();
    }
    assert!(expired >= 50, "only {expired} claims expired");
    Ok(())
}
