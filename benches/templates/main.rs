//! The CPU time to refuse each template of `nasty`, and to read a pod with very many volumes and
//! annotations: an annotation must not delay the creation of pods.
//!
//! `cargo bench --bench templates`. It fails if a template takes more than 10 ms or is not refused,
//! or if the pod takes more than 20 ms.
//!
//! The parser never waits, so wall time is CPU time, unless the process is preempted: the result
//! is the shortest of several runs.

mod nasty;

use nasty::{Nasty, nasty};
use serde_json::json;
use std::{
    collections::BTreeMap,
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};
use volume_warden::{
    components::pvc_provisioner::{TemplatePolicy, parse_claim_requests, template::Template},
    objects::{ClaimRequests, claim_requests::PREFIX, pod::PodWire},
};

const ALLOWED: Duration = Duration::from_millis(10);
const POD_ALLOWED: Duration = Duration::from_millis(20);
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
    let bad = refused.iter().filter(|&&refused| !refused).count();
    if bad > 0 {
        eprintln!("\n{bad} of the templates were not refused in time");
        return ExitCode::FAILURE;
    }
    large_pods()
}

/// Measures pods of the maximum size that the API server accepts, from bytes to notices.
fn large_pods() -> ExitCode {
    println!(
        "\n| pod of 50,000 volumes and 5,000 annotations | MiB | milliseconds | notices |\n|---|---|---|---|"
    );
    let mut worst = Duration::ZERO;
    for (what, suffix, value) in [
        ("that request claims", "enabled", "true"),
        ("that are invalid", "enabled", "perhaps"),
        ("with unknown keys", "typo", "true"),
    ] {
        let pod = large_pod(suffix, value);
        let read = || {
            let pod: PodWire = serde_json::from_slice(&pod).expect("a pod");
            let requests = ClaimRequests::of(&pod).expect("annotated");
            parse_claim_requests(&requests, &TemplatePolicy::default())
        };
        let notices = read().1.len();
        let took = (0..RUNS).map(|_| {
            let begin = Instant::now();
            black_box(read());
            begin.elapsed()
        });
        let took = took.min().unwrap_or_default();
        let size = pod.len() as f64 / f64::from(1 << 20);
        let milliseconds = took.as_secs_f64() * 1e3;
        println!("| {what} | {size:.1} | {milliseconds:.1} | {notices} |");
        worst = worst.max(took);
    }
    if worst > POD_ALLOWED {
        eprintln!("\na pod took longer than {} ms", POD_ALLOWED.as_millis());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn large_pod(suffix: &str, value: &str) -> Vec<u8> {
    let volume = |n| json!({"name": format!("v{n}"), "persistentVolumeClaim": {"claimName": "c"}});
    let annotation = |n| (format!("{PREFIX}v{n}.{suffix}"), value);
    let annotations: BTreeMap<_, _> = (0..5000).map(annotation).collect();
    let pod = json!({
        "metadata": {"name": "p", "annotations": annotations},
        "spec": {"volumes": (0..50_000).map(volume).collect::<Vec<_>>()},
    });
    serde_json::to_vec(&pod).expect("serializable")
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
