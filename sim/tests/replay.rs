//! A seed gives the same history in each run.

use volume_warden_sim::{explore::seed_of, plan::Plan, world};

#[test]
fn a_seed_gives_the_same_history_again() {
    for number in 0..400 {
        let plan = Plan::new(seed_of(18, number));
        let run = || world::run(&plan, true).expect("runs");
        let (first, second) = (run(), run());
        let lines = first.transcript.iter().zip(&second.transcript);
        let difference = lines
            .enumerate()
            .find(|(_, (first, second))| first != second);
        assert_eq!(difference, None, "history {number}");
        assert_eq!(first.trace, second.trace, "history {number}");
    }
}
