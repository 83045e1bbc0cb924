//! The command line around the answer: how it is written, what code it ends with, and with whose
//! rights it asks.

use super::{
    objects::{a_claim, class, delete_claim},
    pending::failed_with,
    support::{Reader, Stage},
};
use crate::support::Space;
use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::json;
use std::process::Stdio;
use std::sync::Arc;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};
use volume_warden_controlplane::{DEFAULT_TIMEOUT, eventually};

/// What kubectl looks for when it is called as `kubectl volume-warden`.
const BINARY_AS_PLUGIN: &str = "kubectl-volume_warden";

/// A client who may read claims and nothing else.
const CLAIMS_ONLY: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: claims-only}
rules:
  - apiGroups: [""]
    resources: [persistentvolumeclaims]
    verbs: [get]
"#;

async fn used(label: &str) -> Result<(Arc<Stage>, Space)> {
    let stage = Stage::get().await?;
    let space = Space::new(stage.cluster.clone(), label).await?;
    space.create_claim("data").await?;
    space.create_running_pod("user", "data").await?;
    delete_claim(&space, "data").await?;
    Ok((stage, space))
}

/// A tree, without colours unless the output is a terminal; YAML and JSON say the same.
#[tokio::test]
async fn it_is_written_for_people_and_for_programs() -> Result<()> {
    let (stage, space) = used("written").await?;
    let arguments = ["pvc", "data", "-n", &space.name];
    let reported = stage.reader.why(&arguments).await?;
    ensure!(reported.code == 0, "{}", reported.err);
    let name = &space.name;
    for words in [
        &format!("PersistentVolumeClaim {name}/data is Terminating (for "),
        &format!("└─ InUse: The claim is kept because pod {name}/user uses it.\n"),
        &format!("   seen at Pod {name}/user, spec.volumes\n"),
        &format!(
            "and its storage too if the volume's policy is Delete):\n  kubectl delete pod user -n {name}\n"
        ),
    ] {
        ensure!(
            reported.out.contains(words.as_str()),
            "{words}: {}",
            reported.out
        );
    }
    ensure!(!reported.out.contains('\u{1b}'), "{}", reported.out);
    let json = stage.reader.answer(&arguments).await?;
    let yaml = stage
        .reader
        .why(&[&arguments[..], &["-o", "yaml"]].concat())
        .await?;
    for value in ["code: InUse", "state: Terminating", "unread: []"] {
        ensure!(yaml.out.contains(value), "{value}: {}", yaml.out);
    }
    assert_eq!(json["state"], "Terminating");
    Ok(())
}

/// Every tenant who may create Events writes text that an administrator reads here.
#[tokio::test]
async fn the_text_of_an_event_is_escaped() -> Result<()> {
    let stage = Stage::get().await?;
    let space = Space::new(stage.cluster.clone(), "forged").await?;
    class(&space, &space.name, json!({})).await?;
    a_claim(&space, "data", json!({})).await?;
    let uid = space.claims.get("data").await?.uid().context("a uid")?;
    let forged = "full\u{1b}[2J\u{202e}\r\nNext, to mend it:\n  kubectl delete pvc --all";
    failed_with(&space, &uid, forged).await?;
    for arguments in [
        &["pvc", "data"][..],
        &["--stuck", "--min-age=0s", "-o", "wide"],
    ] {
        let arguments = [arguments, &["-n", &space.name]].concat();
        let reported = stage.reader.why(&arguments).await?;
        let shown = &reported.out;
        ensure!(shown.contains("kubectl delete pvc --all"), "{shown:?}");
        ensure!(!shown.contains("\n  kubectl delete"), "{shown:?}");
        ensure!(!shown.contains(['\u{1b}', '\u{202e}', '\r']), "{shown:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_code_1_and_one_that_cannot_be_read_code_3() -> Result<()>
{
    let (stage, space) = used("codes").await?;
    for (kind, name) in [
        ("pvc", "none"),
        ("pv", "none"),
        ("pod", "none"),
        ("statefulset", "none"),
        ("namespace", "none"),
    ] {
        let reported = stage.reader.why(&[kind, name, "-n", &space.name]).await?;
        ensure!(
            reported.code == 1 && reported.err.contains("there is no "),
            "{kind}: {} {}",
            reported.code,
            reported.err
        );
    }
    let stranger = Reader::new(&stage.cluster, "claims-only", CLAIMS_ONLY).await?;
    let reported = stranger.why(&["pvc", "data", "-n", &space.name]).await?;
    ensure!(
        reported.code == 3 && reported.out.contains("Not known: pods in "),
        "{} {}{}",
        reported.code,
        reported.out,
        reported.err
    );
    ensure!(reported.out.contains("is forbidden"), "{}", reported.out);
    let reported = stranger.why(&["pod", "user", "-n", &space.name]).await?;
    ensure!(
        reported.code == 3 && reported.err.contains("pods ") && reported.out.is_empty(),
        "{} {}",
        reported.code,
        reported.err
    );
    let reported = stranger
        .why(&["pvc", "data", "--context", "nowhere"])
        .await?;
    ensure!(
        reported.code == 3 && reported.err.contains("nowhere"),
        "{} {}",
        reported.code,
        reported.err
    );
    Ok(())
}

/// With `--as` an administrator sees what another user would see. The object is named as kubectl
/// prints it.
#[tokio::test]
async fn it_answers_as_another_user() -> Result<()> {
    let (stage, space) = used("as").await?;
    let role = CLAIMS_ONLY.replace("claims-only", "claims-only-as");
    Reader::new(&stage.cluster, "claims-only-as", &role).await?;
    let output = Command::new(crate::support::BINARY)
        .args(["why", "persistentvolumeclaim/data", "-n", &space.name])
        .arg("--as=system:serviceaccount:default:claims-only-as")
        .arg("--kubeconfig")
        .arg(stage.cluster.kubeconfig())
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.code() == Some(3) && text.contains("Not known: pods in "),
        "{output:?}"
    );
    Ok(())
}

/// `why pvc data --watch -o json`, started.
fn watch(stage: &Stage, space: &Space) -> Result<Child> {
    let arguments = [
        "why",
        "pvc",
        "data",
        "--watch",
        "-o",
        "json",
        "-n",
        &space.name,
    ];
    let watching = Command::new(crate::support::BINARY)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(stage.reader.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(watching)
}

/// An answer for each change, until the object is gone.
#[tokio::test]
async fn it_watches_until_the_object_is_gone() -> Result<()> {
    let (stage, space) = used("watched").await?;
    let mut watching = watch(&stage, &space)?;
    let out = watching.stdout.take().context("no output")?;
    let mut lines = BufReader::new(out).lines();
    let first = timeout(DEFAULT_TIMEOUT, lines.next_line())
        .await??
        .context("it ended")?;
    ensure!(first.contains("InUse"), "{first}");
    space
        .patch_pod_status("user", serde_json::json!({"phase": "Succeeded"}))
        .await?;
    let second = timeout(DEFAULT_TIMEOUT, lines.next_line())
        .await??
        .context("it ended")?;
    ensure!(second.contains("FinishedPod"), "{second}");
    space.delete_pod("user").await?;
    let ended = timeout(DEFAULT_TIMEOUT, watching.wait()).await??;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

/// As with `| head -1`: nothing reads what is printed after the first answer.
#[tokio::test]
async fn it_watches_only_while_its_output_is_read() -> Result<()> {
    let (stage, space) = used("unread").await?;
    let mut watching = watch(&stage, &space)?;
    let out = watching.stdout.take().context("no output")?;
    let mut lines = BufReader::new(out).lines();
    let first = timeout(DEFAULT_TIMEOUT, lines.next_line()).await??;
    ensure!(first.is_some(), "it ended");
    drop(lines);
    space
        .patch_pod_status("user", serde_json::json!({"phase": "Succeeded"}))
        .await?;
    let ended = timeout(DEFAULT_TIMEOUT, watching.wait()).await??;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

/// `kubectl volume-warden why`, from the same binary under the name that kubectl looks for.
#[tokio::test]
async fn kubectl_finds_it_as_a_plugin() -> Result<()> {
    let (stage, space) = used("plugin").await?;
    let directory = tempfile::tempdir()?;
    std::os::unix::fs::symlink(
        crate::support::BINARY,
        directory.path().join(BINARY_AS_PLUGIN),
    )?;
    let kubectl = stage.cluster.kubectl_path();
    eventually("kubectl passes it on", async || {
        let output = Command::new(&kubectl)
            .args(["volume-warden", "why", "pvc", "data", "-n", &space.name])
            .env("PATH", directory.path())
            .env("KUBECONFIG", stage.reader.kubeconfig())
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success() && text.contains("InUse"),
            "{text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    })
    .await
}
