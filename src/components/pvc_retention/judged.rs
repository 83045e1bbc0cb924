//! A StatefulSet as it was read, and the decisions about its claims.

use super::{
    caches::{Member, judge},
    fate::Fate,
    rule::{Step, Verdict},
};
use crate::{
    cluster::{Proof, Store},
    hashing::HashSet,
    objects::{ObjectName, Pod, StatefulSet, stateful_set::Retention},
};

/// A claim, and the verdict whose step is to be written.
pub type Work<'a> = (&'a Member, &'a Verdict);

/// A StatefulSet as it was read, and the verdict on each of its claims.
pub struct Judged {
    /// The StatefulSet, as the cache or a live read had it.
    pub set: StatefulSet,
    /// The claims that belong to the StatefulSet, or that could be deleted with it.
    pub members: Vec<Member>,
    /// The verdicts, one for each claim, in the order of the claims.
    pub verdicts: Vec<Verdict>,
    /// The proof that the StatefulSet was read live; none if it was read from the watch.
    pub proof: Option<Proof>,
}

impl Judged {
    fn work(&self) -> impl Iterator<Item = Work<'_>> {
        let all = self.members.iter().zip(&self.verdicts);
        all.filter(|(member, verdict)| !member.stale && verdict.step != Step::Leave)
    }

    /// The changes that keep claims which would be deleted otherwise.
    pub fn rescues(&self) -> impl Iterator<Item = Work<'_>> {
        let work = self.work();
        work.filter(|(member, verdict)| verdict.rescue(&member.claim).is_some())
    }

    /// The changes that are not needed to keep a claim.
    pub fn others(&self) -> impl Iterator<Item = Work<'_>> {
        let work = self.work();
        work.filter(|(member, verdict)| verdict.rescue(&member.claim).is_none())
    }

    /// Leaves of the updates of these claims only what removes owner references and the marker.
    pub fn only_remove(&mut self, which: impl Fn(&Member) -> bool) {
        let verdicts = self.members.iter().zip(&mut self.verdicts);
        for (member, verdict) in verdicts.filter(|(member, _)| which(member)) {
            if let Step::Update(update) = &mut verdict.step {
                *update = update.removals(&member.claim);
            }
        }
    }

    /// The claims in range that the pod of their ordinal owns, although the pods do not show it.
    /// The watch may lack the pod: then the garbage collector would delete the claim after it.
    pub fn doubted(&self, name: &ObjectName) -> HashSet<ObjectName> {
        let verdicts = self.members.iter().zip(&self.verdicts);
        let doubted = verdicts.filter(|(member, verdict)| {
            let in_range = member.own && !member.stale && self.set.has(member.ordinal);
            in_range && verdict.fate == Fate::StaleOwner && member.names_pod_of(name)
        });
        doubted.map(|(member, _)| member.name.clone()).collect()
    }
}

/// A StatefulSet that has a `spec.persistentVolumeClaimRetentionPolicy` and is not being deleted,
/// as it was read. Its claims are not judged yet.
pub struct Read {
    /// The StatefulSet, as the cache or a live read had it.
    pub set: StatefulSet,
    retention: Retention,
    proof: Option<Proof>,
}

impl Read {
    /// The verdict on each claim of the StatefulSet, given these pods.
    pub fn judge(self, name: &ObjectName, members: Vec<Member>, pods: &Store<Pod>) -> Judged {
        Judged {
            verdicts: judge(name, &self.set, self.retention, &members, pods),
            set: self.set,
            members,
            proof: self.proof,
        }
    }
}

/// The StatefulSet, or none if it is not managed: it is being deleted, so that the garbage
/// collector deletes the claims that it owns, or it has no retention policy.
pub fn managed(set: StatefulSet, proof: Option<Proof>) -> Option<Read> {
    let retention = set.retention.filter(|_| !set.deleting)?;
    Some(Read {
        set,
        retention,
        proof,
    })
}
