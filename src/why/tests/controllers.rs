use super::{
    health::{SETS, claim, set, volume},
    *,
};

/// A claim that no pod uses and that was deleted at this time.
fn deleted(at: &str) -> Cluster {
    let claim = json!({
        "metadata": {"name": "data", "namespace": "shop", "deletionTimestamp": at, "finalizers": ["kubernetes.io/pvc-protection"]},
    });
    Cluster::default().claim(claim)
}

pub(super) fn lease(component: &str, renewed: &str) -> Value {
    let labels = json!({
        (format!("volume-warden.dev/{component}")): "", "app.kubernetes.io/part-of": "volume-warden",
    });
    json!({
        "metadata": {"name": "volume-warden", "namespace": "volume-warden", "labels": labels},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": renewed},
    })
}

/// A running controller counts as late only a minute after the deletion.
#[tokio::test]
async fn a_volume_warden_that_holds_its_lease_and_is_late() {
    let data = Object::claim("shop", "data");
    let codes_at = async |at: &str, renewed: &str| {
        let cluster = deleted(at).installed("volume-warden");
        let cluster = cluster.lease(lease("pvc-protection", renewed));
        cluster.explained(&data).await
    };
    let (now, long_ago) = ("2026-01-01T00:59:58.000000Z", "2026-01-01T00:50:00.000000Z");
    let in_time = codes_at("2026-01-01T00:59:50Z", now).await;
    assert_eq!(codes(&in_time), [Code::NotInUse]);
    let late = codes_at("2026-01-01T00:58:00Z", now).await;
    assert_eq!(codes(&late), [Code::NotInUse, Code::OwnerNotRunning]);
    assert!(command(&late).starts_with("kubectl logs -n volume-warden"));
    let silent = codes_at("2026-01-01T00:58:00Z", long_ago).await;
    assert!(command(&silent).starts_with("kubectl get pods -n volume-warden"));
}

/// A user who may write Leases in one namespace could otherwise decide what `why` says about every
/// object.
#[tokio::test]
async fn a_lease_outside_of_an_installation_does_not_count() {
    let data = Object::claim("shop", "data");
    let forged = || {
        let forged = lease("pvc-protection", "2026-01-01T00:59:58.000000Z");
        deleted("2026-01-01T00:58:00Z").lease(forged)
    };
    let sentence = async |cluster: Cluster| {
        let answer = cluster.explained(&data).await;
        answer.root().map(|root| root.sentence.clone())
    };
    let not_installed = "Volume Warden's pvc-protection is not installed";
    for cluster in [
        forged(),
        forged().installed("elsewhere"),
        forged().binding("volume-warden", "Group"),
    ] {
        let sentence = sentence(cluster).await.unwrap_or_default();
        assert!(sentence.starts_with(not_installed), "{sentence}");
    }
    let genuine = forged().installed("elsewhere").installed("volume-warden");
    let sentence = sentence(genuine).await.unwrap_or_default();
    assert!(sentence.contains("runs (replica one)"), "{sentence}");
    let unread = forged().without("clusterrolebindings").explained(&data);
    let unread = unread.await;
    assert_eq!(codes(&unread), [Code::NotInUse]);
    assert_eq!(
        unread.unread,
        ["clusterrolebindings could not be read: not for you"]
    );
}

/// `why --watch` prints an answer again whenever it changes, so it contains no age.
#[tokio::test]
async fn an_answer_does_not_change_with_the_time_alone() {
    let deleted_at = "2026-01-01T00:58:00Z";
    let namespace = json!({"metadata": {"name": "shop", "deletionTimestamp": deleted_at}});
    let pod = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "deletionTimestamp": "2026-01-01T01:05:00Z",
            "deletionGracePeriodSeconds": 600,
        },
        "spec": {"containers": []}, "status": {"phase": "Running"},
    });
    for object in [
        Object::claim("shop", "data"),
        Object::namespace("shop"),
        Object::pod("shop", "web"),
    ] {
        let at = async |now: &str| {
            let lease = lease("pvc-protection", "2026-01-01T00:59:58.000000Z");
            let cluster = deleted(deleted_at).installed("volume-warden");
            let cluster = cluster.lease(lease).pod(pod.clone());
            let cluster = if object == Object::namespace("shop") {
                Cluster::default().with("/api/v1/namespaces", namespace.clone())
            } else {
                cluster
            };
            explain_live(cluster.client(), &object, now.parse().expect("a time")).await
        };
        let (one, other) = (at(NOW).await, at("2026-01-01T01:00:02Z").await);
        assert!(other.says_the_same_as(&one), "{one:?} {other:?}");
    }
}

/// The claim of a StatefulSet whose owner references kube-controller-manager has written, while
/// Volume Warden's pvc-retention runs.
#[tokio::test]
async fn a_claim_that_two_controllers_manage_needs_no_action() {
    let wrote = json!({
        "manager": "kube-controller-manager", "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:ownerReferences": {}}},
    });
    let wrote = json!({"metadata": {"managedFields": [wrote]}});
    let cluster = |component: &str| {
        let lease = lease(component, "2026-01-01T00:59:58.000000Z");
        let cluster = Cluster::default().installed("volume-warden").lease(lease);
        let cluster = cluster.claim(claim(&wrote));
        cluster.volume(volume(&json!({})))
    };
    // kube-controller-manager also owns the claims of ephemeral volumes.
    let answer = cluster("pvc-retention")
        .explained(&Object::claim("shop", "data-web-0"))
        .await;
    assert_eq!(codes(&answer), []);
    let cluster = |component| cluster(component).with(SETS, set(&json!({})));
    let answer = cluster("pvc-trash")
        .explained(&Object::claim("shop", "data-web-0"))
        .await;
    assert_eq!(codes(&answer), [Code::KeptByPolicy]);
    let answer = cluster("pvc-retention")
        .explained(&Object::claim("shop", "data-web-0"))
        .await;
    assert_eq!(codes(&answer), [Code::BothActive]);
    assert_eq!(
        command(&answer),
        "kubectl get pvc data-web-0 -n shop -o yaml --show-managed-fields"
    );
    assert_eq!(
        purpose(&answer),
        "to see which fields of the claim kube-controller-manager and Volume Warden wrote. They do \
         not harm each other, and nothing has to be done. To use only one, run Volume Warden \
         without pvc-retention: since Kubernetes 1.32, that controller of Kubernetes cannot be \
         disabled"
    );
}
