//! Claims that no volume is bound to.

use super::by_hand;
use crate::why::{
    Cause, Code, Evidence, Object, Selection, World,
    explain::{classes::Classes, events, users},
};
use k8s_openapi::api::{
    core::v1::{PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::ResourceExt;

/// Of classes whose volumes somebody makes by hand.
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
        (_, None) => no_class(world, object),
    };
    one.into_iter().collect()
}

fn no_class(world: &World, object: &Object) -> Option<Cause> {
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
    let sentence = "The claim has no StorageClass, and the cluster has no default one, so nobody makes a volume for it.";
    let first = classes.iter().map(ResourceExt::name_any).min();
    let command = first.map_or_else(
        || "kubectl get storageclass".to_owned(),
        |class| format!("kubectl annotate storageclass {class} storageclass.kubernetes.io/is-default-class=true"),
    );
    Some(Cause::new(Code::NoClass, sentence, evidence)
        .run(command, "if that is to be the class of all claims without one, this one included; else make the claim anew with a class"))
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
    if waits
        && !claim.annotations().contains_key(SELECTED_NODE)
        && let Some(cause) = consumer(world, object, name)
    {
        return vec![cause];
    }
    if class.provisioner == NO_PROVISIONER {
        let why = format!("asks for the StorageClass {name}, which makes no volumes by itself");
        return by_hand::any(world, object, claim, &why)
            .into_iter()
            .collect();
    }
    let stuck = provisioner(world, object, class);
    let doubled = Classes(&all).doubled(name);
    stuck.into_iter().chain(doubled).collect()
}

fn missing_class(object: &Object, name: &str) -> Cause {
    let sentence = format!("The claim asks for the StorageClass {name}, which does not exist.");
    let evidence = Evidence::new(object.to_string(), "spec.storageClassName");
    Cause::new(Code::ClassMissing, sentence, evidence).run(
        "kubectl get storageclass",
        "to see which there are; the class has to be made, or the claim anew",
    )
}

/// Bound with its first pod; nothing where that has its node.
fn consumer(world: &World, object: &Object, class: &str) -> Option<Cause> {
    let pods = world
        .list::<Pod>(object.namespace_name(), Selection::default())
        .found()?;
    let user = pods.iter().find(|pod| users::names(pod, &object.name.name));
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
    users::unscheduled(user)
}

/// Somebody is to make a volume.
fn provisioner(world: &World, object: &Object, class: &StorageClass) -> Option<Cause> {
    let (name, provisioner) = (class.name_any(), &class.provisioner);
    let failed = events::latest(world, object, "ProvisioningFailed")?;
    let describe = format!("kubectl describe {}", object.arguments());
    if let Some(failed) = failed {
        let sentence = format!(
            "The provisioner {provisioner} of the StorageClass {name} failed: {}",
            events::sentence(&failed)
        );
        let evidence = Evidence::new(object.to_string(), "events[ProvisioningFailed]")
            .since(events::since(&failed));
        return Some(
            Cause::new(Code::ProvisionerFailed, sentence, evidence)
                .run(describe, "to read on; it tries again by itself"),
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
        format!("kubectl get csidriver {provisioner}"),
        "to see whether the driver is installed, and then whether its provisioner runs",
    ))
}
