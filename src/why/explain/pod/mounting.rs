//! Explains pods that have a node, and whose volumes are not attached or mounted there.

mod elsewhere;

use super::{
    claims::Mounted,
    conditions::{self, HAS_SANDBOX},
};
use crate::objects::keys::MIRROR;
use crate::why::{
    Cause, Code, Evidence, LiveReads, Lookup, Object, Readable,
    explain::{events, quote},
    read::Pod,
};
use elsewhere::Elsewhere;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Secret, Volume};
use kube::ResourceExt;

/// The reason of the Event with which the attach-detach controller reports a failure.
const NOT_ATTACHED: &str = "FailedAttachVolume";
/// The reason of the Event with which the attach-detach controller reports success.
const ATTACHED: &str = "SuccessfulAttachVolume";
/// The reasons of the Events with which the kubelet reports a failure.
const NOT_MOUNTED: [&str; 2] = ["FailedMount", "FailedMapVolume"];
/// The reasons of Events about what the kubelet does only after it has mounted all volumes of the
/// pod: it creates the sandbox, then it pulls the images. Source: `SyncPod` in `pkg/kubelet` of
/// Kubernetes.
const MOUNTED: [&str; 3] = ["FailedCreatePodSandBox", "Pulling", "Pulled"];

/// The chain of causes for a pod whose volumes are not mounted: the latest failure that an Event
/// reports or, without such an Event, the volume that another node has. Empty if there is neither,
/// or if the node has mounted the volumes. None if this is not known, because the Events or the
/// VolumeAttachments, for example, could not be read.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    mounted: &[Mounted<'_>],
) -> Option<Vec<Cause>> {
    if conditions::is_true(pod, HAS_SANDBOX) {
        return Some(Vec::new());
    }
    let success = latest(reads, object, pod, &MOUNTED)?;
    let failure = last_failure(reads, object, pod)?;
    // The times of Events are in seconds, and the kubelet often mounts a volume in the same second
    // as it failed to, so an Event of the same time counts as newer.
    let failed_at = failure.as_ref().and_then(events::last);
    if success.is_some_and(|success| events::last(&success) >= failed_at) {
        return Some(Vec::new());
    }
    match failure {
        Some(event) => Some(reported(reads, object, pod, mounted, &event)),
        None => unreported(reads, pod, mounted),
    }
}

/// The chain of causes for the failure that the Event reports. Its message (`Multi-Attach error`)
/// is not parsed to know whether another node has the volume. The attach-detach controller reports
/// that only once, so any later Event may be about something else, or about a failure that was
/// solved.
fn reported(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    mounted: &[Mounted<'_>],
    event: &Event,
) -> Vec<Cause> {
    let reason = event.reason.as_deref();
    if reason != Some(NOT_ATTACHED)
        && let Some(missing) = missing_config(reads, pod, event)
    {
        return vec![failed(object, event), missing];
    }
    let Lookup::Found(found) = elsewhere::find(reads, pod, mounted) else {
        return vec![failed(object, event)];
    };
    let first = match reason {
        Some(NOT_ATTACHED) => failed(object, event),
        _ => found.not_attached(pod),
    };
    beginning_with(first, reads, pod, &found)
}

/// The chain of causes if another node has a volume of the pod, and no Event reports that any more;
/// empty if no other node has one. None if an object could not be read.
fn unreported(reads: &LiveReads, pod: &Pod, mounted: &[Mounted<'_>]) -> Option<Vec<Cause>> {
    match elsewhere::find(reads, pod, mounted) {
        Lookup::Found(found) => Some(beginning_with(found.not_attached(pod), reads, pod, &found)),
        Lookup::Absent => Some(Vec::new()),
        Lookup::Unread => None,
    }
}

/// The chain of this cause, and of what keeps the volume on the other node.
fn beginning_with(first: Cause, reads: &LiveReads, pod: &Pod, found: &Elsewhere) -> Vec<Cause> {
    let further = found.causes(reads, &pod.namespace().unwrap_or_default());
    std::iter::once(first).chain(further).collect()
}

/// The latest Event that a volume of this pod was not attached or mounted, or `Some(None)` if there
/// is none. If a volume was attached later, earlier failures to attach do not count. None if the
/// Events could not be read.
fn last_failure(reads: &LiveReads, object: &Object, pod: &Pod) -> Option<Option<Event>> {
    let attached = latest(reads, object, pod, &[ATTACHED])?;
    let attached = attached.as_ref().and_then(events::last);
    let attach = latest(reads, object, pod, &[NOT_ATTACHED])?;
    let attach = attach.filter(|failure| events::last(failure) >= attached);
    let mount = latest(reads, object, pod, &NOT_MOUNTED)?;
    Some(newest(attach.into_iter().chain(mount)))
}

/// The latest Event about this pod with one of these reasons, or `Some(None)` if there is none.
/// Events about an earlier pod of the same name do not count. In those about a static pod, the
/// kubelet writes the uid that it has given the pod. None if the Events could not be read.
fn latest(
    reads: &LiveReads,
    object: &Object,
    pod: &Pod,
    reasons: &[&str],
) -> Option<Option<Event>> {
    let own = pod.annotations().get(MIRROR);
    let uid = own.or(pod.metadata.uid.as_ref()).map(String::as_str);
    let reasons = reasons.iter();
    let found = reasons.map(|reason| events::latest(reads, object, uid, reason));
    let found: Option<Vec<_>> = found.collect();
    Some(newest(found?.into_iter().flatten()))
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

/// The cause that a ConfigMap or Secret which a volume of the pod needs does not exist; none if all
/// exist. Only the volumes whose names the message of the Event quotes are checked.
fn missing_config(reads: &LiveReads, pod: &Pod, event: &Event) -> Option<Cause> {
    let message = event.message.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
    let mut failed = volumes.filter(|volume| message.contains(&format!("\"{}\"", volume.name)));
    let namespace = pod.namespace().unwrap_or_default();
    let missing = failed.find_map(|volume| {
        let (maps, secrets) = required(volume);
        let map = absent::<ConfigMap>(reads, &namespace, &maps);
        let map = map.map(|name| ("ConfigMap", "configmap", name));
        let secret = || absent::<Secret>(reads, &namespace, &secrets);
        map.or_else(|| Some(("Secret", "secret", secret()?)))
    })?;
    let (kind, short, name) = missing;
    let missing = Object::new(kind, short, &namespace, &quote::name(name));
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
fn absent<'a, K: Readable>(
    reads: &LiveReads,
    namespace: &str,
    names: &[&'a str],
) -> Option<&'a str> {
    let mut names = names.iter().copied();
    names.find(|name| matches!(reads.metadata::<K>(namespace, name), Lookup::Absent))
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
