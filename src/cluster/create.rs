//! New objects: the other thing that the only writer does.

use super::{
    action::Target,
    applied::Applied,
    apply::{Apply, CALL_LIMIT},
    client::within,
};
use crate::objects::{Kind, ObjectName};
use kube::{Resource, api::DynamicObject, core::PartialObjectMeta};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

/// An object to be created.
#[derive(Clone, Copy, Debug)]
pub struct Creation<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its name, as in the manifest.
    pub name: &'a ObjectName,
    /// All of it. The API server is asked to refuse fields that it does not know.
    pub manifest: &'a Value,
}

/// At whose door somebody waits for the object.
#[derive(Clone, Copy, Debug)]
pub enum Lane {
    /// Nobody does: it takes the Lease. It has a turn among creations, not behind thousands of other writes: a pod waits for it.
    Background,
    /// An admission review does, until then: every replica answers reviews, and none may queue behind the background.
    Review(Instant),
}

const ACTION: &str = "Create";
/// Between two tries while a review waits.
const PAUSE: Duration = Duration::from_millis(20);
/// Creations of the background under way at once.
pub(super) const IN_FLIGHT: usize = 8;

impl Apply {
    /// Creates it, or not, and says so. [`Applied::Outdated`] means that something of that name exists, or, in the
    /// background, that it is to be tried again. What the API server refuses is the
    /// caller's to tell users, on the object that wants it.
    pub async fn create(
        &self,
        component: &'static str,
        creation: Creation<'_>,
        lane: Lane,
        reason: &'static str,
    ) -> Applied {
        let applied = self.admit(creation, lane).await;
        self.metrics
            .acted(component, ACTION, reason, applied.label());
        let target = Target::new(creation.kind, creation.name, "");
        self.log(component, &target, ACTION, reason, &applied);
        applied
    }

    async fn admit(&self, creation: Creation<'_>, lane: Lane) -> Applied {
        if self.dry_run {
            return Applied::Withheld;
        }
        match lane {
            Lane::Background => {
                // The semaphore is never closed.
                let _permit = self.creations.acquire().await;
                if !self.leadership.holds() {
                    return Applied::NotLeading;
                }
                judge(within(CALL_LIMIT, self.post(creation)).await)
            }
            Lane::Review(until) => loop {
                let left = until.saturating_duration_since(Instant::now());
                let created = within(left, self.post(creation)).await;
                match created {
                    Err(error) if !is_conflict(&error) => return judge(Err(error)),
                    Err(error) if Instant::now() + PAUSE >= until => return Applied::Failed(error),
                    Err(_) => tokio::time::sleep(PAUSE).await,
                    Ok(()) => return Applied::Done,
                }
            },
        }
    }

    /// By hand, because kube's parameters for a POST have no `fieldValidation`.
    async fn post(&self, creation: Creation<'_>) -> kube::Result<()> {
        let resource = creation.kind.api_resource();
        let namespace = Some(&*creation.name.namespace).filter(|namespace| !namespace.is_empty());
        let url = DynamicObject::url_path(&resource, namespace) + "?fieldValidation=Strict";
        let body = serde_json::to_vec(creation.manifest).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(url)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        let created: kube::Result<PartialObjectMeta<DynamicObject>> =
            self.client.request(request).await;
        created.map(drop)
    }
}

/// Nothing of that name exists: two requests disagreed about something else, as about what is left of a quota.
fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason != "AlreadyExists")
}

fn judge(created: kube::Result<()>) -> Applied {
    match created {
        Ok(()) => Applied::Done,
        Err(kube::Error::Api(status)) if status.code == 409 => Applied::Outdated,
        Err(error) => Applied::Failed(error),
    }
}
