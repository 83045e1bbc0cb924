//! Whether a controller manages the object: Volume Warden, or Kubernetes' built-in controllers.

use crate::{
    component::{ComponentRef, PART_OF, is_led_by},
    why::{Cause, Code, Evidence, Look, Object, Selection, World},
};
use k8s_openapi::{
    api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
};
use kube::ResourceExt;

/// Younger deletions are simply under way.
const SOON: i64 = 5;
/// A running controller is mostly done before this.
const LATE: i64 = 60;
/// The clock here may be ahead of that of the holder of a Lease.
const CLOCKS: i64 = 15;

/// Only the protection finalizer holds an object that was deleted then, and why it is not removed.
pub(super) fn causes(
    world: &World,
    waiting: Cause,
    component: ComponentRef,
    deleted: Option<&Time>,
) -> Vec<Cause> {
    let age = deleted.map_or(0, |time| world.now.as_second() - time.0.as_second());
    if age < SOON {
        return vec![waiting];
    }
    let slow = protector(world, component, age);
    [Some(waiting), slow].into_iter().flatten().collect()
}

/// Who should have taken the protection off; nothing where that is not late, or is not known.
fn protector(world: &World, component: ComponentRef, age: i64) -> Option<Cause> {
    let leases = own_leases(world, component)?;
    match leases.iter().find(|lease| is_held(lease, world.now)) {
        Some(_) if age < LATE => None,
        Some(lease) => Some(late(lease, component, age)),
        None => match leases.first() {
            Some(lease) => Some(silent(lease, component)),
            None => in_tree(world, component),
        },
    }
}

/// It runs, and cannot.
fn late(lease: &Lease, component: ComponentRef, age: i64) -> Cause {
    let namespace = lease.namespace().unwrap_or_default();
    let object = Object::new("Lease", "lease", &namespace, &lease.name_any());
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref());
    let sentence = format!(
        "Volume Warden's {component} removes the protection finalizer and is at work ({}), but has not done so for {age} seconds.",
        holder.unwrap_or_default()
    );
    let evidence = Evidence::new(object.to_string(), "spec.holderIdentity");
    Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        format!("kubectl logs -n {namespace} -l app.kubernetes.io/name=volume-warden --tail=100 --prefix"),
        "to see what keeps it: mostly rights that it lacks, or an API server that does not answer",
    )
}

/// Volume Warden is installed, so the work is its.
fn silent(lease: &Lease, component: ComponentRef) -> Cause {
    let namespace = lease.namespace().unwrap_or_default();
    let object = Object::new("Lease", "lease", &namespace, &lease.name_any());
    let sentence = format!(
        "Volume Warden's {component} removes the protection finalizer, and no replica has held its Lease since: it is not running."
    );
    let evidence = Evidence::new(object.to_string(), "spec.renewTime").since(renewed(lease));
    Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        pods_of_ours(&namespace),
        "to see why it does not run; once it runs, the object is deleted",
    )
}

/// Volume Warden is not installed. Whether the controller in question is switched on cannot be seen, but whether its process runs can.
fn in_tree(world: &World, component: ComponentRef) -> Option<Cause> {
    let object = in_tree_lease();
    let found = world.get::<Lease>(object.namespace_name(), &object.name.name);
    let (sentence, since) = match found {
        Look::Found(lease) if is_held(&lease, world.now) => (
            format!(
                "Volume Warden's {component} is not installed, and kube-controller-manager runs but does not remove the protection finalizer: its \
                 controller for that is switched off, or late."
            ),
            None,
        ),
        Look::Found(lease) => (
            format!(
                "Volume Warden's {component} is not installed, and kube-controller-manager, which could do its work, is not running."
            ),
            renewed(&lease),
        ),
        Look::Absent => (
            format!(
                "Volume Warden's {component} is not installed, and no kube-controller-manager says that it is running."
            ),
            None,
        ),
        Look::Unread => return None,
    };
    let evidence = Evidence::new(object.to_string(), "spec.renewTime").since(since);
    Some(Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        object.describe(),
        "to see which controller manages this cluster's volumes, and to start it",
    ))
}

/// The Lease of the one replica of kube-controller-manager that works.
pub(super) fn in_tree_lease() -> Object {
    Object::new("Lease", "lease", "kube-system", "kube-controller-manager")
}

/// The Leases of Volume Warden for that component; nothing where they are not known.
fn own_leases(world: &World, component: ComponentRef) -> Option<Vec<Lease>> {
    let (label, value) = PART_OF;
    let labels = format!("{label}={value}");
    let selection = Selection {
        labels: &labels,
        fields: "",
    };
    let leases = world.list::<Lease>("", selection).found()?;
    let for_it = leases
        .iter()
        .filter(|lease| is_led_by(component, lease.labels()));
    Some(for_it.cloned().collect())
}

/// Whether Volume Warden does the work of that component now.
pub(super) fn at_work(world: &World, component: ComponentRef) -> Option<Lease> {
    let leases = own_leases(world, component)?;
    leases.into_iter().find(|lease| is_held(lease, world.now))
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else {
        return false;
    };
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let duration = i64::from(spec.lease_duration_seconds.unwrap_or_default());
    let renewed = spec
        .renew_time
        .as_ref()
        .map_or(0, |time| time.0.as_second());
    !holder.is_empty() && renewed + duration + CLOCKS >= now.as_second()
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

/// The command that shows our replicas.
pub(super) fn pods_of_ours(namespace: &str) -> String {
    format!("kubectl get pods -n {namespace} -l app.kubernetes.io/name=volume-warden -o wide")
}
