//! The Secret that stores the path of the webhooks.

use super::state::State;
use crate::{
    admission::PathSecret,
    cluster::{DEFAULT_CALL_TIMEOUT, existing, within},
};
use k8s_openapi::{ByteString, api::core::v1::Secret, jiff::Timestamp};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use std::collections::BTreeMap;

const PATH: &str = "path";
const SINCE: &str = "path-since";
const NEXT: &str = "next-path";
const PREVIOUS: &str = "previous-path";
const PREVIOUS_UNTIL: &str = "previous-path-until";
const PUBLISHED: &str = "published";

/// The Secret that stores the path. All replicas share it.
pub(super) struct Store {
    pub(super) api: Api<Secret>,
    pub(super) name: String,
}

impl Store {
    pub(super) async fn read(&self) -> kube::Result<Option<Secret>> {
        existing(within(DEFAULT_CALL_TIMEOUT, self.api.get(&self.name)).await)
    }

    /// Stores the state in the Secret. It fails if another replica has written the Secret since it
    /// was read.
    pub(super) async fn write(&self, found: Option<Secret>, state: &State) -> kube::Result<()> {
        let parameters = PostParams::default();
        if let Some(mut secret) = found {
            secret.data = Some(encode(state));
            let replace = self.api.replace(&self.name, &parameters, &secret);
            return within(DEFAULT_CALL_TIMEOUT, replace).await.map(drop);
        }
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            data: Some(encode(state)),
            ..Secret::default()
        };
        let create = self.api.create(&parameters, &secret);
        within(DEFAULT_CALL_TIMEOUT, create).await.map(drop)
    }
}

/// Reads the state from the Secret; none if the Secret has no valid path, such as a new Secret. A
/// time that cannot be parsed counts as long past, so that an administrator can start the
/// replacement of the path by writing `now` into `path-since`.
pub(super) fn decode(secret: &Secret) -> Option<State> {
    let data = secret.data.as_ref()?;
    let text = |key: &str| std::str::from_utf8(&data.get(key)?.0).ok();
    let path = |key: &str| PathSecret::parse(text(key)?);
    let time = |key: &str| text(key).and_then(|text| text.parse::<Timestamp>().ok());
    Some(State {
        current: path(PATH)?,
        since: time(SINCE).unwrap_or(Timestamp::UNIX_EPOCH),
        next: path(NEXT),
        previous: path(PREVIOUS).zip(time(PREVIOUS_UNTIL)),
        published: text(PUBLISHED) == Some("true"),
    })
}

fn encode(state: &State) -> BTreeMap<String, ByteString> {
    let mut entries = vec![
        (PATH, state.current.expose().to_owned()),
        (SINCE, state.since.to_string()),
        (PUBLISHED, state.published.to_string()),
    ];
    if let Some(next) = &state.next {
        entries.push((NEXT, next.expose().to_owned()));
    }
    if let Some((previous, until)) = &state.previous {
        entries.push((PREVIOUS, previous.expose().to_owned()));
        entries.push((PREVIOUS_UNTIL, until.to_string()));
    }
    let entries = entries.into_iter();
    entries
        .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(state: &State) -> Secret {
        Secret {
            data: Some(encode(state)),
            ..Secret::default()
        }
    }

    #[test]
    fn a_state_is_read_as_written() {
        let now = Timestamp::now();
        let plain = State::generate(now).expect("generates");
        let path = || PathSecret::generate().expect("generates");
        let full = State {
            next: Some(path()),
            previous: Some((path(), now)),
            published: true,
            ..plain.clone()
        };
        for state in [plain, full] {
            assert_eq!(decode(&secret(&state)), Some(state));
        }
    }

    #[test]
    fn an_empty_or_damaged_secret_holds_no_path() {
        assert_eq!(decode(&Secret::default()), None);
        let mut damaged = secret(&State::generate(Timestamp::now()).expect("generates"));
        let data = damaged.data.as_mut().expect("data");
        data.insert(PATH.to_owned(), ByteString(b"junk".to_vec()));
        assert_eq!(decode(&damaged), None);
    }

    #[test]
    fn an_unreadable_time_makes_the_path_old() {
        let mut forced = secret(&State::generate(Timestamp::now()).expect("generates"));
        let data = forced.data.as_mut().expect("data");
        data.insert(SINCE.to_owned(), ByteString(b"now".to_vec()));
        let state = decode(&forced).expect("a path");
        assert_eq!(state.since, Timestamp::UNIX_EPOCH);
    }
}
