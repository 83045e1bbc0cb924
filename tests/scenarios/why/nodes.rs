//! Faults of pods that no node fits because of their volumes, or whose node does not mount their
//! volumes. The real scheduler and the real attach-detach controller write their messages. No
//! kubelet runs, so its Events have messages copied from one.

use super::{
    objects::{bound, create_claim, create_volume},
    support::{Case, Fault, Injection, WhyFixture},
};
use crate::support::Space;
use anyhow::{Context, Result};
use futures::FutureExt;
use k8s_openapi::api::{
    core::v1::{Event, Node},
    storage::v1::{CSINode, VolumeAttachment},
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use std::sync::Arc;
use volume_warden::why::Code;
use volume_warden_controlplane::eventually;

/// The faults of pods that concern nodes.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "one pod at a time",
        root: Code::UsedByOtherPod,
        inject: one_pod_at_a_time,
    },
    Fault {
        name: "node of the volume is gone",
        root: Code::NoNodeForVolume,
        inject: node_is_gone,
    },
    Fault {
        name: "volumes on two nodes",
        root: Code::NoNodeForVolume,
        inject: two_nodes,
    },
    Fault {
        name: "node of the volume is cordoned",
        root: Code::NoNodeForVolume,
        inject: cordoned,
    },
    Fault {
        name: "too many volumes",
        root: Code::TooManyVolumes,
        inject: too_many,
    },
    Fault {
        name: "attached to another node",
        root: Code::UsedByOtherPod,
        inject: multi_attach,
    },
    Fault {
        name: "configmap is missing",
        root: Code::ConfigMissing,
        inject: no_config_map,
    },
    Fault {
        name: "secret is missing",
        root: Code::ConfigMissing,
        inject: no_secret,
    },
    Fault {
        name: "block volume is not mapped",
        root: Code::NotMounted,
        inject: not_mapped,
    },
    Fault {
        name: "container crashes",
        root: Code::NoVolumeProblem,
        inject: crashes,
    },
];

/// Changes that make a volume one of a CSI driver. No process runs the driver.
fn csi_source(driver: &str, disk: &str) -> Value {
    json!({"hostPath": null, "csi": {"driver": driver, "volumeHandle": disk}})
}

fn node_affinity(node: &str) -> Value {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let term = json!({"matchExpressions": [expression]});
    json!({"required": {"nodeSelectorTerms": [term]}})
}

/// Creates a node with a taint that only the pods of [`create_unscheduled_pod`] tolerate. The
/// attach-detach controller attaches the volumes of its pods. Returns the name of the node.
async fn create_node(space: &Space, name: &str, spec: Value) -> Result<String> {
    let name = format!("{}-{name}", space.name);
    let taint = json!({"key": "example.com/only", "effect": "NoSchedule"});
    let mut node = json!({
        "metadata": {
            "name": name, "labels": {"kubernetes.io/hostname": name},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [taint]},
    });
    json_patch::merge(&mut node["spec"], &spec);
    let nodes: Api<Node> = Api::all(space.cluster.client());
    let node = serde_json::from_value(node)?;
    nodes.create(&PostParams::default(), &node).await?;
    Ok(name)
}

/// Creates a pod for the scheduler. It tolerates the taint of [`create_node`].
async fn create_unscheduled_pod(space: &Space, name: &str, claims: &[&str]) -> Result<()> {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    let volumes: Vec<_> = volumes.collect();
    let tolerations = json!([{"operator": "Exists"}]);
    let changes = json!({"spec": {"volumes": volumes, "tolerations": tolerations}});
    space.create_pod(name, "", changes).await.map(drop)
}

/// Creates a pod on the node whose container waits in ContainerCreating, as before a kubelet has
/// mounted its volumes, and returns the uid of the pod. The pod gets an IP before its node, because
/// KWOK does not run such a pod.
async fn create_unmounted_pod(
    space: &Space,
    name: &str,
    node: &str,
    volume: Value,
) -> Result<String> {
    let changes = json!({"spec": {"schedulerName": "absent", "volumes": [volume]}});
    let pod = space.create_pod(name, "", changes).await?;
    let waiting = json!({
        "name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    });
    let status = json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [waiting]});
    space.patch_pod_status(name, status).await?;
    let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", space.name);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(binding.to_string().into_bytes())?;
    space.cluster.client().request::<Value>(request).await?;
    pod.uid().context("a uid")
}

/// Publishes an Event of the kubelet about the pod.
async fn publish_kubelet_event(
    space: &Space,
    pod: &str,
    uid: &str,
    reason: &str,
    message: &str,
) -> Result<()> {
    let now = k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string();
    let event: Event = serde_json::from_value(json!({
        "metadata": {"generateName": "kubelet-", "namespace": space.name},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": pod, "namespace": space.name, "uid": uid},
        "reason": reason, "message": message, "type": "Warning", "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet"},
    }))?;
    space.events.create(&PostParams::default(), &event).await?;
    Ok(())
}

fn claim_volume(claim: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
}

fn one_pod_at_a_time(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let modes = json!(["ReadWriteOncePod"]);
        let volume = create_volume(&space, "data", json!({"spec": {"accessModes": modes}})).await?;
        let spec = json!({"accessModes": modes, "volumeName": volume});
        create_claim(&space, "data", json!({"spec": spec})).await?;
        space.create_running_pod("first", "data").await?;
        create_unscheduled_pod(&space, "second", &["data"]).await?;
        let command = format!("kubectl get pod first -n {} -o wide", space.name);
        Ok(Case::new(&["pod/second", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn node_is_gone(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let affinity = node_affinity("gone");
        bound(&space, "data", json!({"spec": {"nodeAffinity": affinity}})).await?;
        create_unscheduled_pod(&space, "user", &["data"]).await?;
        let command = "kubectl get nodes --show-labels";
        Ok(Case::new(&["pod", "user", "-n", &space.name], command))
    }
    .boxed_local()
}

fn two_nodes(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        for (claim, node) in [("one", "node-1"), ("two", "node-2")] {
            let affinity = node_affinity(node);
            bound(&space, claim, json!({"spec": {"nodeAffinity": affinity}})).await?;
        }
        create_unscheduled_pod(&space, "user", &["one", "two"]).await?;
        let command = "kubectl get nodes --show-labels";
        Ok(Case::new(&["pod", "user", "-n", &space.name], command))
    }
    .boxed_local()
}

fn cordoned(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let node = create_node(&space, "closed", json!({"unschedulable": true})).await?;
        let affinity = node_affinity(&node);
        bound(&space, "data", json!({"spec": {"nodeAffinity": affinity}})).await?;
        // The pod has no toleration: a toleration of every taint would permit the cordoned node.
        space.create_pod("user", "data", json!({})).await?;
        let command = format!("kubectl describe node {node}");
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn too_many(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let node = create_node(&space, "full", json!({})).await?;
        let driver = "limited.example.com";
        let drivers = json!([{"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 1}}]);
        let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
        let csi_nodes: Api<CSINode> = Api::all(space.cluster.client());
        let csi_node = serde_json::from_value(csi_node)?;
        csi_nodes.create(&PostParams::default(), &csi_node).await?;
        for claim in ["one", "two"] {
            let mut volume = csi_source(driver, &format!("{node}-{claim}"));
            volume["nodeAffinity"] = node_affinity(&node);
            bound(&space, claim, json!({"spec": volume})).await?;
            create_unscheduled_pod(&space, claim, &[claim]).await?;
            if claim == "one" {
                wait_for_attachment(&space, &node).await?;
            }
        }
        let command = "kubectl get volumeattachments";
        Ok(Case::new(&["pod", "two", "-n", &space.name], command))
    }
    .boxed_local()
}

/// Waits for the VolumeAttachment that the attach-detach controller creates for a pod on the node.
async fn wait_for_attachment(space: &Space, node: &str) -> Result<VolumeAttachment> {
    let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
    eventually("a VolumeAttachment for the node exists", async || {
        let all = attachments.list(&Default::default()).await?.items;
        let here = all.into_iter().find(|each| each.spec.node_name == node);
        anyhow::Ok(here)
    })
    .await
}

fn multi_attach(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let first = create_node(&space, "first", json!({})).await?;
        let second = create_node(&space, "second", json!({})).await?;
        let disk = csi_source("silent.example.com", &space.name);
        bound(&space, "data", json!({"spec": disk})).await?;
        let on_first = json!({"spec": {"nodeName": first}});
        space.create_pod("before", "data", on_first).await?;
        // Reports the volume as attached, as the external-attacher does.
        let attached = wait_for_attachment(&space, &first).await?.name_any();
        let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
        let status = Patch::Merge(json!({"status": {"attached": true}}));
        let parameters = PatchParams::default();
        attachments
            .patch_status(&attached, &parameters, &status)
            .await?;
        create_unmounted_pod(&space, "after", &second, claim_volume("data")).await?;
        let command = format!("kubectl get pod before -n {} -o wide", space.name);
        Ok(Case::new(&["pod", "after", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn no_config_map(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = json!({"name": "config", "configMap": {"name": "absent"}});
        let uid = create_unmounted_pod(&space, "user", "node-1", volume).await?;
        let message =
            "MountVolume.SetUp failed for volume \"config\" : configmap \"absent\" not found";
        publish_kubelet_event(&space, "user", &uid, "FailedMount", message).await?;
        let command = format!("kubectl get configmaps -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn no_secret(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        let volume = json!({"name": "password", "secret": {"secretName": "absent"}});
        let uid = create_unmounted_pod(&space, "user", "node-1", volume).await?;
        let message =
            "MountVolume.SetUp failed for volume \"password\" : secret \"absent\" not found";
        publish_kubelet_event(&space, "user", &uid, "FailedMount", message).await?;
        let command = format!("kubectl get secrets -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn not_mapped(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        bound(&space, "data", json!({})).await?;
        let uid = create_unmounted_pod(&space, "user", "node-1", claim_volume("data")).await?;
        let message = "MapVolume.SetUpDevice failed for volume \"disk\" : rpc error: code = Internal desc = no device";
        publish_kubelet_event(&space, "user", &uid, "FailedMapVolume", message).await?;
        let command = format!("kubectl describe pod user -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn crashes(_: Arc<WhyFixture>, space: Space) -> Injection {
    async move {
        bound(&space, "data", json!({})).await?;
        space.create_running_pod("user", "data").await?;
        let waiting = json!({
            "name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container"}},
        });
        let ready = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady"});
        let status = json!({"containerStatuses": [waiting], "conditions": [ready]});
        space.patch_pod_status("user", status).await?;
        let command = format!("kubectl describe pod user -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}
