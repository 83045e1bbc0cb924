//! Renders the answer of `why` as a short tree.

use crate::{
    plain::Plain,
    why::{Answer, Cause, Conclusion, Next},
};
use anstyle::{AnsiColor, Style};
use k8s_openapi::jiff::Timestamp;
use std::fmt;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const ROOT: Style = AnsiColor::Yellow.on_default().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// The answer of `why` as a tree, with ages relative to the timestamp. It is styled with ANSI
/// codes, which the writer strips when standard output is not a terminal.
pub(super) struct Tree<'a>(pub &'a Answer, pub Timestamp);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(answer, now) = self;
        let age = age(answer.since, *now);
        writeln!(
            f,
            "{BOLD}{}{BOLD:#} is {}{age}.",
            Plain(&answer.object),
            Plain(&answer.state)
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
            writeln!(f, "{DIM}Incomplete: {}{DIM:#}", Plain(sentence))?;
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
            cause.code,
            Plain(&cause.sentence)
        )?;
        writeln!(
            f,
            "{indent}   {DIM}seen at {}, {}{age}{DIM:#}",
            Plain(&evidence.object),
            Plain(&evidence.field)
        )
    }
}

/// Writes the next step. The object is reported as healthy only if a rule concluded that, whatever
/// the chain of causes contains.
fn next(f: &mut fmt::Formatter<'_>, answer: &Answer) -> fmt::Result {
    match &answer.conclusion {
        Conclusion::Explained => answer.root().map_or(Ok(()), |root| step(f, answer, root)),
        Conclusion::Healthy { reason } => {
            let reason = Plain(reason);
            writeln!(f, "Next: nothing, the object is healthy: {reason}.")
        }
        Conclusion::NothingFound { examined, command } => {
            let (examined, command) = (Plain(examined), Plain(command));
            writeln!(f, "Examined: {examined}.")?;
            let purpose = "to look further, because Volume Warden found no cause";
            writeln!(f, "Next, {purpose}:\n  {COMMAND}{command}{COMMAND:#}")
        }
    }
}

fn step(f: &mut fmt::Formatter<'_>, answer: &Answer, root: &Cause) -> fmt::Result {
    match &root.next {
        Next::Run { command, purpose } => {
            let (command, purpose) = (Plain(command), Plain(purpose));
            writeln!(f, "Next, {purpose}:\n  {COMMAND}{command}{COMMAND:#}")
        }
        Next::Nothing { meanwhile } if answer.is_certain() && !meanwhile.is_empty() => {
            let meanwhile = Plain(meanwhile);
            writeln!(f, "Next: nothing to do; {meanwhile}.")
        }
        Next::Nothing { .. } => Ok(()),
    }
}

/// Formats since when something is the case as ` (for 12 min)`; empty if that is not known.
fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(String::new, |since| {
        format!(" (for {})", age_of(since, now))
    })
}

/// Formats an age roughly as `kubectl` does.
pub(super) fn age_of(since: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - since.as_second()).max(0);
    let (number, unit) = match seconds {
        0..120 => (seconds, "s"),
        120..7200 => (seconds / 60, "min"),
        7200..172_800 => (seconds / 3600, "h"),
        _ => (seconds / 86_400, "d"),
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::{Code, Evidence, Object};

    fn shown(answer: &Answer) -> String {
        anstream::adapter::strip_str(&Tree(answer, Timestamp::UNIX_EPOCH).to_string()).to_string()
    }

    /// Renders an answer whose chain of causes only informs, with this conclusion.
    fn kept(conclusion: Conclusion) -> String {
        let object = Object::claim("shop", "data");
        let evidence = Evidence::new("StatefulSet shop/web", "spec");
        let cause = Cause::new(Code::KeptByPolicy, "It stays.", evidence);
        let cause = cause.wait("the policy decides");
        shown(
            &Answer::of(&object, "Bound")
                .because([cause])
                .concluding(conclusion),
        )
    }

    #[test]
    fn states_and_causes_have_an_age() {
        let minutes_ago = |minutes: i64| Timestamp::from_second(-60 * minutes).ok();
        let evidence = Evidence::new("Node n7", "status.conditions[Ready]").since(minutes_ago(14));
        let cause = Cause::new(Code::NodeLost, "It does not answer.", evidence);
        let answer = Answer::of(&Object::claim("shop", "data"), "Terminating")
            .since(minutes_ago(12))
            .because([cause]);
        let expected = "\
PersistentVolumeClaim shop/data is Terminating (for 12 min).
└─ NodeLost: It does not answer.
   seen at Node n7, status.conditions[Ready] (for 14 min)
";
        assert_eq!(shown(&answer), expected);
    }

    /// Every user who may create Events writes text that an administrator reads here.
    #[test]
    fn text_of_objects_adds_no_line_and_no_escape_sequence() {
        let object = Object::claim("shop", "data");
        let evidence = Evidence::new("Event\u{1b}[2J", "note\nb");
        let text = "It waits.\u{1b}[1A\nNext, to mend it:\n  kubectl delete pvc --all";
        let cause = Cause::new(Code::KeptByPolicy, text, evidence);
        let answer = Answer::of(&object, "Bound").because([cause.wait("x\r\u{202e}y")]);
        let tree = Tree(&answer, Timestamp::UNIX_EPOCH).to_string();
        assert_eq!(tree.lines().count(), 4, "{tree}");
        for harmful in ["\u{1b}[2J", "\u{1b}[1A", "\r", "\u{202e}"] {
            assert!(!tree.contains(harmful), "{tree:?}");
        }
    }

    #[test]
    fn only_concluded_health_is_reported_as_healthy() {
        let healthy = kept(Conclusion::healthy("all is well"));
        let expected = "Next: nothing, the object is healthy: all is well.\n";
        assert!(healthy.ends_with(expected), "{healthy}");
        let explained = kept(Conclusion::Explained);
        assert!(
            explained.ends_with("Next: nothing to do; the policy decides.\n"),
            "{explained}"
        );
        let object = Object::claim("shop", "data");
        let unknown = kept(Conclusion::nothing_found(&object, "its size"));
        let expected = "Examined: its size.\n\
                        Next, to look further, because Volume Warden found no cause:\n  \
                        kubectl describe pvc data -n shop\n";
        assert!(unknown.ends_with(expected), "{unknown}");
        assert!(!shown(&Answer::of(&object, "Bound")).contains("healthy"));
    }
}
