//! Volume Warden's calls to the API server.

use anyhow::Result;
use std::{collections::BTreeMap, time::Duration};
use volume_warden_controlplane::{AuditLog, Call, Mark, eventually};

/// Volume Warden counts as idle after this time without a call.
const SETTLED: Duration = Duration::from_secs(1);

/// The prefix for further pages of a LIST. Their number depends on the number of objects.
pub const FURTHER: &str = "further page of ";

/// Calls by verb and resource, without watches, the Lease and checks of the certificate, whose
/// number depends on time.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// The calls since `mark`, once Volume Warden is idle.
    pub async fn settled(audit: &AuditLog, mark: Mark) -> Result<Self> {
        eventually("no more calls are made", async || {
            let before = Self::since(audit, mark)?;
            tokio::time::sleep(SETTLED).await;
            let now = Self::since(audit, mark)?;
            anyhow::Ok((before == now).then_some(now))
        })
        .await
    }

    fn since(audit: &AuditLog, mark: Mark) -> Result<Self> {
        let calls = audit.since(mark)?.by_user_agent("volume-warden/");
        let mut tally = Self::default();
        for call in calls.iter().filter(|call| !goes_by_the_clock(call)) {
            *tally.0.entry(kind(call)).or_default() += 1;
        }
        Ok(tally)
    }

    /// The number of calls of that kind.
    pub fn of(&self, kind: &str) -> usize {
        self.0.get(kind).copied().unwrap_or_default()
    }

    /// The kinds with more calls than in `base`.
    pub fn above<'a>(&'a self, base: &'a Self) -> impl Iterator<Item = &'a str> {
        let more = |(kind, count): &(&String, &usize)| **count > base.of(kind);
        self.0.iter().filter(more).map(|(kind, _)| kind.as_str())
    }

    /// All kinds in any of the tallies, sorted.
    pub fn kinds<'a>(tallies: &[&'a Self]) -> Vec<&'a str> {
        let all = tallies.iter().flat_map(|tally| tally.0.keys());
        let mut kinds: Vec<_> = all.map(String::as_str).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

fn goes_by_the_clock(call: &Call) -> bool {
    let certificate =
        call.resource == "secrets" || call.resource.ends_with("webhookconfigurations");
    call.verb == "watch" || call.resource == "leases" || (call.verb == "get" && certificate)
}

/// The kind of a call, such as `list pods` or `further page of pods`.
fn kind(call: &Call) -> String {
    let resource = match (call.resource.as_str(), call.subresource.as_str()) {
        ("", _) => call.uri.clone(),
        (resource, "") => resource.to_owned(),
        (resource, subresource) => format!("{resource}/{subresource}"),
    };
    match call.verb.as_str() {
        "list" if call.uri.contains("continue=") => format!("{FURTHER}{resource}"),
        verb => format!("{verb} {resource}"),
    }
}
