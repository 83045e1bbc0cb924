//! The CPU time to refuse each template of `nasty`: an annotation must not delay the creation of
//! pods.
//!
//! `cargo bench --bench templates`. It fails if a template takes more than 10 ms, or is not
//! refused.
//!
//! The parser never waits, so wall time is CPU time, unless the process is preempted: the result
//! is the shortest of several runs.

mod nasty;

use nasty::{Nasty, nasty};
use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};
use volume_warden::components::pvc_provisioner::template::Template;

const ALLOWED: Duration = Duration::from_millis(10);
const RUNS: usize = 20;

fn main() -> ExitCode {
    let build = if cfg!(debug_assertions) {
        "unoptimised"
    } else {
        "optimised"
    };
    println!(
        "{build}, shortest of {RUNS} runs, {} ms allowed\n",
        ALLOWED.as_millis()
    );
    println!("| template | bytes | microseconds | answer |\n|---|---|---|---|");
    let refused: Vec<_> = nasty().iter().map(is_refused_in_time).collect();
    match refused.iter().filter(|&&refused| !refused).count() {
        0 => ExitCode::SUCCESS,
        bad => {
            eprintln!("\n{bad} of the templates were not refused in time");
            ExitCode::FAILURE
        }
    }
}

fn is_refused_in_time(nasty: &Nasty) -> bool {
    let took = (0..RUNS)
        .map(|_| time(&nasty.text))
        .min()
        .unwrap_or_default();
    let answer = match Template::parse(&nasty.text) {
        Ok(_) => "ACCEPTED".to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    let (name, bytes) = (nasty.name, nasty.text.len());
    println!("| {name} | {bytes} | {} | {answer} |", took.as_micros());
    answer == nasty.answer && took <= ALLOWED
}

fn time(text: &str) -> Duration {
    let begin = Instant::now();
    let _ = black_box(Template::parse(black_box(text)));
    begin.elapsed()
}
