//! Claims that no volume is bound to.

use super::by_hand;
use crate::why::{
    Cause, Code, Evidence, Object, Selection, World,
    explain::{classes::Classes, events, users},
    read::{PersistentVolumeClaim, Pod},
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;

/// The provisioner name of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The scheduler has chosen a node, and the provisioner may begin.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Why nothing is bound to it.
pub(super) fn causes(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Vec<Cause> {
    let spec = claim.spec.clone().unwrap_or_default();
    let one = match (
        spec.volume_name.as_deref(),
        spec.storage_class_name.as_deref(),
    ) {
        (Some(volume), _) if !volume.is_empty() => by_hand::named(world, object, claim, volume),
        (_, Some("")) => by_hand::any(
            world,
            object,
            claim,
            "asks for no StorageClass, so only a volume without one will do",
        ),
        (_, Some(class)) => return of_class(world, object, claim, class),
        (_, None) => no_class(world, object, claim),
    };
    one.into_iter().collect()
}

fn no_class(world: &World, object: &Object, claim: &PersistentVolumeClaim) -> Option<Cause> {
    let classes = world
        .list::<StorageClass>("", Selection::default())
        .found()?;
    let defaults = Classes(&classes).defaults();
    let evidence = Evidence::new(object.to_string(), "spec.storageClassName");
    if let Some(default) = defaults.first() {
        let sentence = format!(
            "The claim has no StorageClass; kube-controller-manager is about to give it the default, {default}."
        );
        return Some(
            Cause::new(Code::NoClass, sentence, evidence).wait("it gets the class within seconds"),
        );
    }
    let why = "has no StorageClass, and the cluster has no default one, so no provisioner creates a volume for it";
    match by_hand::any(world, object, claim, why)? {
        cause if cause.code == Code::NoMatchingVolume => {}
        other => return Some(other),
    }
    let sentence = format!("The claim {why}.");
    Some(Cause::new(Code::NoClass, sentence, evidence).run(
        "kubectl get storageclass",
        "to choose one: recreate the claim with it, or make it the default by the annotation storageclass.kubernetes.io/is-default-class",
    ))
}

fn of_class(
    world: &World,
    object: &Object,
    claim: &PersistentVolumeClaim,
    name: &str,
) -> Vec<Cause> {
    let Some(all) = world.list::<StorageClass>("", Selection::default()).found() else {
        return Vec::new();
    };
    let Some(class) = all.iter().find(|class| class.name_any() == name) else {
        let why = format!(
            "asks for the StorageClass {name}, which does not exist, so only a volume of that class will do"
        );
        return match by_hand::any(world, object, claim, &why) {
            Some(cause) if cause.code == Code::NoMatchingVolume => {
                vec![missing_class(object, name)]
            }
            other => other.into_iter().collect(),
        };
    };
    let waits = class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer");
    if waits && !claim.annotations().contains_key(SELECTED_NODE) {
        return consumer(world, object, name).into_iter().collect();
    }
    if class.provisioner == NO_PROVISIONER {
        let why = format!("asks for the StorageClass {name}, which has no provisioner");
        return by_hand::any(world, object, claim, &why)
            .into_iter()
            .collect();
    }
    let Some(stuck) = provisioner(world, object, class) else {
        return Vec::new();
    };
    // What the provisioner says is nearer than how the claim came by its class.
    let silent = stuck.code == Code::ProvisionerSilent;
    let doubled = silent.then(|| Classes(&all).doubled(name)).flatten();
    std::iter::once(stuck).chain(doubled).collect()
}

fn missing_class(object: &Object, name: &str) -> Cause {
    let sentence = format!("The claim asks for the StorageClass {name}, which does not exist.");
    let evidence = Evidence::new(object.to_string(), "spec.storageClassName");
    Cause::new(Code::ClassMissing, sentence, evidence).run(
        "kubectl get storageclass",
        "to list the classes; create the class, or recreate the claim",
    )
}

/// Bound when the scheduler has chosen a node for the first pod.
fn consumer(world: &World, object: &Object, class: &str) -> Option<Cause> {
    let pods = world
        .list::<Pod>(object.namespace_name(), Selection::default())
        .found()?;
    let users = pods.iter().filter(|pod| pod.rules.names(&object.name.name));
    // One that lives and has no node yet is the one that it waits for.
    let user = users.min_by_key(|pod| {
        let placed = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        (pod.metadata.deletion_timestamp.is_some(), placed)
    });
    let Some(user) = user else {
        let sentence = format!(
            "The claim is bound when the first pod uses it (StorageClass {class}: WaitForFirstConsumer), and none does."
        );
        let evidence = Evidence::new(format!("StorageClass {class}"), "volumeBindingMode");
        return Some(
            Cause::new(Code::WaitsForPod, sentence, evidence)
                .wait("it is bound once a pod uses it"),
        );
    };
    users::unscheduled(user).or_else(|| users::bypasses_the_scheduler(user))
}

/// A provisioner is responsible for the volume.
fn provisioner(world: &World, object: &Object, class: &StorageClass) -> Option<Cause> {
    let (name, provisioner) = (class.name_any(), &class.provisioner);
    let failed = events::latest(world, object, "ProvisioningFailed")?;
    let describe = object.describe();
    if let Some(failed) = failed {
        let sentence = format!(
            "The provisioner {provisioner} of the StorageClass {name} failed: {}",
            events::sentence(&failed)
        );
        let evidence = Evidence::new(object.to_string(), "events[ProvisioningFailed]")
            .since(events::since(&failed));
        return Some(
            Cause::new(Code::ProvisionerFailed, sentence, evidence)
                .run(describe, "to read more; the provisioner retries"),
        );
    }
    let sentence = format!(
        "The claim waits for the provisioner {provisioner} of the StorageClass {name}, of which nothing is heard."
    );
    let evidence = Evidence::new(
        object.to_string(),
        "metadata.annotations[volume.kubernetes.io/storage-provisioner]",
    );
    Some(Cause::new(Code::ProvisionerSilent, sentence, evidence).run(
        object.describe(),
        "to see its latest Events; then check that the provisioner is installed and runs",
    ))
}
