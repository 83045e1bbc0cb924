//! Explains pods that have a node, and whose volumes are not attached or mounted there.

use super::claims::Mounted;
use crate::why::{
    Cause, Code, Evidence, Look, Object, Readable, World,
    explain::{attachments, events, nodes, users},
    read::{PersistentVolumeClaim, Pod},
};
use k8s_openapi::api::{
    core::v1::{ConfigMap, Event, Secret, Volume},
    storage::v1::VolumeAttachment,
};
use kube::ResourceExt;

/// The reason of the Event with which the attach-detach controller reports a failure.
const NOT_ATTACHED: &str = "FailedAttachVolume";
/// The reasons of the Events with which the kubelet reports a failure.
const NOT_MOUNTED: [&str; 2] = ["FailedMount", "FailedMapVolume"];
/// The access modes with which several nodes may have a volume attached.
const SHARED: [&str; 2] = ["ReadWriteMany", "ReadOnlyMany"];

/// The chain of causes for the latest failure to attach or mount a volume of the pod; empty if no
/// Event reports one. None if the Events could not be read.
pub(super) fn causes(
    world: &World,
    object: &Object,
    pod: &Pod,
    mounted: &[Mounted<'_>],
) -> Option<Vec<Cause>> {
    let Some(event) = last_failure(world, object, pod)? else {
        return Some(Vec::new());
    };
    let first = failed(object, &event);
    let further = match event.reason.as_deref() {
        Some(NOT_ATTACHED) => elsewhere(world, pod, mounted),
        _ => missing_config(world, pod, &event).into_iter().collect(),
    };
    Some([first].into_iter().chain(further).collect())
}

/// The latest Event that a volume of this pod was not attached or mounted. Events about an earlier
/// pod of the same name do not count. None if the Events could not be read.
fn last_failure(world: &World, object: &Object, pod: &Pod) -> Option<Option<Event>> {
    let uid = pod.metadata.uid.as_deref();
    let reasons = [NOT_ATTACHED].into_iter().chain(NOT_MOUNTED);
    let failures = reasons.map(|reason| events::latest(world, object, uid, reason));
    let failures: Option<Vec<_>> = failures.collect();
    Some(newest(failures?.into_iter().flatten()))
}

fn newest(events: impl Iterator<Item = Event>) -> Option<Event> {
    events.max_by_key(events::last)
}

fn failed(object: &Object, event: &Event) -> Cause {
    let sentence = format!(
        "The pod's node cannot attach or mount one of the pod's volumes: {event_message}",
        event_message = events::sentence(event)
    );
    let evidence = Evidence::new(object.to_string(), "Events").since(events::since(event));
    Cause::new(Code::NotMounted, sentence, evidence).run(
        object.describe(),
        "to see all Events of the pod; then check the driver of the volume on the pod's node",
    )
}

/// The chain of causes if a volume of the pod that only one node at a time may use is attached to
/// another node: the VolumeAttachment, and the pod that uses the volume there. Empty if no volume
/// is known to be. The message of the Event (`Multi-Attach error`) is not parsed for that.
fn elsewhere(world: &World, pod: &Pod, mounted: &[Mounted<'_>]) -> Vec<Cause> {
    let namespace = pod.namespace().unwrap_or_default();
    let names = mounted.iter().map(|mounted| mounted.claim.as_str());
    let claims = world.each::<PersistentVolumeClaim>(&namespace, names);
    let Some(all) = attachments::all(world) else {
        return Vec::new();
    };
    let node = nodes::name_of(pod);
    let mut exclusive = claims
        .into_iter()
        .filter_map(Look::found)
        .filter(|claim| !is_shared(claim));
    let found = exclusive.find_map(|claim| {
        let volume = Some(claim.spec.as_ref()?.volume_name.as_deref()?);
        let other = all.iter().find(|each| {
            attachments::volume_name(each) == volume && Some(each.spec.node_name.as_str()) != node
        })?;
        Some((claim.name_any(), other))
    });
    let Some((claim, attachment)) = found else {
        return Vec::new();
    };
    let user = user(world, &namespace, &claim, attachment);
    [attachments::attached(attachment)]
        .into_iter()
        .chain(user)
        .collect()
}

fn is_shared(claim: &PersistentVolumeClaim) -> bool {
    let modes = claim.spec.iter().flat_map(|spec| &spec.access_modes);
    let mut modes = modes.flatten();
    modes.any(|mode| SHARED.contains(&mode.as_str()))
}

/// The chain of causes for the pod that uses the claim on the node of the `attachment`: that pod,
/// and why it does not end. Empty if there is no such pod.
fn user(world: &World, namespace: &str, claim: &str, attachment: &VolumeAttachment) -> Vec<Cause> {
    let node = attachment.spec.node_name.as_str();
    let users = world.users(namespace, claim).found().unwrap_or_default();
    let user = users
        .iter()
        .find(|other| nodes::name_of(other) == Some(node));
    let Some(user) = user else {
        return Vec::new();
    };
    let sentence = format!(
        "The pod {} on the node {node} uses the claim {claim}, and one node at a time can use it.",
        user.name_any()
    );
    users::of_other(world, user, sentence, "spec.nodeName", "the volume moves")
}

/// The cause that a ConfigMap or Secret which a volume of the pod needs does not exist; none if all
/// exist. Only the volumes whose names the message of the Event quotes are checked.
fn missing_config(world: &World, pod: &Pod, event: &Event) -> Option<Cause> {
    let message = event.message.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let mut failed = volumes.filter(|volume| message.contains(&format!("\"{}\"", volume.name)));
    let namespace = pod.namespace().unwrap_or_default();
    let missing = failed.find_map(|volume| {
        let (maps, secrets) = required(volume);
        let map = absent::<ConfigMap>(world, &namespace, &maps);
        let map = map.map(|name| Object::new("ConfigMap", "configmap", &namespace, name));
        let secret = || absent::<Secret>(world, &namespace, &secrets);
        map.or_else(|| Some(Object::new("Secret", "secret", &namespace, secret()?)))
    })?;
    let sentence = format!("The {missing} that the pod mounts does not exist.");
    let object = Object::pod(&namespace, &pod.name_any());
    let evidence = Evidence::new(object.to_string(), "spec.volumes");
    Some(Cause::new(Code::ConfigMissing, sentence, evidence).run(
        format!("kubectl get {}s -n {namespace}", missing.kind.short()),
        "to compare the names; create the missing one, and the kubelet mounts it at its next attempt",
    ))
}

/// The first of these names of which no object exists. An object that could not be read counts as
/// existing.
fn absent<'a, K: Readable>(world: &World, namespace: &str, names: &[&'a str]) -> Option<&'a str> {
    let mut names = names.iter().copied();
    names.find(|name| matches!(world.metadata::<K>(namespace, name), Look::Absent))
}

/// The names of the ConfigMaps and Secrets without which the kubelet does not mount the volume.
fn required(volume: &Volume) -> (Vec<&str>, Vec<&str>) {
    let (mut maps, mut secrets) = (Vec::new(), Vec::new());
    if let Some(map) = &volume.config_map
        && map.optional != Some(true)
    {
        maps.push(map.name.as_str());
    }
    if let Some(secret) = &volume.secret
        && secret.optional != Some(true)
    {
        secrets.extend(secret.secret_name.as_deref());
    }
    let sources = volume.projected.iter().flat_map(|all| &all.sources);
    for source in sources.flatten() {
        if let Some(map) = &source.config_map
            && map.optional != Some(true)
        {
            maps.push(&map.name);
        }
        if let Some(secret) = &source.secret
            && secret.optional != Some(true)
        {
            secrets.push(&secret.name);
        }
    }
    (maps, secrets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newer_failure_is_reported() {
        let event = |reason: &str, time: &str| -> Event {
            let event = json!({"metadata": {}, "involvedObject": {}, "reason": reason, "lastTimestamp": time});
            serde_json::from_value(event).expect("an Event")
        };
        let attach = event(NOT_ATTACHED, "2026-01-01T00:00:00Z");
        let mount = event(NOT_MOUNTED[0], "2026-01-01T00:05:00Z");
        let both = [mount.clone(), attach];
        assert_eq!(newest(both.into_iter()), Some(mount));
    }

    #[test]
    fn optional_sources_are_not_required() {
        let volume = json!({"name": "all", "projected": {"sources": [
            {"configMap": {"name": "a"}}, {"configMap": {"name": "b", "optional": true}},
            {"secret": {"name": "c"}}, {"secret": {"name": "d", "optional": true}},
        ]}});
        let volume: Volume = serde_json::from_value(volume).expect("a volume");
        assert_eq!(required(&volume), (vec!["a"], vec!["c"]));
    }
}
