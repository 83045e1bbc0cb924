//! Explains the state of a PersistentVolume.

mod released;
mod settled;
mod terminating;

use crate::why::{Answer, Lookup, Object, World, read::PersistentVolume};
use kube::ResourceExt;

/// Explains why the volume is in its state.
pub(super) fn explain(world: &World, object: &Object) -> Lookup<Answer> {
    let volume = world.get::<PersistentVolume>("", &object.name.name);
    volume.map(|volume| answer(world, object, &volume))
}

fn answer(world: &World, object: &Object, volume: &PersistentVolume) -> Answer {
    if let Some(deleted) = &volume.metadata.deletion_timestamp {
        let (chain, also) = terminating::causes(world, object, volume);
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
        "Released" | "Failed" => answer.because(released::causes(world, object, volume)),
        phase => settled::explain(world, object, volume, phase, answer),
    }
}
