//! Polls for a condition. Tests wait in no other way.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::{Instant, sleep, timeout_at};

/// The time limit of [`eventually`]: far longer than any step takes on a busy machine.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(180);

/// The interval of checks at first. It grows with the time waited, because each check is a call to
/// an API server that other tests use.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);

/// The result of a check: `bool`, `Option`, `()` or a `Result` of one of these.
///
/// A plain `Result<T>` is deliberately not an outcome: `Ok(false)` would count as success.
pub trait Outcome {
    /// The value that [`eventually`] returns.
    type Value;

    /// The value, or a description of the state found instead.
    fn outcome(self) -> Result<Self::Value, String>;
}

impl Outcome for () {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        Ok(())
    }
}

impl Outcome for bool {
    type Value = ();

    fn outcome(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("false".to_owned())
        }
    }
}

impl<T> Outcome for Option<T> {
    type Value = T;

    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<O: Outcome, E: Display> Outcome for Result<O, E> {
    type Value = O::Value;

    fn outcome(self) -> Result<O::Value, String> {
        // The alternate form shows an anyhow error with its causes.
        self.map_err(|error| format!("{error:#}"))?.outcome()
    }
}

/// Checks every 50 ms, and less often after some time, until the check succeeds. Fails after
/// [`DEFAULT_TIMEOUT`] with an error that contains `what` and the last state seen.
///
/// ```no_run
/// # async fn example(pods: kube::Api<k8s_openapi::api::core::v1::Pod>) -> anyhow::Result<()> {
/// use volume_warden_controlplane::eventually;
///
/// let pod = eventually("the pod is scheduled", async || {
///     let pod = pods.get("web-0").await?;
///     let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
///     anyhow::ensure!(node.is_some(), "{:?}", pod.status);
///     anyhow::Ok(Some(pod))
/// })
/// .await?;
/// # Ok(())
/// # }
/// ```
pub async fn eventually<O: Outcome>(what: &str, check: impl AsyncFnMut() -> O) -> Result<O::Value> {
    eventually_within(DEFAULT_TIMEOUT, what, check).await
}

/// [`eventually`] with its own time limit.
pub async fn eventually_within<O: Outcome>(
    limit: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> O,
) -> Result<O::Value> {
    let began = Instant::now();
    let deadline = began + limit;
    let mut seen = "no answer from the first check".to_owned();
    loop {
        // A check may hang, on a paused API server for example.
        let Ok(answer) = timeout_at(deadline, check()).await else {
            bail!(
                "waited {limit:?} until {what}; the last check did not return, seen before: {seen}"
            );
        };
        match answer.outcome() {
            Ok(value) => return Ok(value),
            Err(instead) => seen = instead,
        }
        let interval = (began.elapsed() / 8).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
        if Instant::now() + interval >= deadline {
            bail!("waited {limit:?} until {what}; last seen: {seen}");
        }
        sleep(interval).await;
    }
}
