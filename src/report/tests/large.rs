//! Tests of the page of a cluster with 10,000 claims.

use super::*;
use std::time::{Duration, Instant};

/// Claims in 60 namespaces and 5 classes, of which two of three are in use, and
/// 2,000 volumes without a claim.
fn cluster() -> Listed {
    let mut random = fastrand::Rng::with_seed(1);
    let mut listed = Listed::default();
    for number in 0..10_000 {
        let namespace = format!("team-{:02}", random.u32(0..60).min(random.u32(0..60)));
        let class =
            ["standard", "fast", "archive", "shared"][random.usize(0..4).min(random.usize(0..4))];
        let size = format!("{}Gi", 1 << random.u32(0..11));
        let name = format!("data-{number}");
        let (month, day) = (random.u32(1..13), random.u32(1..29));
        let since = format!("2025-{month:02}-{day:02}T00:00:00Z");
        let changes = json!({
            "metadata": {"namespace": namespace},
            "spec": {"storageClassName": class},
            "status": {"capacity": {"storage": size}, "conditions": [
                {"type": "Unused", "status": "True", "lastTransitionTime": since}]},
        });
        listed.claims.push(read(claim(&name, changes)));
        if number % 3 != 0 {
            let (_, pod) = pod(&format!("pod-{number}"), &name, "Running");
            listed.pods.push((namespace.clone(), pod));
        }
        let recorded = volume(&format!("pv-{name}"), "Bound", record(&name, "Delete"));
        listed
            .volumes
            .extend((number % 7 == 0).then(|| read(recorded)));
        if number % 5 == 0 {
            let of = json!({"spec": {"storageClassName": class, "capacity": {"storage": size},
                "claimRef": {"namespace": namespace}}});
            listed.volumes.push(read(other(number / 5, of)));
        }
    }
    listed
}

/// A volume that has no claim.
fn other(number: usize, mut changes: Value) -> Value {
    let phase = ["Released", "Available", "Released", "Failed"][number % 4];
    let metadata = match number % 8 {
        0 | 6 => record(&format!("of-pv-{number}"), "Delete")["metadata"].clone(),
        2 => json!({"deletionTimestamp": "2026-01-20T00:00:00Z"}),
        _ => json!({}),
    };
    json_patch::merge(&mut changes, &json!({"metadata": metadata}));
    volume(&format!("pv-{number}"), phase, changes)
}

/// The page of 10,000 claims is as long as that of 1,000, and takes little time also without
/// optimization. With `VOLUME_WARDEN_WRITE_PAGE=FILE`, the test writes it.
#[test]
fn ten_thousand_claims_fit_on_a_page() {
    let listed = cluster();
    let prices: Prices = [("standard".to_owned(), 0.08), ("fast".to_owned(), 0.2)].into();
    let begun = Instant::now();
    let page = page(&listed, None, &prices);
    let taken = begun.elapsed();
    println!("{} bytes in {taken:?}", page.len());
    if let Some(file) = std::env::var_os("VOLUME_WARDEN_WRITE_PAGE") {
        std::fs::write(file, &page).expect("the page is written");
    }
    assert!(page.len() < 1_000_000, "{}", page.len());
    assert!(taken < Duration::from_secs(10), "{taken:?}");
}
