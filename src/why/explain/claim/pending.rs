//! Explains Pending claims.

use super::{by_hand, data_source::DataSource};
use crate::objects::fit::named_class;
use crate::why::{
    Cause, Code, Evidence, LiveReads, Object, Selection,
    explain::{classes::Classes, events, nodes, pod::conditions::condition, quote, users, writers},
    read::{PersistentVolumeClaim, Pod},
};
use k8s_openapi::api::{core::v1::Event, storage::v1::StorageClass};
use kube::ResourceExt;

/// The provisioner name of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The prefix of the provisioners that kube-controller-manager contains.
const IN_TREE: &str = "kubernetes.io/";
/// The source of the Events of the controller of kube-controller-manager that binds claims.
const BINDER: &str = "persistentvolume-controller";
/// The reason of the Event that no volume was created for a claim.
const FAILED: &str = "ProvisioningFailed";
/// The annotation that the scheduler sets on a claim once it has selected a node. The provisioner
/// may then create the volume.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Explains why the claim is not bound to a volume.
pub(super) fn causes(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
) -> Vec<Cause> {
    let spec = claim.spec.clone().unwrap_or_default();
    let one = match (
        spec.volume_name.as_deref(),
        named_class(claim.annotations(), spec.storage_class_name.as_ref()).map(String::as_str),
    ) {
        (Some(volume), _) if !volume.is_empty() => by_hand::named(reads, object, claim, volume),
        (_, Some("")) => by_hand::any(
            reads,
            object,
            claim,
            "requests no StorageClass, so it can be bound only to a volume without one",
        ),
        (_, Some(class)) => return of_class(reads, object, claim, class),
        (_, None) => no_class(reads, object, claim),
    };
    one.into_iter().collect()
}

fn no_class(reads: &LiveReads, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let classes = reads
        .list::<StorageClass>("", Selection::default())
        .found()?;
    let defaults = Classes(&classes).defaults();
    let evidence = Evidence::new(object.to_string(), "spec.storageClassName");
    if let Some(default) = defaults.first() {
        let sentence = format!(
            "The claim has no StorageClass; kube-controller-manager is about to give it the default StorageClass {default}."
        );
        return Some(
            Cause::new(Code::NoClass, sentence, evidence)
                .wait("the claim gets the default StorageClass within seconds"),
        );
    }
    let why = "has no StorageClass, and the cluster has no default StorageClass, so no provisioner creates a volume for it";
    match by_hand::any(reads, object, claim, why)? {
        cause if cause.code == Code::NoMatchingVolume => {}
        other => return Some(other),
    }
    let sentence = format!("The claim {why}.");
    Some(Cause::new(Code::NoClass, sentence, evidence).run(
        "kubectl get storageclass",
        "to choose a StorageClass; then recreate the claim with it, or make it the default with the \
         annotation storageclass.kubernetes.io/is-default-class",
    ))
}

fn of_class(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Vec<Cause> {
    let Some(all) = reads.list::<StorageClass>("", Selection::default()).found() else {
        return Vec::new();
    };
    let Some(class) = all.iter().find(|class| class.name_any() == name) else {
        let shown = quote::name(name);
        let why = format!(
            "requests the StorageClass {shown}, which does not exist, so it can be bound only to a volume that names that class"
        );
        return match by_hand::any(reads, object, claim, &why) {
            Some(cause) if cause.code == Code::NoMatchingVolume => {
                vec![missing_class(object, name)]
            }
            other => other.into_iter().collect(),
        };
    };
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
        && !claim.annotations().contains_key(SELECTED_NODE);
    if class.provisioner == NO_PROVISIONER {
        let why = format!("requests the StorageClass {name}, which has no provisioner");
        let of_volumes = by_hand::any(reads, object, claim, &why);
        // If a volume fits, the scheduler selects it together with the node of the first pod.
        let fits = |cause: &Cause| cause.code == Code::ProvisionerSilent;
        if !waits || of_volumes.as_ref().is_some_and(|cause| !fits(cause)) {
            return of_volumes.into_iter().collect();
        }
    }
    if waits {
        return consumer(reads, object, claim, class).into_iter().collect();
    }
    let Some(stuck) = provisioner(reads, object, claim, class) else {
        return Vec::new();
    };
    // A failure that the provisioner reports is more likely the cause than a second default class,
    // and the provisioner of a second class would leave such a data source to its controller, too.
    let silent = stuck.code == Code::ProvisionerSilent && DataSource::populated(claim).is_none();
    let doubled = silent.then(|| Classes(&all).doubled(name)).flatten();
    std::iter::once(stuck).chain(doubled).collect()
}

fn missing_class(object: &Object, name: &str) -> Cause {
    let name = quote::name(name);
    let sentence = format!("The claim requests the StorageClass {name}, which does not exist.");
    let evidence = Evidence::new(object.to_string(), "spec.storageClassName");
    Cause::new(Code::ClassMissing, sentence, evidence).run(
        "kubectl get storageclass",
        "to list the StorageClasses; then create the missing one, or recreate the claim with another",
    )
}

/// Explains a claim whose StorageClass is `WaitForFirstConsumer`: it is bound once the scheduler
/// has selected a node for the first pod that uses it.
fn consumer(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Option<Cause> {
    let users = reads
        .users(object.namespace_name(), &object.name.name)
        .found()?;
    // The claim waits for a pod that is not being deleted and has no node yet, if there is one.
    let waiting = users.iter().filter(|pod| may_wait_for(pod, claim));
    let user = waiting.min_by_key(|pod| {
        let placed = nodes::name_of(pod).is_some();
        (pod.metadata.deletion_timestamp.is_some(), placed)
    });
    let Some(user) = user else {
        let reason = if users.is_empty() {
            "no pod uses it yet"
        } else {
            "the pods that use it have finished, or got their node before the claim was created"
        };
        let class = class.name_any();
        let sentence = format!(
            "The claim is bound when the first pod uses it (StorageClass {class}: WaitForFirstConsumer), and {reason}."
        );
        let evidence = Evidence::new(format!("StorageClass {class}"), "volumeBindingMode");
        return Some(
            Cause::new(Code::WaitsForPod, sentence, evidence)
                .wait("the claim is bound once a new pod uses it"),
        );
    };
    if is_to_be_rescheduled(user)
        && let Some(failed) = failure(reads, object, claim, class)?
    {
        return Some(failed);
    }
    users::unscheduled(user).or_else(|| users::bypasses_the_scheduler(user))
}

/// Whether the scheduler had selected a node for the pod, and then failed to bind its volumes. A
/// provisioner that cannot create the volume for that node, for example because its zone has no
/// capacity, removes the annotation of the node from the claim, and the scheduler begins again.
///
/// Sources: `pkg/scheduler/schedule_one.go` (`handleSchedulingFailure`) of Kubernetes, and
/// `controller/controller.go` of sig-storage-lib-external-provisioner.
fn is_to_be_rescheduled(pod: &Pod) -> bool {
    let scheduled = condition(pod, "PodScheduled");
    let reason = scheduled.and_then(|condition| condition.reason.as_deref());
    nodes::name_of(pod).is_none() && reason == Some("SchedulerError")
}

/// Whether the claim may wait for the pod. False if the pod has finished, or if the scheduler
/// selected its node before the claim was created, so for an earlier claim of the same name. The
/// scheduler's Binding is not recorded in `managedFields`; a client that sets the node itself is.
fn may_wait_for(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let created = pod.creation_timestamp().zip(claim.creation_timestamp());
    let older = created.is_some_and(|(pod, claim)| pod.0 < claim.0);
    let scheduled = nodes::name_of(pod).is_some()
        && writers::writer(&pod.metadata, &users::NODE_NAME).is_none();
    !(pod.trimmed.finished || older && scheduled)
}

/// Whether the Event can be by the provisioner. Before a provisioner is called,
/// kube-controller-manager emits Events with the same reason, for example that the StorageClass
/// does not exist; then they are by the provisioner only if it is one of its own.
fn is_by(event: &Event, provisioner: &str) -> bool {
    let source = event.source.as_ref();
    let component = source.and_then(|source| source.component.as_deref());
    component != Some(BINDER) || provisioner.starts_with(IN_TREE)
}

/// The cause that the provisioner of the class has reported a failure; `Some(None)` if it has not,
/// and none if the Events of the claim could not be read.
fn failure(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Option<Option<Cause>> {
    let (name, provisioner) = (class.name_any(), &class.provisioner);
    let counts = |event: &Event| is_by(event, provisioner);
    let uid = claim.uid();
    let failed = events::latest_of(reads, object, uid.as_deref(), FAILED, counts)?;
    Some(failed.map(|failed| {
        let sentence = format!(
            "The provisioner {provisioner} of the StorageClass {name} failed: {}",
            events::sentence(&failed)
        );
        let evidence = Evidence::new(object.to_string(), "events[ProvisioningFailed]")
            .since(events::since(&failed));
        Cause::new(Code::ProvisionerFailed, sentence, evidence).run(
            object.describe(),
            "to see all Events of the claim; the provisioner retries",
        )
    }))
}

/// Explains a claim whose volume a provisioner has to create.
fn provisioner(
    reads: &LiveReads,
    object: &Object,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Option<Cause> {
    if let Some(failed) = failure(reads, object, claim, class)? {
        return Some(failed);
    }
    let (name, provisioner) = (class.name_any(), &class.provisioner);
    if let Some(source) = DataSource::populated(claim) {
        return Some(source.cause(object, provisioner));
    }
    let sentence = format!(
        "The claim waits for the provisioner {provisioner} of the StorageClass {name}, which has created no volume and reported no failure."
    );
    let evidence = Evidence::new(
        object.to_string(),
        "metadata.annotations[volume.kubernetes.io/storage-provisioner]",
    );
    Some(Cause::new(Code::ProvisionerSilent, sentence, evidence).run(
        object.describe(),
        "to see the latest Events of the claim; then check that the provisioner is installed and runs",
    ))
}
