//! Answers of the API server with times that cannot be represented.

use crate::objects::nearest_time;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Sends a request and reads the answer. A time that cannot be represented is read as the nearest
/// one, see [`nearest_time`]: a user can write such a time into many objects, also into
/// `managedFields`, and one object must not fail the LIST of all.
///
/// # Errors
/// When the request fails, or the answer is not of this type for another reason.
pub async fn with_clamped_times<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let text = client.request_text(request).await?;
    parsed(&text).map_err(kube::Error::SerdeError)
}

fn parsed<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        let mut answer: Value = serde_json::from_str(text)?;
        clamp(&mut answer);
        serde_json::from_str(&answer.to_string()).map_err(|_| error)
    })
}

/// Replaces times that cannot be represented.
fn clamp(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(nearest) = nearest_time(text) {
                *text = nearest.to_string();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(clamp),
        Value::Object(all) => all.values_mut().for_each(clamp),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
    use kube::api::ObjectList;
    use serde_json::json;

    /// The API server accepts these times, with an offset or without, and answers them so.
    #[test]
    fn a_time_that_cannot_be_represented_fails_no_list() {
        let lease = |name: &str, time: &str| {
            let managed = json!([{"manager": "a", "time": time}]);
            json!({"metadata": {"name": name, "managedFields": managed},
                "spec": {"holderIdentity": "one", "renewTime": time}})
        };
        let other = "2026-01-01T00:00:00Z".parse().expect("a time");
        for (time, nearest) in [
            ("9999-12-31T23:59:59.000000Z", Timestamp::MAX),
            ("10000-01-01T00:59:59.000000Z", Timestamp::MAX),
            ("-0001-12-31T23:00:00.000000Z", Timestamp::MIN),
        ] {
            let items = [lease("a", time), lease("b", "2026-01-01T00:00:00.000000Z")];
            let list = json!({"metadata": {}, "items": items}).to_string();
            let list: ObjectList<Lease> = parsed(&list).expect(time);
            let renewed = list.items.into_iter().map(|lease| {
                let time = lease.spec.and_then(|spec| spec.renew_time);
                time.map(|time| time.0)
            });
            let renewed: Vec<_> = renewed.collect();
            assert_eq!(renewed, [nearest, other].map(Some), "{time}");
        }
        for text in ["soon", "T-1Z", "2026-13-01", ""] {
            let unreadable = lease("c", text).to_string();
            assert!(parsed::<Lease>(&unreadable).is_err(), "{text}");
        }
    }
}
