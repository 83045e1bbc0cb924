//! Runs the commands of `kubectl` and `helm` in code blocks as they are written, in the order of
//! their page.

use super::{
    executed::{self, NOT_EXECUTED},
    overlay::{KUSTOMIZE, ManifestsCopy, fill_placeholders, kustomizations},
    pages::{Shown, shown},
    programs::Programs,
};
use crate::{
    fresh,
    support::{define_kind, repository},
};
use anyhow::{Result, ensure};
use volume_warden_controlplane::Cluster;

/// The pages whose code blocks run in the order of the page.
const PAGES: [&str; 6] = [
    README,
    CHART,
    "docs/install/helm.md",
    KUSTOMIZE,
    "docs/install/uninstall.md",
    "docs/operations/metrics.md",
];
/// The commands that `docs/install/uninstall.md` gives for Helm.
const UNINSTALL: &str = "helm uninstall volume-warden --namespace volume-warden; \
    kubectl delete namespace volume-warden";
const README: &str = "README.md";
const CHART: &str = "manifests/helm/volume-warden/README.md";
/// The kinds of cert-manager, which the API server must serve. cert-manager itself does not run.
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
    executed::run_helm(&cluster).await?;
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

/// Checks that the API server accepts the overlays of the page: one names an image, and one lists
/// components. Both are applied with the fragments for a dry run and for another port.
async fn the_overlays_are_accepted(cluster: &Cluster) -> Result<()> {
    define_kind(cluster, SERVICE_MONITOR.0, SERVICE_MONITOR.1).await?;
    let (complete, fragments) = kustomizations(KUSTOMIZE)?;
    let image = fill_placeholders("image: REGISTRY/volume-warden:TAG\n");
    let parts = [&image, "kind: ServiceMonitor"];
    ensure!(complete.len() == parts.len(), "{complete:#?}");
    for (kustomization, part) in complete.iter().zip(parts) {
        let copy = ManifestsCopy::with(&format!("{kustomization}{fragments}"))?;
        let directory = copy.overlay().display().to_string();
        let apply = ["apply", "--dry-run=server", "-o=yaml", "-k", &directory];
        let applied = cluster.kubectl(&apply).await?;
        for part in ["- --dry-run\n", "port: 16443\n", part] {
            ensure!(applied.contains(part), "no {part} in {applied}");
        }
    }
    Ok(())
}

/// Runs the commands of `kubectl` and `helm` in the code blocks of a page, and returns them.
async fn run(cluster: &Cluster, page: &str) -> Result<String> {
    ensure!(PAGES.contains(&page), "{page}");
    let programs = Programs::new(cluster).await?;
    let (script, copy) = (script(page), ManifestsCopy::with_image()?);
    let mut shell = programs.shell(&script);
    if page == CHART {
        shell.current_dir(repository().join("manifests/helm/volume-warden"));
    } else if page == KUSTOMIZE {
        shell.current_dir(copy.root());
    }
    let output = shell.output().await?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{page}: {script}\n{errors}");
    Ok(script)
}

/// The commands of `kubectl` and `helm` in the code blocks of a page.
fn script(page: &str) -> String {
    let shown = shown().into_iter();
    let lines =
        shown.filter(|each| each.page == repository().join(page) && runs_in_page_order(each));
    lines
        .map(|each| fill_placeholders(&each.command) + "\n")
        .collect()
}

/// Whether a test of this module runs the command in the order of its page.
pub fn runs_in_page_order(
    Shown {
        page,
        command,
        in_block,
    }: &Shown,
) -> bool {
    let is_on_page = PAGES.iter().any(|each| repository().join(each) == *page);
    let is_of_program = ["kubectl ", "helm "]
        .iter()
        .any(|each| command.starts_with(each));
    let is_excluded = NOT_EXECUTED.iter().any(|(each, _)| each == command);
    is_on_page && *in_block && is_of_program && !is_excluded
}
