//! Errors in claim templates, each as one short sentence.

use super::{DEPTH, LIMIT, NODES, position::Position};
use serde_saphyr::{
    Error, ExternalMessageSource, MessageFormatter, UserMessageFormatter, budget::BudgetBreach,
    granit_parser::ErrorKind,
};
use std::fmt;

/// Maximum number of characters that an error quotes from a template.
const SHOWN: usize = 100;

/// Why a text is not a valid claim template. The message fits into an Event and an admission
/// warning, whatever the text is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TemplateError {
    position: Option<Position>,
    fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the template has {0} bytes; the limit is {LIMIT}")]
    TooLong(usize),
    #[error("the template is empty")]
    Empty,
    #[error("a template may not have YAML anchors and aliases")]
    Anchor,
    #[error("a template may not have YAML merge keys")]
    MergeKey,
    #[error("a template may not have YAML tags")]
    Tag,
    #[error("a template must be a single YAML document; a second one begins here")]
    SecondDocument,
    #[error("maps and lists are nested deeper than {DEPTH}")]
    TooDeep,
    #[error("the template has more than {NODES} keys and values")]
    TooMany,
    #[error("duplicate key \"{0}\"")]
    DuplicateKey(String),
    #[error("a key must be a string")]
    Key,
    /// The message of the YAML parser.
    #[error("{0}")]
    Syntax(String),
    /// A field of a wrong type: its path, and the required type, such as "a list of strings".
    #[error("{0} must be {1}")]
    Shape(&'static str, &'static str),
    /// A field with a wrong value: its path, the only valid value, and the value in the template.
    #[error("{0} must be \"{1}\", not {2}")]
    Other(&'static str, &'static str, String),
    /// A required field that is absent: its path, and its only valid value.
    #[error("{0} is missing; it must be \"{1}\"")]
    Missing(&'static str, &'static str),
}

impl TemplateError {
    /// An error that has no position in the template, such as a missing field.
    pub(super) fn whole(fault: Fault) -> Self {
        Self {
            position: None,
            fault,
        }
    }

    /// An error at this position of the template.
    pub(super) fn at(position: Position, fault: Fault) -> Self {
        let position = Some(position);
        Self { position, fault }
    }

    /// Converts an error of the YAML parser.
    pub(super) fn of(error: &Error) -> Self {
        let position = error.location().filter(|position| position.line() > 0);
        Self {
            position: position.map(Position::from),
            fault: fault(error),
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some(position) => write!(out, "{position}: {}", self.fault),
            None => self.fault.fmt(out),
        }
    }
}

fn fault(error: &Error) -> Fault {
    match error {
        Error::Budget { breach, .. } => breached(breach, error),
        Error::UnknownAnchor { .. } => Fault::Anchor,
        Error::MergeKeyNotAllowed { .. } => Fault::MergeKey,
        Error::UnsupportedTag { .. } => Fault::Tag,
        Error::DuplicateMappingKey { key, .. } => {
            Fault::DuplicateKey(shown(key.as_deref().unwrap_or_default()))
        }
        // This error is about a key, because only keys must be strings; values may have any type.
        Error::SerdeInvalidType { .. } => Fault::Key,
        Error::ExternalMessage { source, .. } if is_too_deep(source) => Fault::TooDeep,
        _ => parser_message(error),
    }
}

fn breached(breach: &BudgetBreach, error: &Error) -> Fault {
    match breach {
        BudgetBreach::Anchors { .. } | BudgetBreach::Aliases { .. } => Fault::Anchor,
        BudgetBreach::Documents { .. } => Fault::SecondDocument,
        BudgetBreach::Depth { .. } => Fault::TooDeep,
        BudgetBreach::Nodes { .. } => Fault::TooMany,
        _ => parser_message(error),
    }
}

/// Whether the scanner of the YAML parser reached its own limit of nesting, as with many opening
/// brackets in a row.
fn is_too_deep(source: &ExternalMessageSource) -> bool {
    match source {
        ExternalMessageSource::Parser(error) => {
            matches!(error.kind(), ErrorKind::RecursionLimitExceeded)
        }
        _ => false,
    }
}

fn parser_message(error: &Error) -> Fault {
    Fault::Syntax(shown(&UserMessageFormatter.format_message(error)))
}

/// Escapes a text that a user wrote, so that it is one line, and truncates it to 100 characters.
pub fn shown(text: &str) -> String {
    let mut printable = text.chars().flat_map(printable);
    let mut shown: String = printable.by_ref().take(SHOWN).collect();
    if printable.next().is_some() {
        shown.push('…');
    }
    shown
}

fn printable(character: char) -> impl Iterator<Item = char> {
    let escaped = !matches!(character, '"' | '\'' | '\\');
    let escape = escaped.then(|| character.escape_debug());
    let itself = (!escaped).then_some(character);
    escape.into_iter().flatten().chain(itself)
}
