//! A set as it was read, and what is to be done for its claims.

use super::{
    caches::{Member, judge},
    rule::{Step, Verdict},
};
use crate::{
    cluster::{Proof, Store},
    objects::{ObjectName, Pod, StatefulSet, stateful_set::Retention},
};

/// A claim on which something is to be written, and what.
pub type Work<'a> = (&'a Member, &'a Verdict);

/// A set as it was judged, and what becomes of each of its claims.
pub struct Judged {
    /// The set.
    pub set: StatefulSet,
    /// Its claims.
    pub members: Vec<Member>,
    /// One for each claim, in their order.
    pub verdicts: Vec<Verdict>,
    /// That the set was read live, if it was.
    pub proof: Option<Proof>,
}

impl Judged {
    fn work(&self) -> impl Iterator<Item = Work<'_>> {
        let all = self.members.iter().zip(&self.verdicts);
        all.filter(|(member, verdict)| !member.stale && verdict.step != Step::Leave)
    }

    /// What is to be written to keep a claim.
    pub fn rescues(&self) -> impl Iterator<Item = Work<'_>> {
        let work = self.work();
        work.filter(|(member, verdict)| verdict.rescue(&member.claim).is_some())
    }

    /// Everything else that is to be written.
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
    /// What becomes of each claim, given these pods.
    pub fn judge(self, name: &ObjectName, members: Vec<Member>, pods: &Store<Pod>) -> Judged {
        Judged {
            verdicts: judge(name, &self.set, self.retention, &members, pods),
            set: self.set,
            members,
            proof: self.proof,
        }
    }
}

/// A set that is being deleted has its claims seen to by the garbage collector; one without a policy is nobody's.
pub fn managed(set: StatefulSet, proof: Option<Proof>) -> Option<Read> {
    let retention = set.retention.filter(|_| !set.deleting)?;
    Some(Read {
        set,
        retention,
        proof,
    })
}
