//! Live LISTs of pods are decoded from protobuf. A field that is decoded wrongly could end the
//! protection of a claim, so the API server's responses in protobuf and JSON are compared.

use crate::support::{Space, guarded, pod};
use anyhow::{Context, Result, ensure};
use http::{
    HeaderValue,
    header::{ACCEPT, CONTENT_TYPE},
};
use http_body_util::BodyExt;
use kube::{
    Client,
    api::{DeleteParams, ListParams, ObjectList, PostParams, Request},
    client::Body,
};
use serde_json::{Value, json};
use volume_warden::objects::{
    Pod, Tracked,
    pod::PodWire,
    protobuf::{self, MEDIA_TYPE},
};

/// Pods that together have every field that is read: the name, the changes to the pod, its status.
fn pods() -> Vec<(&'static str, Value, Value)> {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "1", "controller": true});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "map", "uid": "2", "blockOwnerDeletion": false});
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let container = |name: &str, state: &str| {
        let state = json!({state: {}});
        json!({"name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 7, "state": state})
    };
    vec![
        ("no-volume", json!({"spec": {"volumes": null}}), json!({})),
        (
            "volumes",
            json!({"spec": {"volumes": [
                {"name": "none", "emptyDir": {}},
                {"name": "one", "persistentVolumeClaim": {"claimName": "first", "readOnly": true}},
                {"name": "own", "ephemeral": {"volumeClaimTemplate": template}},
                {"name": "key", "secret": {"secretName": "key"}},
                {"name": "two", "persistentVolumeClaim": {"claimName": "second"}},
            ]}}),
            json!({"phase": "Pending"}),
        ),
        (
            "metadata",
            json!({"metadata": {
                "labels": {"app": "db", "empty": ""},
                "annotations": {"example.com/text": "Größe \u{1f600}\nsecond line", "example.com/empty": ""},
                "ownerReferences": [map, set],
                "finalizers": ["example.com/hold", "example.com/other"],
            }}),
            json!({"phase": "Succeeded"}),
        ),
        (
            "on-node",
            json!({"metadata": {"finalizers": ["example.com/hold"]},
                "spec": {"nodeName": "node-1", "terminationGracePeriodSeconds": 77}}),
            json!({"phase": "Running",
                "containerStatuses": [container("a", "running"), container("b", "terminated")],
                "initContainerStatuses": [container("c", "terminated")],
                "ephemeralContainerStatuses": [container("d", "waiting")],
            }),
        ),
    ]
}

/// Requests a page of the list. Returns the media type and the body of the response.
async fn get_page(
    client: &Client,
    path: &str,
    page: &ListParams,
    accept: &'static str,
) -> Result<(HeaderValue, prost::bytes::Bytes)> {
    let mut request = Request::new(path).list(page)?.map(Body::from);
    let accept = HeaderValue::from_static(accept);
    request.headers_mut().insert(ACCEPT, accept);
    let response = client.send(request).await?;
    let media_type = response.headers().get(CONTENT_TYPE).cloned();
    let body = response.into_body().collect().await;
    let body = body.map_err(anyhow::Error::msg)?.to_bytes();
    Ok((media_type.context("no media type")?, body))
}

/// Compares each page of two pods in both encodings. Returns the number of pages.
async fn compare(client: &Client, path: &str) -> Result<usize> {
    let decode = Pod::DECODER.context("pods have a decoder")?;
    let mut page = ListParams::default().limit(2);
    for count in 1.. {
        let (_, body) = get_page(client, path, &page, "application/json").await?;
        let list: ObjectList<PodWire> = serde_json::from_slice(&body)?;
        let (media_type, body) = get_page(client, path, &page, MEDIA_TYPE).await?;
        ensure!(media_type == MEDIA_TYPE, "{media_type:?}");
        let decoded = decode(&body)?;
        let (decoded, expected) = (
            format!("{:#?}", decoded.items),
            format!("{:#?}", list.items),
        );
        ensure!(
            decoded == expected,
            "from protobuf:\n{decoded}\nfrom JSON:\n{expected}"
        );
        match list.metadata.continue_ {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(count),
        }
    }
    unreachable!("a list has a last page")
}

#[tokio::test]
async fn a_pod_is_the_same_in_protobuf_as_in_json() -> Result<()> {
    let space = Space::new(guarded().await?, "pod-lists").await?;
    let path = format!("/api/v1/namespaces/{}/pods", space.name);
    for (name, mut changes, status) in pods() {
        // No scheduler changes the pods between two lists.
        json_patch::merge(&mut changes, &json!({"spec": {"schedulerName": "absent"}}));
        let pod = pod(name, "data", changes)?;
        space.pods.create(&PostParams::default(), &pod).await?;
        space.patch_pod_status(name, status).await?;
    }
    let gracefully = DeleteParams::default();
    space.pods.delete("on-node", &gracefully).await?;
    let at_once = DeleteParams::default().grace_period(0);
    space.pods.delete("metadata", &at_once).await?;
    let pages = compare(&space.cluster.client(), &path).await?;
    ensure!(pages == 2, "{pages} pages");

    let page = ListParams::default().continue_token("no-token");
    let (media_type, body) = get_page(&space.cluster.client(), &path, &page, MEDIA_TYPE).await?;
    ensure!(media_type == MEDIA_TYPE, "{media_type:?}");
    let status = protobuf::status(&body)?;
    let refused = status.code == 400 && status.reason == "BadRequest";
    ensure!(refused && status.message.contains("continue"), "{status:?}");
    Ok(())
}
