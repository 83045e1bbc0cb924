//! Reads the state of one of the two clusters of a scenario.

use super::{
    projection::{Present, Projection, line, line_of_set},
    scenario::Object,
    side::{CANARY, Side},
};
use anyhow::{Result, bail};
use futures::TryStreamExt;
use kube::{
    ResourceExt,
    api::{DynamicObject, ListParams, WatchEvent, WatchParams},
};
use std::{collections::BTreeSet, pin::pin};
use tokio::try_join;
use volume_warden_controlplane::Call;

/// Volume Warden refuses this user's claims once their set is deleted. A scenario may or may not
/// hit this race.
const SET_CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";

/// All objects of a scenario.
struct Snapshot {
    claims: Vec<DynamicObject>,
    pods: Vec<DynamicObject>,
    sets: Vec<DynamicObject>,
    volumes: Vec<DynamicObject>,
    present: Present,
}

impl Side {
    pub async fn projection(&self) -> Result<Projection> {
        let snapshot = self.snapshot().await?;
        let mut lines = Projection::new();
        for claim in &snapshot.claims {
            let label = format!("claim {}{}", claim.name_any(), self.incarnation(claim));
            lines.insert(line(&label, claim, &snapshot.present));
        }
        for pod in &snapshot.pods {
            let label = format!("pod {}", pod.name_any());
            lines.insert(line(&label, pod, &snapshot.present));
        }
        lines.extend(snapshot.sets.iter().map(line_of_set));
        for volume in &snapshot.volumes {
            if let Some(name) = self.volume_label(volume) {
                let label = format!("volume {name}");
                lines.insert(line(&label, volume, &snapshot.present));
            }
        }
        Ok(lines)
    }

    async fn snapshot(&self) -> Result<Snapshot> {
        let (claims, maps, pods, sets, volumes) = try_join!(
            self.list(Object::Claim("")),
            self.list(Object::ConfigMap("")),
            self.list(Object::Pod("")),
            self.list(Object::Set("")),
            self.list(Object::Volume("")),
        )?;
        let mut present = Present::default();
        present.add("ConfigMap", &maps);
        present.add("Pod", &pods);
        present.add("StatefulSet", &sets);
        Ok(Snapshot {
            claims,
            pods,
            sets,
            volumes,
            present,
        })
    }

    /// All objects of that kind, without those of a [canary](Side::canaries), which the garbage
    /// collector may not have deleted yet.
    async fn list(&self, kind: Object) -> Result<Vec<DynamicObject>> {
        let objects = self.api(kind).list(&ListParams::default()).await?;
        let all = objects.into_iter();
        Ok(all
            .filter(|object| !object.name_any().contains(CANARY))
            .collect())
    }

    /// Empty for the first claim of that name, ` (2nd)` for the next.
    fn incarnation(&self, claim: &DynamicObject) -> String {
        let mut incarnations = self.incarnations.lock();
        let uids = incarnations.entry(claim.name_any()).or_default();
        let uid = claim.uid().unwrap_or_default();
        let known = uids.iter().position(|known| *known == uid);
        let index = known.unwrap_or_else(|| {
            uids.push(uid);
            uids.len() - 1
        });
        ordinal(index + 1)
    }

    /// The writes refused so far, as `update persistentvolumes disk`.
    pub fn refusals(&self) -> Result<BTreeSet<String>> {
        let calls = self.audit.since(self.start)?;
        let refused = calls
            .iter()
            .filter(|call| call.is_write() && call.code == 403 && call.user != SET_CONTROLLER);
        Ok(refused
            .filter_map(|call| {
                let name = self.label_in(call)?;
                Some(format!("{} {} {name}", call.verb, call.resource))
            })
            .collect())
    }

    fn label_in<'a>(&self, call: &'a Call) -> Option<&'a str> {
        match call.resource.as_str() {
            "persistentvolumes" => self.without_namespace(&call.name),
            "persistentvolumeclaims" | "pods" if call.namespace == self.space.name => {
                Some(&call.name)
            }
            _ => None,
        }
    }

    /// Whether an event of a set has this reason and names this claim.
    pub async fn has_event(&self, reason: &str, claim: &str) -> Result<bool> {
        let events = self.space.events_with(reason).await?;
        Ok(events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.involved_object.kind.as_deref() == Some("StatefulSet") && message.contains(claim)
        }))
    }

    /// The state of the claim at its creation.
    pub async fn state_at_creation(&self, claim: &str) -> Result<String> {
        let only = WatchParams::default()
            .fields(&format!("metadata.name={claim}"))
            .timeout(10);
        let claims = self.api(Object::Claim(""));
        let mut events = pin!(claims.watch(&only, &self.first_version).await?);
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(claim) = event {
                let present = self.snapshot().await?.present;
                return Ok(line(
                    &format!("claim {}", claim.name_any()),
                    &claim,
                    &present,
                ));
            }
        }
        bail!("the watch showed no creation of claim {claim}")
    }

    /// The scenario's name for a volume of its own; a provisioned volume is named by its claim.
    pub(super) fn volume_label(&self, volume: &DynamicObject) -> Option<String> {
        let claim = &volume.data["spec"]["claimRef"];
        let of_scenario = claim["namespace"] == *self.space.name;
        let created = volume.metadata.name.as_deref()?;
        self.without_namespace(created)
            .map(str::to_owned)
            .or_else(|| {
                of_scenario.then(|| format!("of {}", claim["name"].as_str().unwrap_or_default()))
            })
    }

    fn without_namespace<'a>(&self, volume: &'a str) -> Option<&'a str> {
        volume.strip_suffix(&self.space.name)?.strip_suffix('-')
    }
}

fn ordinal(number: usize) -> String {
    match number {
        1 => String::new(),
        2 => " (2nd)".to_owned(),
        3 => " (3rd)".to_owned(),
        _ => format!(" ({number}th)"),
    }
}
