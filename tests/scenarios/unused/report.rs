//! `volume-warden unused` and `report` on the real control plane, for a user who may only read.

use super::Fixture;
use crate::support::{BINARY, define_kind, rbac};
use anyhow::{Context, Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};
use std::process::Command;

/// The number of calls that the documentation promises for each command, with one path to custom
/// resources.
const CALLS: usize = 11 + 2;

/// Where the custom resources of this test name claims.
const REFERENCES: &str = "--references=unused.example/Database:.spec.disks[*].claim";

/// What a row must show: the claim, its state, and what refers to it.
type Expected = (&'static str, &'static str, &'static str);

fn workload(kind: &str, name: &str, spec: Value) -> Value {
    let version = match kind {
        "CronJob" | "Job" => "batch/v1",
        _ => "apps/v1",
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn template(claim: &str, policy: &str) -> Value {
    json!({"metadata": {"labels": {"app": claim}}, "spec": {
        "restartPolicy": policy, "containers": [{"name": "main", "image": "main"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

/// Workloads that have no pod.
fn workloads() -> [Value; 4] {
    let selector = |claim: &str| json!({"matchLabels": {"app": claim}});
    let scaled = json!({"replicas": 0, "selector": selector("scaled"), "template": template("scaled", "Always")});
    let set = json!({"replicas": 0, "serviceName": "web", "selector": selector("web"),
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "main"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]});
    let cron = json!({"suspend": true, "schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template("cron", "Never")}}});
    let mut daemons = template("daemons", "Always");
    daemons["spec"]["nodeSelector"] = json!({"example.com/none": "here"});
    let daemons = json!({"selector": selector("daemons"), "template": daemons});
    [
        workload("DaemonSet", "agents", daemons),
        workload("Deployment", "shop", scaled),
        workload("StatefulSet", "web", set),
        workload("CronJob", "backup", cron),
    ]
}

impl Fixture {
    /// Runs a command as a user who may only read, and returns what it prints.
    async fn stdout(&self, arguments: &[&str], user: &str) -> Result<Vec<u8>> {
        let kubeconfig = self.0.cluster.kubeconfig();
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .args([REFERENCES, "-n", &self.0.name, "--as", user]);
        command.arg("--kubeconfig").arg(kubeconfig);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // The cluster does not have this kind, and the user has no permission to find that out.
        let is_expected = stderr
            .lines()
            .all(|line| line.contains("VolumeSnapshots could not be listed"));
        ensure!(output.status.success() && is_expected, "{stderr}");
        Ok(output.stdout)
    }

    /// Returns the report of `unused` for this user.
    async fn report(&self, user: &str) -> Result<Value> {
        let stdout = self.stdout(&["unused", "--output=json"], user).await?;
        Ok(serde_json::from_slice(&stdout)?)
    }

    /// Checks that the page of `report` has the numbers of `unused`.
    async fn page_agrees(&self, user: &str, report: &Value) -> Result<()> {
        let stdout = self.stdout(&["report", "--html=-"], user).await?;
        let page = String::from_utf8(stdout)?;
        ensure!(
            row(&page, "Used").contains("<td class=\"number\">1</td>"),
            "{page}"
        );
        for state in ["Unused", "Released"] {
            let items = report["items"].as_array().context("a list")?;
            let items = items.iter().filter(|item| item["state"] == state);
            let bytes: f64 = items
                .clone()
                .filter_map(|item| item["bytes"].as_f64())
                .sum();
            let row = row(&page, state);
            let number = format!("<td class=\"number\">{}</td>", items.count());
            let size = format!("<data value=\"{bytes:.0}\">");
            ensure!(
                row.contains(&number) && row.contains(&size),
                "{state}: {row}"
            );
        }
        Ok(())
    }
}

/// The row of the page with this identifier.
fn row<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("<tr id=\"{id}\">"))
        .unwrap_or_default();
    rest.split("</tr>").next().unwrap_or_default()
}

#[tokio::test]
async fn the_report_lists_unused_claims_and_their_referrers() -> Result<()> {
    let fixture = Fixture::new("unused-report").await?;
    let space = &fixture.0;
    let (cluster, namespace) = (&space.cluster, &space.name);
    let user = format!("reader-of-{namespace}");
    let (client, reader) = (cluster.client(), rbac::user(&user));
    rbac::create_cluster_role_binding(&client, &user, "view", &reader).await?;
    define_kind(cluster, "databases.unused.example", "Database").await?;
    // The role `view` of Kubernetes has no permissions on these.
    let others = format!("{user}-others");
    let rules = ["persistentvolumes", "databases.unused.example"];
    let rules = rules.map(|resource| rbac::rule(&["list"], resource));
    rbac::create_cluster_role(&client, &others, rules.into()).await?;
    rbac::create_cluster_role_binding(&client, &others, &others, &reader).await?;
    let claims = [
        "used",
        "never",
        "finished",
        "scaled",
        "data-web-0",
        "cron",
        "custom",
        "daemons",
        "gone",
    ];
    for claim in claims {
        fixture.bind(claim).await?;
    }
    for claim in claims {
        fixture.has_status(claim, "True").await?;
    }
    let disks = json!([{"claim": "custom"}, {"size": 3}]);
    let database = json!({"apiVersion": "unused.example/v1", "kind": "Database",
        "metadata": {"name": "main"}, "spec": {"disks": disks}});
    for object in workloads().into_iter().chain([database]) {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.as_ref().context("a kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let objects: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), namespace, &resource);
        objects.create(&PostParams::default(), &object).await?;
    }
    space.create_running_pod("user", "used").await?;
    space.create_running_pod("job", "finished").await?;
    space
        .patch_pod_status("job", json!({"phase": "Succeeded"}))
        .await?;
    space.delete_claim("gone").await?;
    space.claim_is_gone("gone").await?;
    fixture.has_status("used", "False").await?;
    fixture.has_status("finished", "True").await?;
    crate::pvc_trash::support::is_in_phase(space, &format!("{namespace}-gone"), "Released").await?;

    let report = fixture.report(&user).await?;
    let items = report["items"].as_array().context("a list")?;
    let expected: [Expected; 9] = [
        ("cron", "Unused", r#"["CronJob backup (suspended)"]"#),
        ("custom", "Unused", r#"["Database main"]"#),
        ("daemons", "Unused", r#"["DaemonSet agents"]"#),
        ("data", "Unused", "[]"),
        (
            "data-web-0",
            "Unused",
            r#"["StatefulSet web (0 replicas)"]"#,
        ),
        ("finished", "Unused", "[]"),
        ("gone", "Released", "[]"),
        ("never", "Unused", "[]"),
        ("scaled", "Unused", r#"["Deployment shop (0 replicas)"]"#),
    ];
    let found: Vec<_> = items
        .iter()
        .map(|item| {
            let references = item["referencedBy"].to_string();
            let text = |field: &str| item[field].as_str().unwrap_or_default();
            (text("claim"), text("state"), references)
        })
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(claim, state, by)| (*claim, *state, &**by))
        .collect();
    ensure!(found == expected, "{found:?}");
    ensure!(
        items.iter().all(|item| item["unusedSince"].is_string()),
        "{items:?}"
    );
    let calls = cluster.audit().all()?.by_user(&user);
    let calls: Vec<_> = calls.iter().collect();
    ensure!(calls.len() == CALLS, "{} calls: {calls:?}", calls.len());
    fixture.page_agrees(&user, &report).await?;
    let calls = cluster.audit().all()?.by_user(&user);
    ensure!(
        calls.iter().count() == 2 * CALLS + 1,
        "`report` requires as many calls, and one for the namespace"
    );
    Ok(())
}
