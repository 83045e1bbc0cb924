//! An answer as a short tree, for people.

use crate::why::{Answer, Cause, Next};
use anstyle::{AnsiColor, Style};
use k8s_openapi::jiff::Timestamp;
use std::fmt;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ROOT: Style = AnsiColor::Yellow.on_default().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// That answer, with ages as of then. Styled; where that is not wanted, the writer strips it.
pub(super) struct Tree<'a>(pub &'a Answer, pub Timestamp);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(answer, now) = self;
        let age = age(answer.since, *now);
        writeln!(
            f,
            "{BOLD}{}{BOLD:#} is {}{age}.",
            answer.object, answer.state
        )?;
        for (depth, cause) in answer.chain.iter().enumerate() {
            let is_root = depth + 1 == answer.chain.len();
            self.link(f, cause, "   ".repeat(depth), is_root)?;
        }
        for cause in &answer.also {
            writeln!(f, "Also:")?;
            self.link(f, cause, String::new(), false)?;
        }
        next(f, answer)?;
        for sentence in &answer.unread {
            writeln!(f, "{DIM}Not known: {sentence}{DIM:#}")?;
        }
        Ok(())
    }
}

impl Tree<'_> {
    fn link(
        &self,
        f: &mut fmt::Formatter<'_>,
        cause: &Cause,
        indent: String,
        is_root: bool,
    ) -> fmt::Result {
        let style = if is_root { ROOT } else { BOLD };
        let evidence = &cause.evidence;
        let age = age(evidence.since, self.1);
        writeln!(
            f,
            "{indent}└─ {style}{}{style:#}: {}",
            cause.code, cause.sentence
        )?;
        writeln!(
            f,
            "{indent}   {DIM}seen at {}, {}{age}{DIM:#}",
            evidence.object, evidence.field
        )
    }
}

fn next(f: &mut fmt::Formatter<'_>, answer: &Answer) -> fmt::Result {
    match answer.root().map(|root| &root.next) {
        Some(Next::Run { command, purpose }) => {
            writeln!(f, "Next, {purpose}:\n  {COMMAND}{command}{COMMAND:#}")
        }
        Some(Next::Nothing { .. }) if !answer.is_certain() => Ok(()),
        Some(Next::Nothing { meanwhile }) if !meanwhile.is_empty() => {
            writeln!(f, "Next: nothing, this is as it should be; {meanwhile}.")
        }
        Some(Next::Nothing { .. }) => writeln!(f, "Next: nothing, this is as it should be."),
        None if answer.is_certain() => writeln!(f, "Next: nothing, this is as it should be."),
        None => Ok(()),
    }
}

/// As `kubectl` writes ages, roughly.
fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else {
        return String::new();
    };
    let seconds = (now.as_second() - since.as_second()).max(0);
    let (number, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7200 => (seconds / 60, "min"),
        7200..172_800 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!(" since {number} {unit}")
}
