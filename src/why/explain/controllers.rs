//! Finds out whether the controller that removes a protection finalizer runs: Volume Warden, or
//! Kubernetes' built-in controllers.

use super::quote;
use crate::{
    component::ComponentRef,
    installation,
    why::{Cause, Code, Evidence, LiveReads, Lookup, Object, Selection},
};
use k8s_openapi::{
    api::{coordination::v1::Lease, rbac::v1::ClusterRoleBinding},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube::ResourceExt;

/// Age of a deletion, in seconds, below which `why` does not check whether the controller that
/// removes the finalizer runs: that controller needs some seconds.
const CHECK_AFTER_SECONDS: i64 = 5;
/// Age of a deletion, in seconds, from which a controller counts as late: Volume Warden, if it
/// runs, and kube-controller-manager with a namespace.
pub(super) const LATE: i64 = 60;
/// Tolerance in seconds when a Lease is compared with the local clock, which may be ahead of the
/// clock of the holder.
const CLOCK_SKEW_SECONDS: i64 = 15;

/// The chain of causes for an object that nothing uses, but that still has the protection
/// finalizer: `waiting`, which says so, and why no controller has removed the finalizer since
/// `deleted`, the time of the deletion.
pub(super) fn causes(
    reads: &LiveReads,
    waiting: Cause,
    component: ComponentRef,
    deleted: Option<&Time>,
) -> Vec<Cause> {
    let age = deleted.map_or(0, |time| reads.now.as_second() - time.0.as_second());
    if age < CHECK_AFTER_SECONDS {
        return vec![waiting];
    }
    let slow = protector(reads, component, age);
    [Some(waiting), slow].into_iter().flatten().collect()
}

/// The cause that the controller of the protection finalizer is late or not running. None if Volume
/// Warden runs and the deletion is younger than [`LATE`], or if the Leases could not be read.
fn protector(reads: &LiveReads, component: ComponentRef, age: i64) -> Option<Cause> {
    let leases = own_leases(reads, component)?;
    match leases.iter().find(|lease| is_held(lease, reads.now)) {
        Some(_) if age < LATE => None,
        Some(lease) => Some(late(lease, component)),
        None => match leases.first() {
            Some(lease) => Some(silent(lease, component)),
            None => in_tree(reads, component),
        },
    }
}

/// The cause that Volume Warden runs, but has not removed the protection finalizer.
fn late(lease: &Lease, component: ComponentRef) -> Cause {
    let namespace = lease.namespace().unwrap_or_default();
    let object = Object::new("Lease", "lease", &namespace, &lease.name_any());
    let holder = lease
        .spec
        .as_ref()
        .and_then(|spec| spec.holder_identity.as_deref());
    let sentence = format!(
        "Volume Warden's {component} runs (replica {}), but has not removed the protection finalizer within a minute of the deletion.",
        quote::name(holder.unwrap_or_default())
    );
    let evidence = Evidence::new(object.to_string(), "spec.holderIdentity");
    Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        format!("kubectl logs -n {namespace} -l app.kubernetes.io/name=volume-warden --tail=100 --prefix"),
        "if the object remains, to see what prevents Volume Warden from removing the finalizer: mostly a missing permission, or an API server that does not answer",
    )
}

/// The cause that Volume Warden is installed, so that its component should remove the finalizer,
/// but does not run.
fn silent(lease: &Lease, component: ComponentRef) -> Cause {
    let namespace = lease.namespace().unwrap_or_default();
    let object = Object::new("Lease", "lease", &namespace, &lease.name_any());
    let sentence = format!(
        "Volume Warden's {component} removes the protection finalizer, but no replica holds its Lease: Volume Warden is not running."
    );
    let evidence = Evidence::new(object.to_string(), "spec.renewTime").since(renewed(lease));
    Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        list_replicas_command(&namespace),
        "to see why Volume Warden does not run; once it runs, the object is deleted",
    )
}

/// The cause that Volume Warden's component is not installed and kube-controller-manager does not
/// remove the finalizer. The Lease of kube-controller-manager shows only whether it runs, not
/// whether its protection controller is enabled. None if that Lease could not be read.
fn in_tree(reads: &LiveReads, component: ComponentRef) -> Option<Cause> {
    let object = in_tree_lease();
    let found = reads.get::<Lease>(object.namespace_name(), &object.name.name);
    let (sentence, since) = match found {
        Lookup::Found(lease) if is_held(&lease, reads.now) => (
            format!(
                "Volume Warden's {component} is not installed, and kube-controller-manager runs but does not remove the protection finalizer: its \
                 protection controller is disabled, or late."
            ),
            None,
        ),
        Lookup::Found(lease) => (
            format!(
                "Volume Warden's {component} is not installed, and kube-controller-manager, which could remove the protection finalizer, is not running."
            ),
            renewed(&lease),
        ),
        Lookup::Absent => (
            format!(
                "Volume Warden's {component} is not installed, and kube-controller-manager, which could remove the protection finalizer, has no Lease."
            ),
            None,
        ),
        Lookup::Unread => return None,
    };
    let evidence = Evidence::new(object.to_string(), "spec.renewTime").since(since);
    Some(Cause::new(Code::OwnerNotRunning, sentence, evidence).run(
        object.describe(),
        "to see whether kube-controller-manager runs; then start it with its protection controller, or install Volume Warden's component",
    ))
}

/// The Lease that elects the leader of kube-controller-manager.
pub(super) fn in_tree_lease() -> Object {
    Object::new("Lease", "lease", "kube-system", "kube-controller-manager")
}

/// The cause, which `sentence` describes, that kube-controller-manager has not bound the claim yet,
/// although nothing prevents that.
pub(super) fn late_binder(claim: &Object, sentence: String, purpose: &str) -> Cause {
    let evidence = Evidence::new(claim.to_string(), "status.phase");
    let cause = Cause::new(Code::ProvisionerSilent, sentence, evidence);
    cause.run(in_tree_lease().describe(), purpose)
}

/// The Leases that elect the leader of the component, in the namespaces in which Volume Warden is
/// installed: see [`installation`]. None if it could not be read whether there are any.
pub(super) fn own_leases(reads: &LiveReads, component: ComponentRef) -> Option<Vec<Lease>> {
    let labels = installation::selector();
    let selection = Selection {
        labels: &labels,
        fields: "",
    };
    let leases = reads.list::<Lease>("", selection).found()?;
    let mut leases = Vec::clone(&leases);
    leases.retain(|lease| installation::leads_any(lease, &[component]));
    if leases.is_empty() {
        return Some(leases);
    }
    let bindings = reads.list::<ClusterRoleBinding>("", selection).found()?;
    let installed = installation::namespaces(&bindings);
    leases.retain(|lease| {
        let namespace = lease.namespace().unwrap_or_default();
        installed.contains(&*namespace)
    });
    Some(leases)
}

/// The Lease with which a replica of Volume Warden runs the component now; none if no replica does,
/// or Leases could not be read.
pub(super) fn held_lease(reads: &LiveReads, component: ComponentRef) -> Option<Lease> {
    let leases = own_leases(reads, component)?;
    leases.into_iter().find(|lease| is_held(lease, reads.now))
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
    !holder.is_empty() && renewed + duration + CLOCK_SKEW_SECONDS >= now.as_second()
}

fn renewed(lease: &Lease) -> Option<Timestamp> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0)
}

/// The command that lists the replicas of Volume Warden.
pub(super) fn list_replicas_command(namespace: &str) -> String {
    format!("kubectl get pods -n {namespace} -l app.kubernetes.io/name=volume-warden -o wide")
}
