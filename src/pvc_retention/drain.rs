//! Taking back what this component wrote, which KEP-1847 calls equal to Retain: no claim goes with its set or pod any more.

use super::{
    NAME,
    known::{Known, Member, judge},
    patch::changes,
    rule::{Mark, Step, Update},
};
use crate::{
    cluster::{Action, Applied, Apply, Target},
    objects::{Kind, ObjectName, stateful_set::Retention},
};
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
    /// Leave the owner references: Kubernetes' own controller looks after them.
    pub marks_only: bool,
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
    name: ObjectName,
    member: Member,
    update: Update,
}

impl Drain {
    /// Takes everything back, a line for each claim.
    pub async fn run(&self, mut say: impl FnMut(&str)) -> Drained {
        let mut drained = Drained::default();
        let mut withheld = HashSet::new();
        for _ in 0..ROUNDS {
            let pieces = self.pieces();
            let left: Vec<_> = pieces
                .into_iter()
                .filter(|piece| !withheld.contains(&piece.name))
                .collect();
            drained.failed = left.len();
            if left.is_empty() {
                break;
            }
            for piece in left.iter().filter(|piece| !piece.member.outdated) {
                match self.take_back(piece).await {
                    Applied::Done => {
                        drained.taken_back += 1;
                        say(&format!("{}: taken back", piece.name));
                    }
                    Applied::Withheld => {
                        drained.withheld += 1;
                        say(&format!("{}: would be taken back", piece.name));
                        withheld.insert(piece.name.clone());
                    }
                    Applied::Failed(error) => say(&format!("{}: {error}", piece.name)),
                    Applied::Outdated | Applied::NotLeading => {}
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        drained
    }

    async fn take_back(&self, piece: &Piece) -> Applied {
        let claim = &piece.member.claim;
        let target = Target {
            kind: Kind::PersistentVolumeClaim,
            name: &piece.name,
            uid: &claim.uid,
            resource_version: Some(&claim.resource_version),
            finalizers: &claim.finalizers,
        };
        let action = Action::UpdateOwnerReferences(changes(claim, "", &piece.update));
        let applied = self.apply.perform(NAME, &target, action, TAKEN_BACK).await;
        if applied.written() {
            self.known.claims.outdate(&piece.name, claim);
        }
        applied
    }

    /// As if every set retained everything; and marks of sets that are gone.
    fn pieces(&self) -> Vec<Piece> {
        let sets = self.known.all_sets();
        let of_sets = sets
            .iter()
            .filter(|(_, set)| !set.deleting)
            .flat_map(|(name, set)| {
                let members = self.known.members(name);
                let verdicts = judge(
                    name,
                    set,
                    Retention::default(),
                    &members,
                    &self.known.pods.read(),
                );
                let pieces = members
                    .into_iter()
                    .zip(verdicts)
                    .filter_map(|(member, verdict)| match verdict.step {
                        Step::Update(update) => Some(self.piece(member, update)),
                        Step::Leave | Step::Delete => None,
                    });
                pieces.flatten().collect::<Vec<_>>()
            });
        let mut pieces: Vec<Piece> = of_sets.collect();
        let seen: HashSet<_> = pieces.iter().map(|piece| piece.name.clone()).collect();
        let others = self
            .known
            .marked()
            .into_iter()
            .filter(|member| !seen.contains(&member.name));
        pieces.extend(others.filter_map(|member| {
            let owners = member.claim.owners.to_vec();
            self.piece(
                member,
                Update {
                    owners,
                    mark: Mark::Remove,
                },
            )
        }));
        pieces
    }

    fn piece(&self, member: Member, mut update: Update) -> Option<Piece> {
        if self.marks_only {
            update.owners = member.claim.owners.to_vec();
        }
        let name = member.name.clone();
        let changes = update.mark != Mark::Leave || update.owners != *member.claim.owners;
        changes.then_some(Piece {
            name,
            member,
            update,
        })
    }
}
