//! The commands of `kubectl` and `helm` in code blocks run as they are written, in their order.

use super::{
    executed::{self, NOT_EXECUTED},
    overlay::{Copied, KUSTOMIZE, kustomizations, with_values},
    pages::{Shown, shown},
    programs::Programs,
};
use crate::{
    fresh,
    support::{define_kind, repository},
};
use anyhow::{Result, ensure};
use volume_warden_controlplane::Cluster;

/// The pages whose code blocks run in their order.
const PAGES: [&str; 6] = [
    README,
    CHART,
    "docs/install/helm.md",
    KUSTOMIZE,
    "docs/install/uninstall.md",
    "docs/operations/metrics.md",
];
/// As `docs/install/uninstall.md` says.
const UNINSTALL: &str = "helm uninstall volume-warden --namespace volume-warden; \
    kubectl delete namespace volume-warden";
const README: &str = "README.md";
const CHART: &str = "manifests/helm/volume-warden/README.md";
/// cert-manager's kinds, which the API server must know. No cert-manager runs.
const CERT_MANAGER: [(&str, &str); 2] = [
    ("certificates.cert-manager.io", "Certificate"),
    ("issuers.cert-manager.io", "Issuer"),
];
const SERVICE_MONITOR: (&str, &str) = ("servicemonitors.monitoring.coreos.com", "ServiceMonitor");
const PROMETHEUS_RULE: (&str, &str) = ("prometheusrules.monitoring.coreos.com", "PrometheusRule");

#[tokio::test]
async fn the_readme_installs_the_chart() -> Result<()> {
    let cluster = fresh::cluster().await?;
    let commands = run(&cluster, README).await?;
    ensure!(commands.contains("helm install"), "{commands}");
    let programs = Programs::new(&cluster).await?;
    let uninstalled = programs.shell(UNINSTALL).output().await?;
    ensure!(uninstalled.status.success(), "{uninstalled:?}");
    let commands = run(&cluster, CHART).await?;
    ensure!(
        commands.contains("helm install volume-warden . "),
        "{commands}"
    );
    Ok(())
}

#[tokio::test]
async fn the_page_of_helm_installs_and_upgrades() -> Result<()> {
    let cluster = fresh::api_server().await?;
    let commands = run(&cluster, "docs/install/helm.md").await?;
    ensure!(commands.contains("helm upgrade"), "{commands}");
    executed::of_helm(&cluster).await?;
    Ok(())
}

#[tokio::test]
async fn the_pages_of_kustomize_install_and_uninstall() -> Result<()> {
    let cluster = fresh::cluster().await?;
    for (name, kind) in CERT_MANAGER {
        define_kind(&cluster, name, kind).await?;
    }
    let commands = run(&cluster, KUSTOMIZE).await?;
    ensure!(commands.contains("kubectl apply -k"), "{commands}");
    the_overlays_are_accepted(&cluster).await?;
    let commands = run(&cluster, "docs/install/uninstall.md").await?;
    ensure!(commands.contains("kubectl delete"), "{commands}");
    Ok(())
}

#[tokio::test]
async fn the_page_of_metrics_installs_the_monitoring() -> Result<()> {
    let cluster = fresh::api_server().await?;
    for (name, kind) in [SERVICE_MONITOR, PROMETHEUS_RULE] {
        define_kind(&cluster, name, kind).await?;
    }
    run(&cluster, "docs/install/helm.md").await?;
    let commands = run(&cluster, "docs/operations/metrics.md").await?;
    ensure!(commands.contains("manifests/monitoring"), "{commands}");
    Ok(())
}

/// The overlays with an image, and with a choice of components; both with a dry run.
async fn the_overlays_are_accepted(cluster: &Cluster) -> Result<()> {
    define_kind(cluster, SERVICE_MONITOR.0, SERVICE_MONITOR.1).await?;
    let (complete, fragments) = kustomizations(KUSTOMIZE)?;
    let image = with_values("image: REGISTRY/volume-warden:TAG\n");
    let parts = [&image, "kind: ServiceMonitor"];
    ensure!(complete.len() == parts.len(), "{complete:#?}");
    for (kustomization, part) in complete.iter().zip(parts) {
        let copied = Copied::with(&format!("{kustomization}{fragments}"))?;
        let directory = copied.overlay().display().to_string();
        let apply = ["apply", "--dry-run=server", "-o=yaml", "-k", &directory];
        let applied = cluster.kubectl(&apply).await?;
        for part in ["- --dry-run\n", part] {
            ensure!(applied.contains(part), "no {part} in {applied}");
        }
    }
    Ok(())
}

/// Runs the commands of a page that need only a cluster, and returns them.
async fn run(cluster: &Cluster, page: &str) -> Result<String> {
    ensure!(PAGES.contains(&page), "{page}");
    let programs = Programs::new(cluster).await?;
    let (script, copied) = (script(page), Copied::first()?);
    let mut shell = programs.shell(&script);
    if page == CHART {
        shell.current_dir(repository().join("manifests/helm/volume-warden"));
    } else if page == KUSTOMIZE {
        shell.current_dir(copied.root());
    }
    let output = shell.output().await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{page}: {script}\n{errors}");
    Ok(script)
}

/// The commands of `kubectl` and `helm` in the code blocks of a page.
fn script(page: &str) -> String {
    let shown = shown().into_iter();
    let lines = shown.filter(|each| each.page == repository().join(page) && is_run_whole(each));
    lines
        .map(|each| with_values(&each.command) + "\n")
        .collect()
}

/// Whether it is a command of a page that a test here runs in the order of the page.
pub fn is_run_whole(
    Shown {
        page,
        command,
        in_block,
    }: &Shown,
) -> bool {
    let of_a_page = PAGES.iter().any(|each| repository().join(each) == *page);
    let of_a_program = ["kubectl ", "helm "]
        .iter()
        .any(|each| command.starts_with(each));
    let left_out = NOT_EXECUTED.iter().any(|(each, _)| each == command);
    of_a_page && *in_block && of_a_program && !left_out
}
