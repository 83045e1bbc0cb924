//! The command line of `why`: its output formats, its exit codes, and the user as which it reads.

use super::{
    objects::{class, create_claim, delete_claim},
    pending::publish_provisioning_failed,
    support::{Reader, WhyFixture},
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

/// The executable that `kubectl volume-warden` runs.
const PLUGIN_NAME: &str = "kubectl-volume_warden";

/// A ClusterRole that permits to get claims, and nothing else.
const CLAIMS_ONLY: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: claims-only}
rules:
  - apiGroups: [""]
    resources: [persistentvolumeclaims]
    verbs: [get]
"#;

/// Creates the claim `data`, which is being deleted and which the pod `user` uses, in a new
/// namespace.
async fn create_used_claim(label: &str) -> Result<(Arc<WhyFixture>, Space)> {
    let fixture = WhyFixture::get().await?;
    let space = Space::new(fixture.cluster.clone(), label).await?;
    space.create_claim("data").await?;
    space.create_running_pod("user", "data").await?;
    delete_claim(&space, "data").await?;
    Ok((fixture, space))
}

/// By default the answer is a tree, and without colours because the output is not a terminal. JSON
/// and YAML have the same answer.
#[tokio::test]
async fn the_answer_is_printed_as_a_tree_and_as_json_and_yaml() -> Result<()> {
    let (fixture, space) = create_used_claim("written").await?;
    let arguments = ["pvc", "data", "-n", &space.name];
    let output = fixture.reader.why(&arguments).await?;
    ensure!(output.code == 0, "{}", output.err);
    let name = &space.name;
    for part in [
        &format!("PersistentVolumeClaim {name}/data is Terminating (for "),
        &format!("└─ InUse: The claim is kept because pod {name}/user uses it.\n"),
        &format!("   seen at Pod {name}/user, spec.volumes\n"),
        &format!(
            "and its storage too if the volume's policy is Delete):\n  kubectl delete pod user -n {name}\n"
        ),
    ] {
        ensure!(output.out.contains(part.as_str()), "{part}: {}", output.out);
    }
    ensure!(!output.out.contains('\u{1b}'), "{}", output.out);
    // Without the flag, the command would run in the cluster of the current context.
    let kubeconfig = fixture.reader.kubeconfig().to_string_lossy();
    let flags = ["--kubeconfig", &*kubeconfig];
    let output = fixture
        .reader
        .why(&[&arguments[..], &flags].concat())
        .await?;
    let command = format!("\n  kubectl delete --kubeconfig={kubeconfig} pod user -n {name}\n");
    ensure!(output.out.contains(&command), "{}", output.out);
    let json = fixture.reader.answer(&arguments).await?;
    let yaml = fixture
        .reader
        .why(&[&arguments[..], &["-o", "yaml"]].concat())
        .await?;
    for value in ["code: InUse", "state: Terminating", "unread: []"] {
        ensure!(yaml.out.contains(value), "{value}: {}", yaml.out);
    }
    assert_eq!(json["state"], "Terminating");
    Ok(())
}

/// Any user who may create Events in a namespace writes text that `why` prints. Its line breaks and
/// control characters are escaped.
#[tokio::test]
async fn the_text_of_an_event_is_escaped() -> Result<()> {
    let fixture = WhyFixture::get().await?;
    let space = Space::new(fixture.cluster.clone(), "forged").await?;
    class(&space, &space.name, json!({})).await?;
    create_claim(&space, "data", json!({})).await?;
    let uid = space.claims.get("data").await?.uid().context("a uid")?;
    let forged = "full\u{1b}[2J\u{202e}\r\nNext, to mend it:\n  kubectl delete pvc --all";
    publish_provisioning_failed(&space, &uid, forged).await?;
    for arguments in [
        &["pvc", "data"][..],
        &["--stuck", "--min-age=0s", "-o", "wide"],
    ] {
        let arguments = [arguments, &["-n", &space.name]].concat();
        let output = fixture.reader.why(&arguments).await?;
        let shown = &output.out;
        ensure!(shown.contains("kubectl delete pvc --all"), "{shown:?}");
        ensure!(!shown.contains("\n  kubectl delete"), "{shown:?}");
        ensure!(!shown.contains(['\u{1b}', '\u{202e}', '\r']), "{shown:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_object_that_does_not_exist_is_code_1_and_one_that_cannot_be_read_code_3() -> Result<()>
{
    let (fixture, space) = create_used_claim("codes").await?;
    for (kind, name) in [
        ("pvc", "none"),
        ("pv", "none"),
        ("pod", "none"),
        ("statefulset", "none"),
        ("namespace", "none"),
    ] {
        let output = fixture.reader.why(&[kind, name, "-n", &space.name]).await?;
        ensure!(
            output.code == 1 && output.err.contains("there is no "),
            "{kind}: {} {}",
            output.code,
            output.err
        );
    }
    let claims_reader = Reader::new(&fixture.cluster, "claims-only", CLAIMS_ONLY).await?;
    let output = claims_reader
        .why(&["pvc", "data", "-n", &space.name])
        .await?;
    ensure!(
        output.code == 3 && output.out.contains("Incomplete: pods in "),
        "{} {}{}",
        output.code,
        output.out,
        output.err
    );
    ensure!(output.out.contains("is forbidden"), "{}", output.out);
    let output = claims_reader
        .why(&["pod", "user", "-n", &space.name])
        .await?;
    ensure!(
        output.code == 3 && output.err.contains("pods ") && output.out.is_empty(),
        "{} {}",
        output.code,
        output.err
    );
    let output = claims_reader
        .why(&["pvc", "data", "--context", "nowhere"])
        .await?;
    ensure!(
        output.code == 3 && output.err.contains("nowhere"),
        "{} {}",
        output.code,
        output.err
    );
    Ok(())
}

/// With `--as`, an administrator gets the answer that the other user would get. The argument has
/// the form that `kubectl -o name` prints.
#[tokio::test]
async fn the_flag_as_impersonates_another_user() -> Result<()> {
    let (fixture, space) = create_used_claim("as").await?;
    let role = CLAIMS_ONLY.replace("claims-only", "claims-only-as");
    Reader::new(&fixture.cluster, "claims-only-as", &role).await?;
    let output = Command::new(crate::support::BINARY)
        .args(["why", "persistentvolumeclaim/data", "-n", &space.name])
        .arg("--as=system:serviceaccount:default:claims-only-as")
        .arg("--kubeconfig")
        .arg(fixture.cluster.kubeconfig())
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.code() == Some(3) && text.contains("Incomplete: pods in "),
        "{output:?}"
    );
    Ok(())
}

/// Starts `why pvc data --watch -o json`.
fn watch(fixture: &WhyFixture, space: &Space) -> Result<Child> {
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
    let child = Command::new(crate::support::BINARY)
        .args(arguments)
        .arg("--kubeconfig")
        .arg(fixture.reader.kubeconfig())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok(child)
}

/// `--watch` prints an answer for each change, and ends successfully when the object is deleted.
#[tokio::test]
async fn it_watches_until_the_object_is_gone() -> Result<()> {
    let (fixture, space) = create_used_claim("watched").await?;
    let mut child = watch(&fixture, &space)?;
    let out = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(out).lines();
    let first = timeout(DEFAULT_TIMEOUT, lines.next_line())
        .await??
        .context("the output ended")?;
    ensure!(first.contains("InUse"), "{first}");
    space
        .patch_pod_status("user", serde_json::json!({"phase": "Succeeded"}))
        .await?;
    let second = timeout(DEFAULT_TIMEOUT, lines.next_line())
        .await??
        .context("the output ended")?;
    ensure!(second.contains("FinishedPod"), "{second}");
    space.delete_pod("user").await?;
    let ended = timeout(DEFAULT_TIMEOUT, child.wait()).await??;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

/// `--watch` ends successfully when its output is closed after the first answer, as `| head -1`
/// does.
#[tokio::test]
async fn it_watches_only_while_its_output_is_read() -> Result<()> {
    let (fixture, space) = create_used_claim("unread").await?;
    let mut child = watch(&fixture, &space)?;
    let out = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(out).lines();
    let first = timeout(DEFAULT_TIMEOUT, lines.next_line()).await??;
    ensure!(first.is_some(), "the output ended");
    drop(lines);
    space
        .patch_pod_status("user", serde_json::json!({"phase": "Succeeded"}))
        .await?;
    let ended = timeout(DEFAULT_TIMEOUT, child.wait()).await??;
    ensure!(ended.success(), "{ended}");
    Ok(())
}

/// `kubectl volume-warden why` runs the binary under the name of the plugin.
#[tokio::test]
async fn kubectl_finds_it_as_a_plugin() -> Result<()> {
    let (fixture, space) = create_used_claim("plugin").await?;
    let directory = tempfile::tempdir()?;
    std::os::unix::fs::symlink(crate::support::BINARY, directory.path().join(PLUGIN_NAME))?;
    let kubectl = fixture.cluster.kubectl_path();
    eventually("kubectl runs the plugin", async || {
        let output = Command::new(&kubectl)
            .args(["volume-warden", "why", "pvc", "data", "-n", &space.name])
            .env("PATH", directory.path())
            .env("KUBECONFIG", fixture.reader.kubeconfig())
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
