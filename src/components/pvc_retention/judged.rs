//! A set as it was read, and the decisions about its claims.

use super::{
    caches::{Member, judge},
    rule::{Step, Verdict},
};
use crate::{
    cluster::{Proof, Store},
    objects::{ObjectName, Pod, StatefulSet, stateful_set::Retention},
};

/// A claim and the change to write.
pub type Work<'a> = (&'a Member, &'a Verdict);

/// A set as it was read, and the fate of each of its claims.
pub struct Judged {
    /// The set.
    pub set: StatefulSet,
    /// Its claims.
    pub members: Vec<Member>,
    /// One for each claim, in their order.
    pub verdicts: Vec<Verdict>,
    /// Proof that the set was read live, if it was.
    pub proof: Option<Proof>,
}

impl Judged {
    fn work(&self) -> impl Iterator<Item = Work<'_>> {
        let all = self.members.iter().zip(&self.verdicts);
        all.filter(|(member, verdict)| !member.stale && verdict.step != Step::Leave)
    }

    /// The changes that keep claims.
    pub fn rescues(&self) -> impl Iterator<Item = Work<'_>> {
        let work = self.work();
        work.filter(|(member, verdict)| verdict.rescue(&member.claim).is_some())
    }

    /// All other changes.
    pub fn others(&self) -> impl Iterator<Item = Work<'_>> {
        let work = self.work();
        work.filter(|(member, verdict)| verdict.rescue(&member.claim).is_none())
    }
}

/// A set with a policy, as it was read.
pub struct Read {
    /// The set.
    pub set: StatefulSet,
    retention: Retention,
    proof: Option<Proof>,
}

impl Read {
    /// The fate of each claim, given these pods.
    pub fn judge(self, name: &ObjectName, members: Vec<Member>, pods: &Store<Pod>) -> Judged {
        Judged {
            verdicts: judge(name, &self.set, self.retention, &members, pods),
            set: self.set,
            members,
            proof: self.proof,
        }
    }
}

/// The set, unless it is not managed: the garbage collector handles the claims of a set that is
/// being deleted, and a set without a policy is not managed.
pub fn managed(set: StatefulSet, proof: Option<Proof>) -> Option<Read> {
    let retention = set.retention.filter(|_| !set.deleting)?;
    Some(Read {
        set,
        retention,
        proof,
    })
}
