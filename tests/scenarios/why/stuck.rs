//! Everything that is stuck, as a table and for programs.

use super::{
    objects::{a_claim, delete_claim},
    support::Stage,
};
use crate::support::Space;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden_controlplane::eventually;

/// A namespace with a claim that is being deleted and used, and one whose StorageClass is missing.
async fn stuck(label: &str) -> Result<(Arc<Stage>, Space)> {
    let stage = Stage::get().await?;
    let space = Space::new(stage.cluster.clone(), label).await?;
    space.create_claim("data").await?;
    space.create_running_pod("user", "data").await?;
    delete_claim(&space, "data").await?;
    let class = json!({"spec": {"storageClassName": "none"}});
    a_claim(&space, "lacking", class).await?;
    Ok((stage, space))
}

fn roots(answer: &Value) -> Result<Vec<(String, String)>> {
    let items = answer["items"].as_array().context("no items")?;
    let root = |item: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        (text(&item["object"]), text(&item["root"]["code"]))
    };
    Ok(items.iter().map(root).collect())
}

/// The roots are those of `why` about each object, and one namespace is read with its own rights.
#[tokio::test]
async fn the_stuck_objects_of_a_namespace_are_listed_with_their_roots() -> Result<()> {
    let (stage, space) = stuck("stuck").await?;
    let arguments = ["--stuck", "-n", &space.name, "--min-age=0s"];
    eventually("both claims are listed", async || {
        let answer = stage.reader.answer(&arguments).await?;
        let expected = [("pvc/data", "InUse"), ("pvc/lacking", "ClassMissing")];
        let expected = expected.map(|(object, root)| (object.to_owned(), root.to_owned()));
        ensure!(roots(&answer)? == expected, "{answer:#}");
        ensure!(answer["unread"] == json!([]), "{answer:#}");
        Ok(())
    })
    .await?;
    let table = stage.reader.why(&arguments).await?;
    let line = format!("volume-warden why pvc/data -n {}\n", space.name);
    ensure!(
        table.code == 0 && table.out.contains(&line),
        "{}",
        table.out
    );
    ensure!(table.out.lines().count() == 3, "{}", table.out);
    let wide = [&arguments[..], &["-o", "wide"]].concat();
    let wide = stage.reader.why(&wide).await?;
    ensure!(wide.out.contains("because pod "), "{}", wide.out);
    let names = [&arguments[..], &["-o", "name"]].concat();
    let names = stage.reader.why(&names).await?;
    ensure!(
        names.out == "persistentvolumeclaim/data\npersistentvolumeclaim/lacking\n",
        "{}",
        names.out
    );
    let old = ["--stuck", "-n", &space.name, "--min-age=10h"];
    let old = stage.reader.why(&old).await?;
    ensure!(old.out == "Nothing is stuck.\n", "{}", old.out);
    Ok(())
}

/// In all namespaces, the number of calls is bounded, whatever other tests leave behind.
#[tokio::test]
async fn the_stuck_objects_of_all_namespaces_are_listed() -> Result<()> {
    let (stage, space) = stuck("stuck-all").await?;
    eventually("both claims are listed", async || {
        let answer = stage
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
    let stage = Stage::get().await?;
    let reported = stage.reader.why(&["--stuck", "-n", "none"]).await?;
    ensure!(
        reported.code == 1 && reported.err.contains("there is no Namespace none"),
        "{} {}",
        reported.code,
        reported.err
    );
    Ok(())
}
