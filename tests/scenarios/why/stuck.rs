//! Tests `why --stuck`, which lists all objects that are stuck, as a table, as JSON and as names.

use super::{
    objects::{create_claim, delete_claim},
    support::WhyFixture,
};
use crate::support::Space;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden_controlplane::eventually;

/// Creates a namespace with two stuck claims: `data` is being deleted and used by a pod, and the
/// StorageClass of `lacking` does not exist.
async fn create_stuck_claims(label: &str) -> Result<(Arc<WhyFixture>, Space)> {
    let fixture = WhyFixture::get().await?;
    let space = Space::new(fixture.cluster.clone(), label).await?;
    space.create_claim("data").await?;
    space.create_running_pod("user", "data").await?;
    delete_claim(&space, "data").await?;
    let class = json!({"spec": {"storageClassName": "none"}});
    create_claim(&space, "lacking", class).await?;
    Ok((fixture, space))
}

/// Each object of the answer with the code of its root cause.
fn roots(answer: &Value) -> Result<Vec<(String, String)>> {
    let items = answer["items"].as_array().context("no items")?;
    let root = |item: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        (text(&item["object"]), text(&item["root"]["code"]))
    };
    Ok(items.iter().map(root).collect())
}

/// `--stuck -n` lists each stuck object of the namespace with the root cause that `why` reports of
/// it. The table, `-o wide` and `-o name` list the same objects, and `--min-age` leaves out younger
/// ones.
#[tokio::test]
async fn the_stuck_objects_of_a_namespace_are_listed_with_their_roots() -> Result<()> {
    let (fixture, space) = create_stuck_claims("stuck").await?;
    let arguments = ["--stuck", "-n", &space.name, "--min-age=0s"];
    eventually("both claims are listed", async || {
        let answer = fixture.reader.answer(&arguments).await?;
        let expected = [("pvc/data", "InUse"), ("pvc/lacking", "ClassMissing")];
        let expected = expected.map(|(object, root)| (object.to_owned(), root.to_owned()));
        ensure!(roots(&answer)? == expected, "{answer:#}");
        ensure!(answer["unread"] == json!([]), "{answer:#}");
        Ok(())
    })
    .await?;
    let table = fixture.reader.why(&arguments).await?;
    let line = format!("volume-warden why pvc/data -n {}\n", space.name);
    ensure!(
        table.code == 0 && table.out.contains(&line),
        "{}",
        table.out
    );
    ensure!(table.out.lines().count() == 3, "{}", table.out);
    let wide = [&arguments[..], &["-o", "wide"]].concat();
    let wide = fixture.reader.why(&wide).await?;
    ensure!(wide.out.contains("because pod "), "{}", wide.out);
    let names = [&arguments[..], &["-o", "name"]].concat();
    let names = fixture.reader.why(&names).await?;
    ensure!(
        names.out == "persistentvolumeclaim/data\npersistentvolumeclaim/lacking\n",
        "{}",
        names.out
    );
    let old = ["--stuck", "-n", &space.name, "--min-age=10h"];
    let old = fixture.reader.why(&old).await?;
    ensure!(old.out == "Nothing is stuck.\n", "{}", old.out);
    Ok(())
}

/// `--stuck -A` needs at most 24 calls, however many stuck objects other tests have left.
#[tokio::test]
async fn the_stuck_objects_of_all_namespaces_are_listed() -> Result<()> {
    let (fixture, space) = create_stuck_claims("stuck-all").await?;
    eventually("both claims are listed", async || {
        let answer = fixture
            .reader
            .answer(&["-A", "--stuck", "--min-age=0s"])
            .await?;
        let items = answer["items"].as_array().context("no items")?;
        let here = items.iter().filter(|item| item["namespace"] == space.name);
        ensure!(here.count() == 2, "{answer:#}");
        ensure!(answer["calls"].as_u64() <= Some(24), "{answer:#}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_namespace_that_does_not_exist_is_code_1() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let reported = fixture.reader.why(&["--stuck", "-n", "none"]).await?;
    ensure!(
        reported.code == 1 && reported.err.contains("there is no Namespace none"),
        "{} {}",
        reported.code,
        reported.err
    );
    Ok(())
}
