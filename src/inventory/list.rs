//! Reads of any kind, with the caller's permissions.

use crate::cluster::{existing, within};
use kube::{Api, api::ListParams};
use serde::de::DeserializeOwned;
use std::{fmt::Debug, time::Duration};

/// Maximum number of objects of one page. Pages are large, because each call is slow and counts
/// towards a user's limit: the API server takes about as long for 20 pages of 500 claims as for
/// 100,000 claims at once. The client requests a page of more than 16 MiB, such as one of 10,000
/// pods, again with fewer objects.
const PAGE_SIZE: u32 = 10_000;
/// Time limit of the request for one page, or for one object.
const PAGE_LIMIT: Duration = Duration::from_secs(60);

/// Lists all objects, in pages of up to [`PAGE_SIZE`].
pub(super) async fn list<K>(api: &Api<K>) -> kube::Result<Vec<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    list_as(api, |object| object).await
}

/// Lists as [`list`] does, and keeps of each page only what `keep` makes of its objects.
pub(super) async fn list_as<K, T>(api: &Api<K>, keep: impl Fn(K) -> T) -> kube::Result<Vec<T>>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut page = ListParams::default().limit(PAGE_SIZE);
    let mut kept = Vec::new();
    loop {
        let list = within(PAGE_LIMIT, api.list(&page)).await?;
        kept.extend(list.items.into_iter().map(&keep));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(kept),
        }
    }
}

/// Reads the object with this name; none if it does not exist.
pub(super) async fn get<K>(api: &Api<K>, name: &str) -> kube::Result<Option<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    existing(within(PAGE_LIMIT, api.get(name)).await)
}
