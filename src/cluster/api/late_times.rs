//! Answers of the API server with times that cannot be represented.

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Sends a request and reads the answer. A time that is too late, such as the last day of the year
/// 9999, which Kubernetes accepts, is read as the latest possible one: a user can write such a time
/// into many objects, also into `managedFields`, and one object must not fail the LIST of all.
///
/// # Errors
/// When the request fails, or the answer is not of this type for another reason.
pub async fn with_late_times<T: DeserializeOwned>(
    client: &Client,
    request: http::Request<Vec<u8>>,
) -> kube::Result<T> {
    let text = client.request_text(request).await?;
    parsed(&text).map_err(kube::Error::SerdeError)
}

fn parsed<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| {
        let mut answer: Value = serde_json::from_str(text)?;
        limit(&mut answer);
        serde_json::from_str(&answer.to_string()).map_err(|_| error)
    })
}

/// Replaces times that are too late.
fn limit(value: &mut Value) {
    match value {
        Value::String(text) if is_too_late(text) => *text = Timestamp::MAX.to_string(),
        Value::Array(all) => all.iter_mut().for_each(limit),
        Value::Object(all) => all.values_mut().for_each(limit),
        _ => {}
    }
}

/// The API server returns times as UTC, so they can be too late on these two days only.
fn is_too_late(text: &str) -> bool {
    let day = text.starts_with("9999-12-30T") || text.starts_with("9999-12-31T");
    day && text.ends_with('Z') && text.parse::<Timestamp>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::coordination::v1::Lease;
    use kube::api::ObjectList;
    use serde_json::json;

    #[test]
    fn a_time_that_is_too_late_fails_no_list() {
        let lease = |name: &str, time: &str| {
            let managed = json!([{"manager": "a", "time": time}]);
            json!({"metadata": {"name": name, "managedFields": managed},
                "spec": {"holderIdentity": "one", "renewTime": time}})
        };
        let items = [
            lease("a", "9999-12-31T23:59:59.000000Z"),
            lease("b", "2026-01-01T00:00:00.000000Z"),
        ];
        let list = json!({"metadata": {}, "items": items}).to_string();
        let list: ObjectList<Lease> = parsed(&list).expect("a list");
        let renewed = list.items.into_iter().map(|lease| {
            let time = lease.spec.and_then(|spec| spec.renew_time);
            time.map(|time| time.0)
        });
        let other = "2026-01-01T00:00:00Z".parse().expect("a time");
        assert_eq!(
            renewed.collect::<Vec<_>>(),
            [Timestamp::MAX, other].map(Some)
        );
        assert!(parsed::<Lease>(&lease("c", "soon").to_string()).is_err());
    }
}
