//! Clients that do not know the secret path.

use super::*;

/// A valid review of a pod that requests a claim.
fn review() -> String {
    let prefix = "dynamic-pvc-provisioner.kubernetes.io";
    let template = "{apiVersion: v1, kind: PersistentVolumeClaim, \
                    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}";
    let annotations =
        json!({format!("{prefix}/v.enabled"): "true", format!("{prefix}/v.pvc"): template});
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "stolen"}});
    let pod = json!({
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"volumes": [volume], "containers": []},
    });
    let request = json!({
        "uid": "1", "operation": "CREATE", "namespace": "default", "name": "p", "object": pod,
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "userInfo": {"username": "x"},
    });
    let review =
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
    review.to_string()
}

fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path}?timeout=30s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Without the secret path, Volume Warden answers a review with 404, on every path and before it
/// reads the body, and creates no claim. The same review with the secret path creates the claim.
#[tokio::test]
async fn only_the_path_authenticates() -> Result<()> {
    let cluster = fresh::installed().await?;
    let warden = Warden::builder(&cluster, BINARY).serving().start().await?;
    webhooks_answer(&cluster.client()).await?;
    let (published, strict_client) = (all_published(&cluster).await?, strict_client(&cluster));
    let (port, wrong) = (warden.webhook_port(), "0123456789abcdef".repeat(4));
    let real = secret_path(&cluster).await?.context("a path")?;
    let mut paths = vec![
        "/".to_owned(),
        format!("/{real}"),
        format!("/{real}/"),
        "/livez".to_owned(),
    ];
    for webhook in published.keys() {
        let hook = hook(webhook)?;
        paths.extend([
            format!("/{wrong}{hook}"),
            format!("/{}{hook}", real.to_uppercase()),
            hook,
        ]);
    }
    for path in paths {
        let response = strict_client.send(port, &post(&path, &review())).await?;
        ensure!(response.starts_with("HTTP/1.1 404 "), "{path}: {response}");
        // The client does not send the body of this review.
        let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 9000000\r\n\r\n");
        let response = strict_client.send(port, &head).await?;
        ensure!(response.starts_with("HTTP/1.1 404 "), "{path}: {response}");
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(cluster.client(), "default");
    let created = claims.get_opt("stolen").await?;
    ensure!(created.is_none(), "a claim was created");
    let with_path = post(&format!("/{real}/pvc-provisioner/pods"), &review());
    let response = strict_client.send(port, &with_path).await?;
    ensure!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let created = claims.get_opt("stolen").await?;
    ensure!(created.is_some(), "no claim was created: {response}");
    Ok(())
}
