//! Many concurrent calls of one kind.

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};

/// The number of concurrent calls that create the load.
pub const AT_ONCE: usize = 64;

/// Runs `call` with each number below `count`, `at_once` calls concurrently. The results are in the
/// order in which the calls ended.
pub async fn each<T>(
    count: usize,
    at_once: usize,
    call: impl AsyncFn(usize) -> Result<T>,
) -> Result<Vec<T>> {
    stream::iter(0..count)
        .map(|index| call(index))
        .buffer_unordered(at_once)
        .try_collect()
        .await
}
