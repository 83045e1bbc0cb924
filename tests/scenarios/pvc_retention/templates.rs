//! Claim templates with values that the API server never sets itself.

use super::support::{RETAIN_DELETE, SetSpace, set};
use crate::support::guarded;
use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
};
use serde_json::json;

/// The API server stores the `creationTimestamp` of a claim template as the user wrote it, even one
/// that most programs cannot represent. The sets of all namespaces are listed together, so such a
/// set must not prevent Volume Warden from processing it and the others.
#[tokio::test]
async fn a_set_with_an_extreme_timestamp_in_its_template_is_processed() -> Result<()> {
    let sets = SetSpace::new(guarded().await?, "late").await?;
    let mut late = json!(set("late", 1, RETAIN_DELETE, json!({}))?);
    let template = late.pointer_mut("/spec/volumeClaimTemplates/0/metadata");
    template.context("a template")?["creationTimestamp"] = json!("9999-12-31T23:59:59Z");
    let resource = ApiResource::erase::<StatefulSet>(&());
    let (client, namespace) = (sets.space.cluster.client(), &sets.space.name);
    let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let late: DynamicObject = serde_json::from_value(late)?;
    let created = api.create(&PostParams::default(), &late).await?;
    let stored = created
        .data
        .pointer("/spec/volumeClaimTemplates/0/metadata/creationTimestamp");
    assert_eq!(stored, Some(&json!("9999-12-31T23:59:59Z")));
    let uid = created.metadata.uid;
    sets.claim_is_marked("data-late-0", uid.as_deref()).await?;
    sets.create("other", 1, RETAIN_DELETE).await.map(drop)
}
