//! Pods that get no node, or whose node cannot mount their volumes, because of volumes. The
//! messages are those of the real scheduler and of the real attach-detach controller; those of a
//! kubelet are copied from one.

use super::{
    objects::{a_claim, a_volume, bound},
    support::{Case, Fault, Seeded, Stage},
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

/// All of them.
pub const FAULTS: &[Fault] = &[
    Fault {
        name: "one pod at a time",
        root: Code::UsedByOtherPod,
        seed: one_pod_at_a_time,
    },
    Fault {
        name: "node of the volume is gone",
        root: Code::NoNodeForVolume,
        seed: node_is_gone,
    },
    Fault {
        name: "volumes on two nodes",
        root: Code::NoNodeForVolume,
        seed: two_nodes,
    },
    Fault {
        name: "node of the volume is cordoned",
        root: Code::NoNodeForVolume,
        seed: cordoned,
    },
    Fault {
        name: "too many volumes",
        root: Code::TooManyVolumes,
        seed: too_many,
    },
    Fault {
        name: "attached to another node",
        root: Code::UsedByOtherPod,
        seed: multi_attach,
    },
    Fault {
        name: "configmap is missing",
        root: Code::ConfigMissing,
        seed: no_config_map,
    },
    Fault {
        name: "secret is missing",
        root: Code::ConfigMissing,
        seed: no_secret,
    },
    Fault {
        name: "block volume is not mapped",
        root: Code::NotMounted,
        seed: not_mapped,
    },
    Fault {
        name: "container crashes",
        root: Code::NoVolumeProblem,
        seed: crashes,
    },
];

/// A driver that no process runs, with disks by name.
fn csi(driver: &str, disk: &str) -> Value {
    json!({"hostPath": null, "csi": {"driver": driver, "volumeHandle": disk}})
}

fn only_on(node: &str) -> Value {
    let expression = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
    let term = json!({"matchExpressions": [expression]});
    json!({"required": {"nodeSelectorTerms": [term]}})
}

/// A node for the pods of this space only. The attach-detach controller attaches its volumes.
async fn node(space: &Space, name: &str, spec: Value) -> Result<String> {
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

/// A pod that a scheduler places, also on the nodes of [`node`].
async fn schedule(space: &Space, name: &str, claims: &[&str]) -> Result<()> {
    let volumes = claims
        .iter()
        .map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    let volumes: Vec<_> = volumes.collect();
    let tolerations = json!([{"operator": "Exists"}]);
    let changes = json!({"spec": {"volumes": volumes, "tolerations": tolerations}});
    space.create_pod(name, "", changes).await.map(drop)
}

/// A pod on the node whose kubelet has not mounted its volumes. KWOK does not start a pod that has
/// an address before it has a node.
async fn mounting(space: &Space, name: &str, node: &str, volume: Value) -> Result<String> {
    let changes = json!({"spec": {"schedulerName": "absent", "volumes": [volume]}});
    let pod = space.create_pod(name, "", changes).await?;
    let waits = json!({
        "name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ContainerCreating"}},
    });
    let status =
        json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [waits]});
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

/// An Event of the kubelet about the pod.
async fn reported(space: &Space, pod: &str, uid: &str, reason: &str, message: &str) -> Result<()> {
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

fn one_pod_at_a_time(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let modes = json!(["ReadWriteOncePod"]);
        let volume = a_volume(&space, "data", json!({"spec": {"accessModes": modes}})).await?;
        let spec = json!({"accessModes": modes, "volumeName": volume});
        a_claim(&space, "data", json!({"spec": spec})).await?;
        space.create_running_pod("first", "data").await?;
        schedule(&space, "second", &["data"]).await?;
        let command = format!("kubectl get pod first -n {} -o wide", space.name);
        Ok(Case::new(&["pod/second", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn node_is_gone(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let affinity = only_on("gone");
        bound(&space, "data", json!({"spec": {"nodeAffinity": affinity}})).await?;
        schedule(&space, "user", &["data"]).await?;
        let command = "kubectl get nodes --show-labels";
        Ok(Case::new(&["pod", "user", "-n", &space.name], command))
    }
    .boxed_local()
}

fn two_nodes(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        for (claim, node) in [("one", "node-1"), ("two", "node-2")] {
            let affinity = only_on(node);
            bound(&space, claim, json!({"spec": {"nodeAffinity": affinity}})).await?;
        }
        schedule(&space, "user", &["one", "two"]).await?;
        let command = "kubectl get nodes --show-labels";
        Ok(Case::new(&["pod", "user", "-n", &space.name], command))
    }
    .boxed_local()
}

fn cordoned(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let node = node(&space, "closed", json!({"unschedulable": true})).await?;
        let affinity = only_on(&node);
        bound(&space, "data", json!({"spec": {"nodeAffinity": affinity}})).await?;
        // Without a toleration, which would permit the cordoned node, too.
        space.create_pod("user", "data", json!({})).await?;
        let command = format!("kubectl describe node {node}");
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn too_many(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let node = node(&space, "full", json!({})).await?;
        let driver = "limited.example.com";
        let drivers = json!([{"name": driver, "nodeID": node, "topologyKeys": [], "allocatable": {"count": 1}}]);
        let csi_node = json!({"metadata": {"name": node}, "spec": {"drivers": drivers}});
        let csi_nodes: Api<CSINode> = Api::all(space.cluster.client());
        let csi_node = serde_json::from_value(csi_node)?;
        csi_nodes.create(&PostParams::default(), &csi_node).await?;
        for claim in ["one", "two"] {
            let mut volume = csi(driver, &format!("{node}-{claim}"));
            volume["nodeAffinity"] = only_on(&node);
            bound(&space, claim, json!({"spec": volume})).await?;
            schedule(&space, claim, &[claim]).await?;
            if claim == "one" {
                attachment(&space, &node).await?;
            }
        }
        let command = "kubectl get volumeattachments";
        Ok(Case::new(&["pod", "two", "-n", &space.name], command))
    }
    .boxed_local()
}

/// The VolumeAttachment that the attach-detach controller creates for a pod on the node.
async fn attachment(space: &Space, node: &str) -> Result<VolumeAttachment> {
    let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
    eventually("a volume is to be attached", async || {
        let all = attachments.list(&Default::default()).await?.items;
        let here = all.into_iter().find(|each| each.spec.node_name == node);
        anyhow::Ok(here)
    })
    .await
}

fn multi_attach(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let first = node(&space, "first", json!({})).await?;
        let second = node(&space, "second", json!({})).await?;
        let disk = csi("silent.example.com", &space.name);
        bound(&space, "data", json!({"spec": disk})).await?;
        let on_first = json!({"spec": {"nodeName": first}});
        space.create_pod("before", "data", on_first).await?;
        // As the external-attacher reports it.
        let attached = attachment(&space, &first).await?.name_any();
        let attachments: Api<VolumeAttachment> = Api::all(space.cluster.client());
        let status = Patch::Merge(json!({"status": {"attached": true}}));
        let parameters = PatchParams::default();
        attachments
            .patch_status(&attached, &parameters, &status)
            .await?;
        mounting(&space, "after", &second, claim_volume("data")).await?;
        let command = format!("kubectl get pod before -n {} -o wide", space.name);
        Ok(Case::new(&["pod", "after", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn no_config_map(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = json!({"name": "config", "configMap": {"name": "absent"}});
        let uid = mounting(&space, "user", "node-1", volume).await?;
        let message =
            "MountVolume.SetUp failed for volume \"config\" : configmap \"absent\" not found";
        reported(&space, "user", &uid, "FailedMount", message).await?;
        let command = format!("kubectl get configmaps -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn no_secret(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        let volume = json!({"name": "password", "secret": {"secretName": "absent"}});
        let uid = mounting(&space, "user", "node-1", volume).await?;
        let message =
            "MountVolume.SetUp failed for volume \"password\" : secret \"absent\" not found";
        reported(&space, "user", &uid, "FailedMount", message).await?;
        let command = format!("kubectl get secrets -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn not_mapped(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        bound(&space, "data", json!({})).await?;
        let uid = mounting(&space, "user", "node-1", claim_volume("data")).await?;
        let message = "MapVolume.SetUpDevice failed for volume \"disk\" : rpc error: code = Internal desc = no device";
        reported(&space, "user", &uid, "FailedMapVolume", message).await?;
        let command = format!("kubectl describe pod user -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}

fn crashes(_: Arc<Stage>, space: Space) -> Seeded {
    async move {
        bound(&space, "data", json!({})).await?;
        space.create_running_pod("user", "data").await?;
        let waits = json!({
            "name": "main", "image": "main", "imageID": "", "ready": false, "restartCount": 5,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container"}},
        });
        let ready = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady"});
        let status = json!({"containerStatuses": [waits], "conditions": [ready]});
        space.patch_pod_status("user", status).await?;
        let command = format!("kubectl describe pod user -n {}", space.name);
        Ok(Case::new(&["pod", "user", "-n", &space.name], &command))
    }
    .boxed_local()
}
