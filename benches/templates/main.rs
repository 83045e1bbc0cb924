//! What it costs to refuse each nasty template, in time of a processor: nobody can hold up the creation of pods by what he writes on one.
//!
//! `cargo bench --bench templates`. Fails if one takes more than 10 ms, or is not refused.
//!
//! The parser never waits, so the time that passes is that of the processor, except where another process takes it away: of several
//! runs the shortest counts.

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
