//! What one of the two clusters of a scenario looks like.

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
use std::{collections::BTreeSet, pin::pin, sync::PoisonError};
use tokio::try_join;
use volume_warden_controlplane::Call;

/// Whose claims ours refuses once their set is gone. That is a race, which a scenario may meet or not.
const SET_CONTROLLER: &str = "system:serviceaccount:kube-system:statefulset-controller";

/// What there is of a scenario.
struct Sight {
    claims: Vec<DynamicObject>,
    pods: Vec<DynamicObject>,
    sets: Vec<DynamicObject>,
    volumes: Vec<DynamicObject>,
    present: Present,
}

impl Side {
    pub async fn look(&self) -> Result<Projection> {
        let sight = self.sight().await?;
        let mut lines = Projection::new();
        for claim in &sight.claims {
            let label = format!("claim {}{}", claim.name_any(), self.incarnation(claim));
            lines.insert(line(&label, claim, &sight.present));
        }
        for pod in &sight.pods {
            let label = format!("pod {}", pod.name_any());
            lines.insert(line(&label, pod, &sight.present));
        }
        lines.extend(sight.sets.iter().map(line_of_set));
        for volume in &sight.volumes {
            if let Some(name) = self.volume_label(volume) {
                let label = format!("volume {name}");
                lines.insert(line(&label, volume, &sight.present));
            }
        }
        Ok(lines)
    }

    async fn sight(&self) -> Result<Sight> {
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
        Ok(Sight {
            claims,
            pods,
            sets,
            volumes,
            present,
        })
    }

    /// All of that kind, but for what a [canary](Side::canaries) may have left to the garbage collector.
    async fn list(&self, kind: Object) -> Result<Vec<DynamicObject>> {
        let objects = self.api(kind).list(&ListParams::default()).await?;
        let all = objects.into_iter();
        Ok(all
            .filter(|object| !object.name_any().contains(CANARY))
            .collect())
    }

    /// Empty for the first claim of that name, ` (2nd)` for the next.
    fn incarnation(&self, claim: &DynamicObject) -> String {
        let mut incarnations = self
            .incarnations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let uids = incarnations.entry(claim.name_any()).or_default();
        let uid = claim.uid().unwrap_or_default();
        let known = uids.iter().position(|known| *known == uid);
        let index = known.unwrap_or_else(|| {
            uids.push(uid);
            uids.len() - 1
        });
        ordinal(index + 1)
    }

    /// The writes that were refused so far, as `update persistentvolumes disk`.
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

    /// Whether an event of a set gives this reason and names this claim.
    pub async fn told(&self, reason: &str, claim: &str) -> Result<bool> {
        let events = self.space.events_with(reason).await?;
        Ok(events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.involved_object.kind.as_deref() == Some("StatefulSet") && message.contains(claim)
        }))
    }

    /// The claim as it was when it was created.
    pub async fn birth(&self, claim: &str) -> Result<String> {
        let only = WatchParams::default()
            .fields(&format!("metadata.name={claim}"))
            .timeout(10);
        let claims = self.api(Object::Claim(""));
        let mut events = pin!(claims.watch(&only, &self.beginning).await?);
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(claim) = event {
                let present = self.sight().await?.present;
                return Ok(line(
                    &format!("claim {}", claim.name_any()),
                    &claim,
                    &present,
                ));
            }
        }
        bail!("nobody saw claim {claim} come")
    }

    /// What the scenario calls a volume, if it is one of its own: a provisioned one goes by its claim.
    pub(super) fn volume_label(&self, volume: &DynamicObject) -> Option<String> {
        let claim = &volume.data["spec"]["claimRef"];
        let ours = claim["namespace"] == *self.space.name;
        let created = volume.metadata.name.as_deref()?;
        self.without_namespace(created)
            .map(str::to_owned)
            .or_else(|| ours.then(|| format!("of {}", claim["name"].as_str().unwrap_or_default())))
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
