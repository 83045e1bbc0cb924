//! Everything in a namespace, or in the cluster, that is stuck, each with its root cause.
//!
//! **Rule.** An object is stuck if `why` finds a root cause for its state, and that cause is not
//! normal. Normal are: a claim waits for its first pod, the persistentVolumeClaimRetentionPolicy of
//! a StatefulSet keeps or deletes a claim, an object is deleted within seconds, a pod is in its
//! grace period, or the cause concerns only the installation of Volume Warden. If `why` finds no
//! cause, a claim, volume or namespace is stuck if its state is Terminating, Pending, Lost, Failed
//! or Released. Of pods and StatefulSets, only those are listed whose root cause concerns a volume.
//! An object that has been in its state for less than [`Which::min_age`] is not listed: binding,
//! mounting and deleting take some time.
//!
//! **Limits.** Most kinds are read with a LIST of all their objects, and the number of API calls
//! has a maximum: what would need more calls is reported as not read.

mod candidates;

use super::{
    Answer, Code, Conclusion, LiveReads, Lookup, Next, Object, explain::explain,
    read::PersistentVolumeClaim,
};
use crate::{
    causes::{Cause, ObjectKind},
    cluster::{DEFAULT_CALL_TIMEOUT, existing, within},
};
use candidates::{claims, namespaces, pods, sets, volumes};
use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use kube::{Api, Client};
use serde::Serialize;
use std::time::Duration;

/// Maximum number of claims that are read again because their volume is missing: more were not all
/// deleted just now.
const READ_AGAIN: usize = 10;

/// Which objects are examined.
#[derive(Clone, Debug)]
pub struct Which {
    /// The namespace; none for the whole cluster.
    pub namespace: Option<String>,
    /// Minimum time in the present state. A stuck object for which this time is unknown is listed.
    pub min_age: Duration,
}

/// All stuck objects that were found, and what could not be read.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stuck {
    /// The stuck objects: first all claims, then volumes, pods, StatefulSets and namespaces, each
    /// kind sorted by namespace and name.
    pub items: Vec<Item>,
    /// The objects that could not be read, each with its error, as sentences. Some of them may be
    /// stuck.
    pub unread: Vec<String>,
    /// The number of API calls.
    pub calls: usize,
}

/// One stuck object.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The kind of the object: `PersistentVolumeClaim`.
    pub kind: &'static str,
    /// Short kind and name: `pvc/data`.
    pub object: String,
    /// Kind and name, as kubectl prints them with `-o name`: `persistentvolumeclaim/data`.
    pub resource: String,
    /// The namespace of the object; empty for a cluster-scoped object.
    pub namespace: String,
    /// The name of the object, without its kind.
    pub name: String,
    /// The state of the object, in words: `Terminating`.
    pub state: String,
    /// When the object entered this state, if known; else, for example for a Pending claim, a
    /// Running pod or a StatefulSet, the time of its creation or of its first cause, if known.
    pub since: Option<Timestamp>,
    /// The root cause; none if no rule found one.
    pub root: Option<Cause>,
    /// The command that explains the object in detail.
    pub command: String,
}

/// The result of looking for stuck objects.
#[derive(Clone, Debug, PartialEq)]
pub enum Survey {
    /// The stuck objects, of which there may be none.
    Found(Stuck),
    /// The namespace does not exist.
    NoNamespace,
}

/// Finds all stuck objects with live reads, with the permissions of `client`.
pub async fn survey(client: Client, which: &Which, now: Timestamp) -> Survey {
    let mut reads = LiveReads::for_all(client.clone(), now, which.namespace.is_some());
    // Claims are read before what they name. A volume or an owner that a later LIST lacks does not
    // exist; one that an earlier LIST lacks may have been created, and then named, after it.
    candidates::request_claims(&reads, which);
    reads.read_requested().await;
    loop {
        let items = items(&reads, which);
        if reads.read_requested().await {
            continue;
        }
        return match items {
            None => Survey::NoNamespace,
            Some(items) => Survey::Found(Stuck {
                items: without_deleted(&client, items).await,
                unread: reads.unread(),
                calls: reads.calls(),
            }),
        };
    }
}

/// Leaves out claims that were deleted together with their volume after the LIST of claims, and
/// before that of volumes.
async fn without_deleted(client: &Client, items: Vec<Item>) -> Vec<Item> {
    let lacks_volume = |item: &Item| {
        let root = item.root.as_ref();
        item.kind == ObjectKind::PersistentVolumeClaim.name()
            && root.is_some_and(|root| root.code == Code::VolumeMissing)
    };
    if items.iter().filter(|item| lacks_volume(item)).count() > READ_AGAIN {
        return items;
    }
    let checked = items.into_iter().map(async |item| {
        if !lacks_volume(&item) {
            return Some(item);
        }
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &item.namespace);
        let read = within(DEFAULT_CALL_TIMEOUT, claims.get_metadata(&item.name)).await;
        let is_deleted = matches!(existing(read), Ok(None));
        (!is_deleted).then_some(item)
    });
    join_all(checked).await.into_iter().flatten().collect()
}

/// The stuck objects among those that could be read; `None` if the namespace does not exist.
fn items(reads: &LiveReads, which: &Which) -> Option<Vec<Item>> {
    let namespaces = namespaces(reads, which)?;
    let objects = claims(reads, which)
        .into_iter()
        .chain(volumes(reads, which))
        .chain(pods(reads, which))
        .chain(sets(reads, which))
        .chain(namespaces);
    let answers = objects.filter_map(|object| match explain(reads, &object) {
        Lookup::Found(answer) => Some((object, answer)),
        Lookup::Absent | Lookup::Unread => None,
    });
    let oldest = reads.now.as_second() - i64::try_from(which.min_age.as_secs()).unwrap_or(i64::MAX);
    let stuck = answers.filter(|(object, answer)| {
        is_stuck(object, answer) && since(answer).is_none_or(|since| since.as_second() <= oldest)
    });
    Some(
        stuck
            .map(|(object, answer)| item(&object, answer))
            .collect(),
    )
}

fn item(object: &Object, mut answer: Answer) -> Item {
    let since = since(&answer);
    let name = &object.name;
    let at = if name.namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {}", name.namespace)
    };
    let group = match object.kind {
        ObjectKind::StatefulSet => ".apps",
        ObjectKind::PersistentVolumeClaim
        | ObjectKind::PersistentVolume
        | ObjectKind::Pod
        | ObjectKind::Namespace
        | ObjectKind::Other { .. } => "",
    };
    let (kind, short) = (object.kind.name(), object.kind.short());
    let short = format!("{short}/{}", name.name);
    Item {
        kind,
        resource: format!("{}{group}/{}", kind.to_lowercase(), name.name),
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
        state: answer.state,
        since,
        root: answer.chain.pop(),
        command: format!("volume-warden why {short}{at}"),
        object: short,
    }
}

/// The time in the answer. The answer about a StatefulSet that is not being deleted contains none,
/// and a Running pod is created long before its volumes are mounted again, so the time of the first
/// cause is used for these, and for a Bound claim or volume, if the cause has a time.
fn since(answer: &Answer) -> Option<Timestamp> {
    let first = answer.chain.first().and_then(|cause| cause.evidence.since);
    match answer.state.as_str() {
        "Running" => first,
        "Bound" => first.or(answer.since),
        _ => answer.since.or(first),
    }
}

fn is_stuck(object: &Object, answer: &Answer) -> bool {
    let of_pods = matches!(object.kind, ObjectKind::Pod | ObjectKind::StatefulSet);
    match (&answer.conclusion, answer.root()) {
        (Conclusion::Healthy { .. }, _) => false,
        (Conclusion::NothingFound { .. }, _) | (_, None) => !of_pods && is_abnormal(&answer.state),
        (Conclusion::Explained, Some(root)) => !is_normal(root, of_pods),
    }
}

/// Returns whether a claim, volume or namespace in this state is listed even if no cause is found,
/// because it should not stay in this state.
fn is_abnormal(state: &str) -> bool {
    ["Terminating", "Pending", "Lost", "Failed", "Released"].contains(&state)
}

/// Returns whether the root cause is no problem, so that the object does not count as stuck. For a
/// pod or a StatefulSet (`of_pods`), this includes every cause that concerns no volume.
fn is_normal(root: &Cause, of_pods: bool) -> bool {
    let waits = matches!(root.next, Next::Nothing { .. });
    match root.code {
        Code::WaitsForPod | Code::KeptByPolicy | Code::DeletedByPolicy | Code::BothActive => true,
        Code::WebhookDown | Code::CertificateWrong => true,
        Code::NoVolumeProblem => of_pods,
        // Without a command to run, the pod is in its grace period, or about to be deleted.
        Code::PodTerminating => waits,
        code => !code.lasts(),
    }
}
