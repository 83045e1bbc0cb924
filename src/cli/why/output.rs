//! The output formats of `volume-warden why`.

use super::{
    table::{self, Columns, Table},
    tree::Tree,
};
use crate::{
    plain,
    why::{Answer, Stuck},
};
use clap::ValueEnum;
use k8s_openapi::jiff::Timestamp;

/// Output format of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// A tree of causes, as text.
    Tree,
    /// A table that also has the sentences of the root causes.
    Wide,
    /// One JSON object; with --watch, one for each change.
    Json,
    /// One YAML document; with --watch, one for each change.
    Yaml,
    /// Kind and name of each object, as kubectl prints them.
    Name,
}

/// The answer in this format, with ages relative to `now`.
///
/// # Errors
/// When the answer cannot be represented in the format.
pub(super) fn answer(
    answer: &Answer,
    format: Option<Output>,
    now: Timestamp,
) -> anyhow::Result<String> {
    Ok(match format {
        Some(Output::Json) => plain::json(answer)?,
        Some(Output::Yaml) => format!("---\n{}", plain::yaml(answer)?),
        _ => Tree(answer, now).to_string(),
    })
}

/// The stuck objects in this format, with ages relative to `now`.
///
/// # Errors
/// When they cannot be represented in the format.
pub(super) fn list(
    stuck: &Stuck,
    format: Option<Output>,
    now: Timestamp,
) -> anyhow::Result<String> {
    Ok(match format {
        Some(Output::Json) => plain::json(stuck)?,
        Some(Output::Yaml) => format!("---\n{}", plain::yaml(stuck)?),
        Some(Output::Name) => table::names(stuck),
        Some(Output::Wide) => Table(stuck, Columns::Wide, now).to_string(),
        None | Some(Output::Tree) => Table(stuck, Columns::Usual, now).to_string(),
    })
}
