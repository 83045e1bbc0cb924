//! Looks for each seeded bug, and fails if one is not found.

use clap::Parser;
use std::{
    path::Path,
    process::{Command, ExitCode},
};
use volume_warden_sim::mutants::{self, Mutant, VARIABLE};

/// Runs the simulation against Volume Warden with one seeded bug at a time.
#[derive(Parser)]
struct Options {
    /// Maximum number of histories for each bug.
    #[arg(long, default_value_t = 100_000)]
    histories: u64,

    /// The seed from which the seeds of the histories follow.
    #[arg(long, default_value_t = 1)]
    run: u64,

    /// Look only for the bugs that the checks before a merge look for.
    #[arg(long)]
    ci: bool,

    /// Look only for these bugs.
    names: Vec<String>,
}

impl Options {
    fn wants(&self, mutant: &Mutant) -> bool {
        if self.names.is_empty() {
            !mutant.missed && (mutant.ci || !self.ci)
        } else {
            self.names.contains(&mutant.name)
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let options = Options::parse();
    let all = mutants::all()?;
    let program = mutants::build(&all)?;
    anyhow::ensure!(
        find(&program, "", 500, options.run)?.is_none(),
        "the copy fails without a seeded bug, too"
    );
    println!("| Bug | Found as | Histories | Seed |\n|---|---|---|---|");
    let (mut wanted, mut found) = (0, 0);
    for mutant in all.iter().filter(|mutant| options.wants(mutant)) {
        wanted += 1;
        let row = match find(&program, &mutant.name, options.histories, options.run)? {
            Some(Found {
                invariant,
                histories,
                seed,
            }) => {
                found += 1;
                format!("{invariant} | {histories} | {seed}")
            }
            None => format!("not found | {} | ", options.histories),
        };
        println!("| `{}`: {} | {row} |", mutant.name, mutant.what);
    }
    println!("\n{found} of {wanted} found");
    Ok(if found == wanted {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// How a bug was found.
struct Found {
    invariant: String,
    histories: String,
    seed: String,
}

/// Runs the changed copy with one bug until a history fails.
fn find(program: &Path, name: &str, histories: u64, run: u64) -> anyhow::Result<Option<Found>> {
    let mut sim = Command::new(program);
    sim.env(VARIABLE, name).args(["--failures", "1"]);
    sim.args([
        "--histories",
        &histories.to_string(),
        "--run",
        &run.to_string(),
    ]);
    let output = sim.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        return Ok(None);
    }
    // The lines: the run, the totals, `--seed N`, and the invariants that did not hold.
    let word = |line: usize, word: usize| {
        let found = text
            .lines()
            .nth(line)
            .and_then(|line| line.split_whitespace().nth(word));
        found.map(str::to_owned)
    };
    match (word(3, 0), word(1, 0), word(2, 1)) {
        (Some(invariant), Some(histories), Some(seed)) => Ok(Some(Found {
            invariant,
            histories,
            seed,
        })),
        _ => anyhow::bail!("{name}: {text}{}", String::from_utf8_lossy(&output.stderr)),
    }
}
