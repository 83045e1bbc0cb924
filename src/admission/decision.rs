//! Writes one log line for each review, most of them at the level debug: who requested what, and
//! what the webhook answered.

use super::{
    answer::{Answer, Reviewed},
    request::Request,
};
use crate::telemetry::{LogLimiter, NamespaceLogLimiter};
use std::{fmt, time::Duration};
use tracing::Span;

/// Maximum length of a reason in a log line, in bytes.
const WHY_LIMIT: usize = 2048;
/// Maximum length of a name in a log line, in bytes. No object has a longer one, but the API server
/// validates names after the mutating webhooks.
const NAME_LIMIT: usize = 253;

/// The span of a review: it identifies the review in log lines and traces.
pub(super) fn span(path: &'static str, request: &Request) -> Span {
    tracing::debug_span!(
        "review",
        uid = request.uid,
        path,
        operation = request.operation,
        kind = request.resource.resource,
        object = %Object(request),
        verdict = tracing::field::Empty,
    )
}

/// Writes the log lines about the reviews of one webhook path.
pub(super) struct Log<'a> {
    pub(super) path: &'static str,
    /// Limits the lines at the level warn about unavailable reviews to one a minute.
    pub(super) unavailable: &'a LogLimiter,
    /// Limits the lines at the level info about refusals to ten a minute for each namespace.
    pub(super) refused: &'a NamespaceLogLimiter,
    /// Whether Volume Warden runs with `--dry-run`, so that it withholds denials and patches.
    pub(super) dry_run: bool,
}

impl Log<'_> {
    /// Logs the decision: a refusal at the level info and an unavailable review at warn, as far as
    /// the limits permit, because users ask about them. Everything else is logged at debug. The
    /// message of a refusal or patch that `--dry-run` withholds is `would answer`.
    pub(super) fn report(
        &self,
        request: &Request,
        reviewed: &Reviewed,
        verdict: &'static str,
        took: Duration,
    ) {
        let (path, took) = (self.path, took.as_secs_f64());
        let dry_run = request.dry_run.unwrap_or_default();
        let withheld =
            self.dry_run && matches!(reviewed, Ok(Answer::Deny { .. } | Answer::Patch { .. }));
        let message = if withheld { "would answer" } else { "review" };
        macro_rules! line {
        ($level:ident, $why:expr, $suppressed:expr) => {
            tracing::$level!(
                uid = request.uid,
                path,
                operation = request.operation,
                kind = request.resource.resource,
                subresource = request.sub_resource,
                object = %Object(request),
                user = bounded(&request.user_info.username, WHY_LIMIT),
                dry_run,
                verdict,
                took,
                why = $why,
                suppressed = $suppressed,
                "{message}"
            )
        };
    }
        match reviewed {
            Ok(Answer::Deny { message, .. }) => {
                let why = Some(bounded(message, WHY_LIMIT));
                match self.refused.check(&request.namespace) {
                    Some(0) => line!(info, why, None::<u64>),
                    Some(suppressed) => line!(info, why, Some(suppressed)),
                    None => line!(debug, why, None::<u64>),
                }
            }
            Err(why) => {
                let why = why.to_string();
                let why = Some(bounded(&why, WHY_LIMIT));
                match self.unavailable.check() {
                    Some(suppressed) => line!(warn, why, Some(suppressed)),
                    None => line!(debug, why, None::<u64>),
                }
            }
            Ok(Answer::Allow | Answer::Warn(_) | Answer::Patch { .. }) => {
                line!(debug, None::<&str>, None::<u64>)
            }
        }
    }
}

/// Cuts a text after `limit` bytes, because it may repeat what a user wrote, of any length.
fn bounded(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Formats the object of a request as `namespace/name`, as in all other log lines. The name is
/// empty if the API server generates it (`generateName`).
struct Object<'a>(&'a Request);

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.namespace.is_empty() {
            write!(f, "{}/", self.0.namespace)?;
        }
        f.write_str(bounded(&self.0.name, NAME_LIMIT))
    }
}
