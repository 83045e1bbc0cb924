//! Taking back what this component wrote, which KEP-1847 calls equal to Retain: no claim goes with its set or pod any more.

use super::{
    NAME,
    known::{Known, Member, judge},
    patch::changes,
    rule::{Mark, Step, Update},
};
use crate::{
    cluster::{Action, Applied, Apply},
    objects::{ObjectName, StatefulSet, stateful_set::Retention},
};
use futures::future::join_all;
use std::{collections::HashSet, fmt, time::Duration};

/// So often, for claims that others write meanwhile.
const ROUNDS: u32 = 20;
/// For the watch to tell of what was written.
const PAUSE: Duration = Duration::from_millis(250);
/// Why: log field and metric label.
const TAKEN_BACK: &str = "TakenBack";

/// See the module.
pub struct Drain {
    /// What the watches tell, complete.
    pub known: Known,
    /// The writer.
    pub apply: Apply,
    /// Leave the owner references of claims whose pod is there: Kubernetes' own controller looks after them, and after no others.
    pub in_tree: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Drained {
    /// Claims that are rid of what we wrote.
    pub taken_back: usize,
    /// Claims that would be, were this no dry run.
    pub withheld: usize,
    /// Claims that still carry it.
    pub failed: usize,
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            taken_back,
            withheld,
            failed,
        } = self;
        write!(f, "{taken_back} claims changed")?;
        if *withheld > 0 {
            write!(f, ", {withheld} would be")?;
        }
        if *failed > 0 {
            write!(f, ", {failed} could not be")?;
        }
        Ok(())
    }
}

/// A claim with something to take back.
struct Piece {
    member: Member,
    update: Update,
}

impl Drain {
    /// Takes everything back, a line for each claim.
    pub async fn run(&self, mut say: impl FnMut(&str)) -> Drained {
        let mut drained = Drained::default();
        // What was said no to, or is a dry run's, is not tried again.
        let mut settled: HashSet<ObjectName> = HashSet::new();
        for _ in 0..ROUNDS {
            let left = self.left(&settled);
            if left.is_empty() {
                return drained;
            }
            let told = left.iter().filter(|piece| !piece.member.outdated);
            let applied = join_all(told.clone().map(|piece| self.take_back(piece))).await;
            for (piece, applied) in told.zip(applied) {
                let name = &piece.member.name;
                match applied {
                    Applied::Done => {
                        drained.taken_back += 1;
                        say(&format!("{name}: taken back"));
                        continue;
                    }
                    Applied::Outdated | Applied::NotLeading => continue,
                    Applied::Withheld => {
                        drained.withheld += 1;
                        say(&format!("{name}: would be taken back"));
                    }
                    Applied::Failed(error) => {
                        drained.failed += 1;
                        say(&format!("{name}: {error}"));
                    }
                }
                settled.insert(name.clone());
            }
            tokio::time::sleep(PAUSE).await;
        }
        drained.failed += self.left(&settled).len();
        drained
    }

    fn left(&self, settled: &HashSet<ObjectName>) -> Vec<Piece> {
        let mut left = self.pieces();
        left.retain(|piece| !settled.contains(&piece.member.name));
        left
    }

    async fn take_back(&self, piece: &Piece) -> Applied {
        let claim = &piece.member.claim;
        let action = Action::UpdateOwnerReferences(changes(claim, &piece.update));
        let applied = self
            .apply
            .perform(NAME, &piece.member.target(None), action, TAKEN_BACK)
            .await;
        if applied.written() {
            self.known.claims.outdate(&piece.member.name, claim);
        }
        applied
    }

    fn pieces(&self) -> Vec<Piece> {
        let sets = self.known.all_sets();
        let living = sets.iter().filter(|(_, set)| !set.deleting);
        let of_sets = living.flat_map(|(name, set)| self.pieces_of(name, set));
        let mut pieces: Vec<_> = of_sets.collect();
        pieces.extend(self.marks_of_nobody(&pieces));
        pieces
    }

    /// As if the set retained everything.
    fn pieces_of(&self, name: &ObjectName, set: &StatefulSet) -> Vec<Piece> {
        let members = self.known.members(name);
        let retained = Retention::default();
        let verdicts = judge(name, set, retained, &members, &self.known.pods.read());
        let judged = members.into_iter().zip(verdicts);
        let pieces = judged.filter_map(|(member, verdict)| match verdict.step {
            Step::Update(update) => self.piece(member, update),
            Step::Leave | Step::Delete => None,
        });
        pieces.collect()
    }

    /// Marks of sets that are gone or going, and on claims that are nobody's.
    fn marks_of_nobody(&self, others: &[Piece]) -> Vec<Piece> {
        let seen: HashSet<_> = others.iter().map(|piece| &piece.member.name).collect();
        let mut marked = self.known.marked();
        marked.retain(|member| !seen.contains(&member.name));
        let unmarked = marked.into_iter().filter_map(|member| {
            let owners = member.claim.owners.to_vec();
            let mark = Mark::Remove;
            self.piece(member, Update { owners, mark })
        });
        unmarked.collect()
    }

    fn piece(&self, member: Member, mut update: Update) -> Option<Piece> {
        if self.in_tree && self.known.has_pod(&member) {
            update.owners = member.claim.owners.to_vec();
        }
        let changes = update.mark != Mark::Leave || update.owners != *member.claim.owners;
        changes.then_some(Piece { member, update })
    }
}
