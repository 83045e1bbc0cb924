//! Explains the state of a PersistentVolume.

mod not_deleting;
mod released;
mod terminating;

use crate::why::{Answer, LiveReads, Lookup, Object, read::PersistentVolume};
use kube::ResourceExt;

/// Explains why the volume is in its state.
pub(super) fn explain(reads: &LiveReads, object: &Object) -> Lookup<Answer> {
    let volume = reads.get::<PersistentVolume>("", &object.name.name);
    volume.map(|volume| answer(reads, object, &volume))
}

fn answer(reads: &LiveReads, object: &Object, volume: &PersistentVolume) -> Answer {
    if let Some(deleted) = &volume.metadata.deletion_timestamp {
        let (chain, also) = terminating::causes(reads, object, volume);
        let answer = Answer::of(object, "Terminating").since(Some(deleted.0));
        return Answer {
            also,
            ..answer.because(chain)
        };
    }
    let status = volume.status.clone().unwrap_or_default();
    let phase = status.phase.unwrap_or_else(|| "Pending".to_owned());
    let since = status
        .last_phase_transition_time
        .or_else(|| volume.creation_timestamp());
    let answer = Answer::of(object, phase.as_str()).since(since.map(|time| time.0));
    match phase.as_str() {
        "Released" | "Failed" => answer.because(released::causes(reads, object, volume)),
        phase => not_deleting::explain(reads, object, volume, phase, answer),
    }
}
