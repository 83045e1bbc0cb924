//! Deletes the webhook configurations. `drain` does so before it changes any other object, while it
//! holds the Leases.

use crate::{
    cluster::{Applied, Apply, Configuration, DEFAULT_CALL_TIMEOUT, existing, within},
    component::ComponentRef,
};
use anyhow::{Context as _, bail};
use kube::{
    Api, Client,
    api::{DynamicObject, ObjectMeta},
};

/// Maximum number of attempts to delete a configuration that another client keeps writing, such as
/// cert-manager, which writes caBundle.
const TRIES: u32 = 5;

/// Deletes the webhook configurations of these components, calls `print_line` with a line for each
/// that exists, and returns whether it deleted one: none in a dry run.
///
/// # Errors
/// When a configuration cannot be read or deleted.
pub async fn delete(
    client: &Client,
    apply: &Apply,
    components: &[ComponentRef],
    print_line: &mut impl FnMut(&str),
) -> anyhow::Result<bool> {
    let mut deleted = false;
    let all = components.iter();
    for configuration in all.flat_map(|component| component.webhook_configurations()) {
        let name = configuration.name();
        match delete_one(client, apply, *configuration).await? {
            Some(Applied::Withheld) => {
                print_line(&format!("webhook configuration {name}: would be deleted"))
            }
            Some(_) => {
                print_line(&format!("webhook configuration {name}: deleted"));
                deleted = true;
            }
            None => {}
        }
    }
    Ok(deleted)
}

async fn delete_one(
    client: &Client,
    apply: &Apply,
    configuration: Configuration,
) -> anyhow::Result<Option<Applied>> {
    let name = configuration.name();
    for _ in 0..TRIES {
        let Some(found) = read(client, configuration).await? else {
            return Ok(None);
        };
        match apply.delete(&configuration.resource(), &found).await {
            applied @ (Applied::Done | Applied::Withheld) => return Ok(Some(applied)),
            Applied::Stale => {}
            Applied::NotLeading => bail!("the Lease was lost; run volume-warden drain again"),
            Applied::Failed(error) => {
                return Err(error).with_context(|| {
                    format!("the webhook configuration {name} could not be deleted")
                });
            }
        }
    }
    bail!("the webhook configuration {name} keeps changing; run volume-warden drain again")
}

/// Returns the webhook configurations of these components that exist, because another client has
/// created them since.
///
/// # Errors
/// When a configuration cannot be read.
pub async fn existing_of(
    client: &Client,
    components: &[ComponentRef],
) -> anyhow::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    let all = components.iter();
    for configuration in all.flat_map(|component| component.webhook_configurations()) {
        if read(client, *configuration).await?.is_some() {
            found.push(configuration.name());
        }
    }
    Ok(found)
}

async fn read(client: &Client, configuration: Configuration) -> anyhow::Result<Option<ObjectMeta>> {
    let name = configuration.name();
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &configuration.resource());
    let read = within(DEFAULT_CALL_TIMEOUT, api.get_metadata(name)).await;
    let found = existing(read)
        .with_context(|| format!("the webhook configuration {name} could not be read"))?;
    Ok(found.map(|found| found.metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cluster::test_server::answering, component::Component,
        components::pvc_protection::PvcProtection,
    };

    async fn answered(body: &'static str) -> anyhow::Result<Option<ObjectMeta>> {
        let client = answering(move |_, _| (404, body));
        let configuration = PvcProtection.webhook_configurations().first();
        read(&client, *configuration.expect("it has one")).await
    }

    /// A configuration that is left while Volume Warden is removed delays every request that
    /// matches it.
    #[tokio::test]
    async fn only_the_api_server_can_say_that_a_configuration_is_not_there() {
        let status = r#"{"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "m"}"#;
        assert!(matches!(answered(status).await, Ok(None)));
        assert!(answered("404 page not found").await.is_err());
    }
}
