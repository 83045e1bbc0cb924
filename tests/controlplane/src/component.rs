//! The processes of the control plane and their command lines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::binaries::{Binaries, KWOK_STAGES};
use crate::bootstrap::Files;
use crate::builder::Options;

/// A process of the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// etcd, one member.
    Etcd,
    /// kube-apiserver.
    Apiserver,
    /// kube-controller-manager.
    ControllerManager,
    /// The StatefulSet controller of an earlier kube-controller-manager, which leaves claims
    /// unchanged. It runs if [`Component::ControllerManager`] cannot be configured to do so.
    StatefulSetController,
    /// kube-scheduler.
    Scheduler,
    /// KWOK, which simulates the kubelets.
    Kwok,
}

impl Component {
    /// The name of the log and of the binary, except for [`Self::StatefulSetController`].
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::StatefulSetController => "statefulset-controller",
            Self::Scheduler => "kube-scheduler",
            Self::Kwok => "kwok",
        }
    }
}

/// Only kube-controller-manager emulates 1.31, in which the feature gate `StatefulSetAutoDeletePVC`
/// can still be disabled. The API server keeps the gate: without it, it would drop the policy field
/// of StatefulSets.
pub(crate) const WITHOUT_RETENTION: [&str; 2] = [
    "--emulated-version=1.31",
    "--feature-gates=StatefulSetAutoDeletePVC=false",
];

/// The command of a component, for its start and restarts.
#[derive(Debug)]
pub(crate) struct CommandLine {
    program: PathBuf,
    arguments: Vec<String>,
}

impl CommandLine {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        // A cluster of a test lives for minutes, so memory costs less than the garbage collector.
        // Benchmarks, which have no debug assertions, measure Kubernetes as it is.
        if cfg!(debug_assertions) {
            command.env("GOGC", "400");
        }
        command
    }
}

/// The command lines of all components.
pub(crate) fn command_lines(
    binaries: &Binaries,
    files: &Files,
    options: &Options,
) -> BTreeMap<Component, CommandLine> {
    let mut lines = vec![
        (Component::Etcd, etcd(files)),
        (Component::Apiserver, apiserver(files, options)),
    ];
    if options.controllers {
        let stages = binaries.path(KWOK_STAGES);
        lines.extend([
            (
                Component::ControllerManager,
                controller_manager(files, options),
            ),
            (Component::Scheduler, scheduler(files)),
            (Component::Kwok, kwok(files, &stages)),
        ]);
    }
    let line = |(component, arguments): (Component, _)| {
        let program = binaries.path(component.name());
        (component, CommandLine { program, arguments })
    };
    let mut lines: BTreeMap<_, _> = lines.into_iter().map(line).collect();
    if let Some(earlier) = &options.statefulset_controller {
        let line = CommandLine {
            program: earlier.path(Component::ControllerManager.name()),
            arguments: statefulset_controller(files, options),
        };
        lines.insert(Component::StatefulSetController, line);
    }
    lines
}

fn etcd(files: &Files) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", files.ports.etcd);
    let peer = format!("http://127.0.0.1:{}", files.ports.etcd_peer);
    vec![
        "--name=etcd".to_owned(),
        path_flag("data-dir", &files.etcd_data),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=etcd={peer}"),
        // The data survives a killed etcd, and need not survive a failure of the machine.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn apiserver(files: &Files, options: &Options) -> Vec<String> {
    let mut arguments = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", files.ports.etcd),
        format!("--secure-port={}", files.ports.apiserver),
        path_flag("tls-cert-file", &files.serving.certificate),
        path_flag("tls-private-key-file", &files.serving.key),
        path_flag("client-ca-file", &files.authority),
        path_flag(
            "service-account-key-file",
            &files.service_account.certificate,
        ),
        path_flag(
            "service-account-signing-key-file",
            &files.service_account.key,
        ),
        path_flag("egress-selector-config-file", &files.egress_selector),
        path_flag("audit-policy-file", &files.audit_policy),
        path_flag("audit-log-path", &files.audit_log),
    ];
    let fixed = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        // Endpoints on 127.0.0.1 are refused, and the Service is not used.
        "--endpoint-reconciler-type=none",
        // Without compaction, long tests can read all watch events since their start.
        "--etcd-compaction-interval=0",
        // The log must never be rotated: it has to contain every answered call.
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=100000",
    ];
    arguments.extend(fixed.map(str::to_owned));
    arguments.extend(options.apiserver_args.iter().cloned());
    arguments
}

fn controller_manager(files: &Files, options: &Options) -> Vec<String> {
    let mut arguments = controllers(files, options);
    arguments.extend([
        "--enable-hostpath-provisioner".to_owned(),
        // When the binder's two workers conflict on a volume, one retries only after this time; by
        // default 15 s. Each time, the binder also patches an Event of every Pending claim.
        "--pvclaimbinder-sync-period=5s".to_owned(),
        path_flag(
            "service-account-private-key-file",
            &files.service_account.key,
        ),
        path_flag("root-ca-file", &files.authority),
    ]);
    arguments.push(format!(
        "--controllers=*,-{}",
        options.disabled_controllers.join(",-")
    ));
    arguments.extend(options.controller_manager_args.iter().cloned());
    arguments
}

fn statefulset_controller(files: &Files, options: &Options) -> Vec<String> {
    let mut arguments = controllers(files, options);
    arguments.push("--controllers=statefulset-controller".to_owned());
    arguments.extend(WITHOUT_RETENTION.map(str::to_owned));
    arguments
}

fn controllers(files: &Files, options: &Options) -> Vec<String> {
    let mut arguments = kubernetes_client(&files.controller_manager_kubeconfig);
    arguments.push("--use-service-account-credentials".to_owned());
    if let Some((qps, burst)) = options.controller_manager_qps {
        arguments.extend([
            format!("--kube-api-qps={qps}"),
            format!("--kube-api-burst={burst}"),
        ]);
    }
    arguments
}

fn scheduler(files: &Files) -> Vec<String> {
    kubernetes_client(&files.scheduler_kubeconfig)
}

fn kubernetes_client(kubeconfig: &Path) -> Vec<String> {
    vec![
        path_flag("kubeconfig", kubeconfig),
        // Nothing reads the metrics of these processes, and without a server they start earlier:
        // they create no keys.
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
    ]
}

fn kwok(files: &Files, stages: &Path) -> Vec<String> {
    vec![
        path_flag("kubeconfig", &files.admin_kubeconfig),
        path_flag("config", stages),
        format!("--server-address=127.0.0.1:{}", files.ports.kwok),
        "--manage-all-nodes=true".to_owned(),
        // Without Leases the node lifecycle controller marks the nodes as not ready after 50 s.
        "--node-lease-duration-seconds=40".to_owned(),
    ]
}

fn path_flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
