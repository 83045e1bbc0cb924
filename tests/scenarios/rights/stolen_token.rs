//! What the token of Volume Warden's service account permits. Every write is a dry run, once as the
//! service account and once as a user with the same roles, whom the policies do not concern.

use crate::support::{Space, bare, claim, volume};
use anyhow::{Result, ensure};
use http::{Method, Request};
use kube::{
    api::{Patch, PatchParams, PostParams},
    client::Body,
};
use serde_json::{Value, json};
use volume_warden_controlplane::{Cluster, eventually};

const ACCOUNT: &str = "system:serviceaccount:volume-warden:volume-warden";
const LABEL: &str = "dynamic-pvc-provisioner.kubernetes.io/managed-by";

/// A write: method, path and body.
pub type Write = (Method, String, Value);

/// The service account, and a user with the same roles whom the policies do not concern.
pub struct Thief<'a> {
    cluster: &'a Cluster,
    twin: String,
    /// A group of both.
    group: String,
}

impl<'a> Thief<'a> {
    /// Binds all of Volume Warden's roles to the twin, and waits until they and the policies are in
    /// effect.
    async fn new(space: &'a Space) -> Result<Self> {
        Self::of(space, &format!("twin-of-{}", space.name)).await
    }

    /// The same with this user as the twin.
    pub async fn of(space: &'a Space, twin: &str) -> Result<Self> {
        let (cluster, twin) = (&*space.cluster, twin.to_owned());
        let group = format!("thieves-of-{}", space.name);
        let roles = ["get", "clusterroles", "-o=name"];
        let roles = cluster.kubectl(&roles).await?;
        let roles = roles
            .lines()
            .filter_map(|line| line.split_once('/'))
            .filter(|(_, role)| role.starts_with("volume-warden"));
        for (_, role) in roles {
            let binding = format!("{}-{role}", space.name);
            let (role, user) = (format!("--clusterrole={role}"), format!("--user={twin}"));
            let create = ["create", "clusterrolebinding", &binding, &role, &user];
            cluster.kubectl(&create).await?;
        }
        space.create_claim("probe").await?;
        let path = format!("{}/probe", claims_of(space));
        let label = patch(&path, json!({"metadata": {"labels": {"a": "b"}}}));
        let thief = Self {
            cluster,
            twin,
            group,
        };
        eventually("the roles and the policies are in effect", async || {
            thief.is_refused(&label, "may not change the spec").await
        })
        .await?;
        Ok(thief)
    }

    /// Permits both these verbs, too.
    pub async fn grant(&self, verbs: &str, resource: &str) -> Result<()> {
        let (verbs, resource) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        let role = ["create", "clusterrole", &self.group, &verbs, &resource];
        self.cluster.kubectl(&role).await?;
        let (role, group) = (
            format!("--clusterrole={}", self.group),
            format!("--group={}", self.group),
        );
        let bind = ["create", "clusterrolebinding", &self.group, &role, &group];
        self.cluster.kubectl(&bind).await?;
        let review = ["auth", "can-i", "delete", "persistentvolumes"];
        let review = [&review[..], &["--as=anyone", "--as-group", &self.group]].concat();
        eventually("the verbs are permitted", async || {
            let answer = self.cluster.kubectl(&review).await?;
            ensure!(answer.trim() == "yes", "{answer}");
            Ok(())
        })
        .await
    }

    /// Sends the write as a dry run, and returns the code and the body of the answer.
    async fn send(&self, user: &str, write: &Write) -> Result<(u16, String)> {
        let (method, path, body) = write;
        let content = match (method, body) {
            (&Method::PATCH, Value::Array(_)) => "application/json-patch+json",
            (&Method::PATCH, _) => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{path}?dryRun=All"))
            .header("impersonate-user", user)
            .header("impersonate-group", &self.group)
            .header("content-type", content)
            .body(Body::from(serde_json::to_vec(body)?))?;
        let (head, body) = self.cluster.client().send(request).await?.into_parts();
        let body = String::from_utf8(body.collect_bytes().await?.to_vec())?;
        Ok((head.status.as_u16(), body))
    }

    async fn is_permitted(&self, user: &str, write: &Write) -> Result<()> {
        let (code, body) = self.send(user, write).await?;
        ensure!(matches!(code, 200 | 201), "{user}: {write:?}: {body}");
        Ok(())
    }

    /// Only a policy refuses the write.
    async fn is_refused(&self, write: &Write, sentence: &str) -> Result<()> {
        self.is_permitted(&self.twin, write).await?;
        let (code, body) = self.send(ACCOUNT, write).await?;
        ensure!(
            code == 422 && body.contains(sentence),
            "{write:?}: {code} {body}"
        );
        Ok(())
    }

    pub async fn all_are_refused(&self, writes: Vec<(Write, &str)>) -> Result<()> {
        for (write, sentence) in writes {
            self.is_refused(&write, sentence).await?;
        }
        Ok(())
    }

    pub async fn all_are_permitted(&self, writes: Vec<Write>) -> Result<()> {
        for write in writes {
            self.is_permitted(ACCOUNT, &write).await?;
        }
        Ok(())
    }
}

fn claims_of(space: &Space) -> String {
    format!("/api/v1/namespaces/{}/persistentvolumeclaims", space.name)
}

pub fn patch(path: &str, body: Value) -> Write {
    (Method::PATCH, path.to_owned(), body)
}

/// The API server ignores the query of a DELETE with a body.
pub fn delete() -> Value {
    json!({"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]})
}

fn owner(kind: &str, name: &str) -> Value {
    let version = match kind {
        "StatefulSet" => "apps/v1",
        _ => "v1",
    };
    json!({"metadata": {"ownerReferences": [{"apiVersion": version, "kind": kind, "name": name, "uid": "u"}]}})
}

fn condition(kind: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True"}]}})
}

fn marked(mark: &str) -> Value {
    json!({"metadata": {"annotations": {format!("volume-warden.dev/{mark}"): "u"}}})
}

#[tokio::test]
async fn a_stolen_token_changes_no_claim_but_as_volume_warden_does() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-claims").await?;
    let claims = claims_of(&space);
    let post = PostParams::default();
    let foreign =
        json!({"metadata": {"finalizers": ["example.com/hold"], "annotations": {"team": "a"}}});
    for (name, changes) in [
        ("plain", foreign.clone()),
        ("data-web-0", foreign),
        ("marked", marked("awaiting-pod")),
        ("data-web-1", marked("scaled-with")),
        (
            "provisioned",
            json!({"metadata": {"labels": {LABEL: "id"}}}),
        ),
    ] {
        space.claims.create(&post, &claim(name, changes)?).await?;
    }
    let path = |name: &str| format!("{claims}/{name}");
    let plain = path("plain");
    let thief = Thief::new(&space).await?;
    let protection = "kubernetes.io/pvc-protection";
    let finalizers = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    let new = |changes| -> Result<Value> { Ok(json!(claim("new", changes)?)) };
    let pod = || json!({"metadata": {"labels": {LABEL: "id"}, "ownerReferences": owner("Pod", "p")["metadata"]["ownerReferences"]}});
    let both = json!({"metadata": {"labels": {LABEL: "id"}, "annotations": {
        "volume-warden.dev/awaiting-pod": "t", "volume-warden.dev/scaled-with": "u"}}});
    let awaiting = |changes| {
        let mut claim = marked("awaiting-pod");
        claim["metadata"]["labels"] = json!({LABEL: "id"});
        json_patch::merge(&mut claim, &changes);
        claim
    };
    let create = |changes| anyhow::Ok((Method::POST, claims.clone(), new(changes)?));
    let may_create = "may only create claims for pods";
    let may_bind = "may not create claims with spec.volumeName";
    let bound = json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
    let may_own = "may only make the StatefulSet or the pod in the claim's name its owner";
    let only_refs = "may only change the references of claims to StatefulSets and pods";
    let only_finalizer = "may only add and remove the finalizer kubernetes.io/pvc-protection";
    let only_annotations = "may only change its own annotations";
    let only_unused = "may only change the condition Unused";
    let status = format!("{plain}/status");
    let refused = vec![
        (
            patch(&plain, json!({"spec": {"volumeName": "other"}})),
            "may not change the spec",
        ),
        (
            patch(&status, json!({"status": {"phase": "Lost"}})),
            only_unused,
        ),
        (
            patch(&status, json!({"status": {"capacity": {"storage": "9Gi"}}})),
            only_unused,
        ),
        (patch(&status, condition("Resizing")), only_unused),
        (
            patch(&plain, json!({"metadata": {"labels": {"a": "b"}}})),
            "may not change the spec",
        ),
        (
            patch(
                &plain,
                json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}),
            ),
            only_annotations,
        ),
        (
            patch(&plain, json!({"metadata": {"annotations": {"team": "b"}}})),
            only_annotations,
        ),
        (
            patch(&plain, json!({"metadata": {"annotations": {"team": null}}})),
            only_annotations,
        ),
        (
            patch(&plain, marked("awaiting-pod")),
            "may not mark an existing claim",
        ),
        (
            patch(&plain, marked("scaled-with")),
            "may only mark claims of StatefulSets",
        ),
        (
            patch(
                &plain,
                finalizers(&["example.com/hold", "example.com/never"]),
            ),
            only_finalizer,
        ),
        (patch(&plain, finalizers(&[protection])), only_finalizer),
        (patch(&plain, owner("ConfigMap", "c")), only_refs),
        (patch(&plain, owner("Pod", "p")), may_own),
        (
            patch(&path("data-web-0"), owner("StatefulSet", "other")),
            may_own,
        ),
        (patch(&path("data-web-0"), owner("Pod", "other-0")), may_own),
        (create(json!({}))?, may_create),
        (
            create(json!({"metadata": {"labels": {LABEL: "id"}}}))?,
            may_create,
        ),
        (create(both)?, may_create),
        (
            create(awaiting(json!({"spec": {"volumeName": "other"}})))?,
            may_bind,
        ),
        (create(awaiting(bound))?, may_bind),
        (
            (Method::DELETE, plain.clone(), delete()),
            "may only delete claims that carry one of its markers",
        ),
    ];
    thief.all_are_refused(refused).await?;
    let permitted = vec![
        patch(&status, condition("Unused")),
        patch(&plain, finalizers(&["example.com/hold", protection])),
        patch(&plain, finalizers(&[protection, "example.com/hold"])),
        patch(&path("data-web-0"), marked("scaled-with")),
        patch(&path("data-web-0"), owner("StatefulSet", "web")),
        patch(&path("data-web-0"), owner("Pod", "web-0")),
        patch(
            &path("marked"),
            json!({"metadata": {"annotations": {"volume-warden.dev/awaiting-pod": null}}}),
        ),
        patch(&path("provisioned"), owner("Pod", "any")),
        create(pod())?,
        create(awaiting(json!({})))?,
        (Method::DELETE, path("marked"), delete()),
        (Method::DELETE, path("data-web-1"), delete()),
    ];
    thief.all_are_permitted(permitted).await
}

/// A policy whose evaluation costs too much refuses the write: the finalizer would stay for ever.
#[tokio::test]
async fn the_policies_do_not_keep_the_finalizer_of_a_very_large_claim() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-large").await?;
    let mut finalizers: Vec<_> = (0..5000).map(|n| format!("example.com/f{n}")).collect();
    finalizers.insert(2500, "kubernetes.io/pvc-protection".to_owned());
    let owners = (0..2000).map(|n| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("c{n}"), "uid": format!("u{n}")}));
    let annotations = (0..8000).map(|n| (format!("a{n}"), json!("b")));
    let large = json!({"metadata": {
        "finalizers": finalizers, "ownerReferences": owners.collect::<Vec<_>>(),
        "annotations": annotations.collect::<serde_json::Map<_, _>>(),
    }});
    let post = PostParams::default();
    space.claims.create(&post, &claim("large", large)?).await?;
    let path = format!("{}/large", claims_of(&space));
    let remove = json!([{"op": "remove", "path": "/metadata/finalizers/2500"}]);
    let thief = Thief::new(&space).await?;
    thief.is_permitted(ACCOUNT, &patch(&path, remove)).await
}

#[tokio::test]
async fn a_stolen_token_changes_no_volume_and_no_webhook_but_as_volume_warden_does() -> Result<()> {
    let space = Space::new(bare().await?, "stolen-volumes").await?;
    let post = PostParams::default();
    let name = |what: &str| format!("{}-{what}", space.name);
    let claim_of = |uid: Option<&str>| json!({"spec": {"claimRef": {"namespace": space.name, "name": "gone", "uid": uid}}});
    let bound_by = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes", "team": "a"}}});
    let mut released = claim_of(Some("gone"));
    json_patch::merge(&mut released, &bound_by);
    let record = |value: String| json!({"metadata": {"annotations": {"volume-warden.dev/claim-namespace": value}}});
    let recorded = |changes: Value| {
        let mut all = record(format!("{}/n/gone", space.name));
        json_patch::merge(&mut all, &changes);
        all
    };
    for (what, changes) in [
        ("reserved", claim_of(None)),
        ("released", released),
        ("handed", recorded(claim_of(None))),
    ] {
        let volume = volume(&name(what), changes)?;
        space.volumes.create(&post, &volume).await?;
    }
    eventually("the volume is Released", async || {
        let volume = space.volumes.get(&name("released")).await?;
        let phase = volume.status.and_then(|status| status.phase);
        ensure!(phase.as_deref() == Some("Released"), "{phase:?}");
        Ok(())
    })
    .await?;
    let path = |what: &str| format!("/api/v1/persistentvolumes/{}", name(what));
    let (reserved, released) = (path("reserved"), path("released"));
    let parked = async |what: &str| -> Result<Value> {
        let uid = space.volumes.get(&name(what)).await?.metadata.uid;
        let claim = format!("parked-{}", uid.unwrap_or_default());
        let claim = json!({"namespace": "volume-warden", "name": claim, "uid": null});
        Ok(json!({"spec": {"claimRef": claim}}))
    };
    // Parked by the cluster's administrator, as Volume Warden does.
    let kept = volume(&name("kept"), recorded(claim_of(None)))?;
    space.volumes.create(&post, &kept).await?;
    let park = parked("kept").await?;
    let merge = (PatchParams::default(), Patch::Merge(&park));
    space
        .volumes
        .patch(&name("kept"), &merge.0, &merge.1)
        .await?;
    eventually("the volumes are Available", async || {
        for what in ["kept", "handed"] {
            let status = space.volumes.get(&name(what)).await?.status;
            let phase = status.and_then(|status| status.phase);
            ensure!(phase.as_deref() == Some("Available"), "{what}: {phase:?}");
        }
        Ok(())
    })
    .await?;
    let (kept, handed) = (path("kept"), path("handed"));
    let to = |namespace: &str, uid: Option<&str>| json!({"spec": {"claimRef": {"namespace": namespace, "name": "new", "uid": uid}}});
    let own = space.name.as_str();
    let forged = |value: &str| {
        let mut all = to("other", None);
        json_patch::merge(&mut all, &record(value.to_owned()));
        all
    };
    let hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/volume-warden-pvc-protection";
    let set = |field: &str, value: Value| {
        patch(
            hooks,
            json!([{"op": "add", "path": format!("/webhooks/0/{field}"), "value": value}]),
        )
    };
    let thief = Thief::new(&space).await?;
    let release = "may only release a volume";
    let labels = "may only change its own labels on volumes";
    let annotations = "may only change its own annotations on volumes";
    let reserve = "may only reserve a parked volume for a claim of its recorded namespace";
    let recording = "may only record the namespace of a volume's present claim";
    let finalizer = "may only add and remove the finalizer kubernetes.io/pv-protection";
    let publish = "may only publish the path and the CA";
    let refused = vec![
        (
            patch(
                &released,
                json!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            ),
            "may only change the claimRef",
        ),
        (
            patch(&released, json!({"spec": {"storageClassName": "gold"}})),
            "may only change the claimRef",
        ),
        (
            patch(&reserved, json!({"spec": {"claimRef": null}})),
            reserve,
        ),
        (patch(&reserved, parked("reserved").await?), reserve),
        (patch(&kept, json!({"spec": {"claimRef": null}})), reserve),
        (patch(&kept, to("other", None)), reserve),
        (patch(&kept, to(own, Some("u"))), reserve),
        (patch(&kept, forged("other/n/u")), reserve),
        (patch(&handed, to(own, None)), reserve),
        (patch(&handed, to("other", None)), reserve),
        (patch(&kept, record("other/n/gone".to_owned())), recording),
        (
            patch(&released, record("other/n/gone".to_owned())),
            recording,
        ),
        (
            patch(&released, record(format!("{own}/n/other"))),
            recording,
        ),
        (patch(&released, parked("kept").await?), release),
        (
            patch(
                &released,
                json!({"spec": {"claimRef": {"namespace": "other", "uid": null}}}),
            ),
            release,
        ),
        (
            patch(&released, json!({"spec": {"claimRef": {"uid": "other"}}})),
            release,
        ),
        (
            patch(&released, json!({"metadata": {"labels": {"a": "b"}}})),
            labels,
        ),
        (
            patch(
                &released,
                json!({"metadata": {"annotations": {"team": "b"}}}),
            ),
            annotations,
        ),
        (
            patch(&released, json!({"metadata": {"annotations": {"a": "b"}}})),
            annotations,
        ),
        (
            patch(
                &released,
                json!({"metadata": {"finalizers": ["example.com/never"]}}),
            ),
            finalizer,
        ),
        (
            patch(&released, owner("ConfigMap", "c")),
            "may not change the owners of volumes",
        ),
        (set("failurePolicy", json!("Fail")), publish),
        (set("rules", json!([])), publish),
        (
            set("clientConfig", json!({"url": "https://example.com/"})),
            publish,
        ),
        (set("clientConfig/service/name", json!("other")), publish),
        (
            patch(hooks, json!({"metadata": {"labels": {"a": "b"}}})),
            publish,
        ),
        (
            patch(hooks, json!([{"op": "remove", "path": "/webhooks/0"}])),
            publish,
        ),
    ];
    thief.all_are_refused(refused).await?;
    let permitted = vec![
        patch(&released, json!({"spec": {"claimRef": null}})),
        patch(&released, parked("released").await?),
        patch(&released, record(format!("{own}/n/gone"))),
        patch(&kept, to(own, None)),
        patch(&handed, parked("handed").await?),
        patch(
            &handed,
            json!({"metadata": {"annotations": {"volume-warden.dev/claim-namespace": null}}}),
        ),
        patch(
            &released,
            json!({"spec": {"claimRef": {"uid": null}}, "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": null}}}),
        ),
        patch(
            &released,
            json!({"metadata": {"labels": {"reclaimable-pv-releaser.kubernetes.io/managed-by": "id"}}}),
        ),
        patch(
            &reserved,
            json!({"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}),
        ),
        patch(&reserved, json!({"metadata": {"finalizers": []}})),
        set(
            "clientConfig/service/path",
            json!("/secret/pvc-protection/claims"),
        ),
        set("clientConfig/caBundle", json!("")),
    ];
    thief.all_are_permitted(permitted).await
}
