//! Any ConfigMap of namespace names is either refused and left unchanged, or its names are kept:
//! names are added and removed without loss of other names and without changes of other keys.

#![no_main]

mod api;

use api::Api;
use k8s_openapi::api::core::v1::ConfigMap;
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use std::collections::BTreeSet;
use tokio::runtime::Builder;
use volume_warden::{components::namespace_gc::Seen, hashing::HashSet};

const CLUSTER: &str = "volume-warden.dev/cluster";

// A text that is a JSON object is the ConfigMap; any other text is the list of names in it.
fuzz_target!(|text: &str| {
    let map = json!({"metadata": {"resourceVersion": "0"}, "data": {"names": text, "other": "x"}});
    let stored = if text.starts_with('{') || text.is_empty() {
        text.to_owned()
    } else {
        map.to_string()
    };
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(check(&stored));
});

async fn check(stored: &str) {
    let api = Api::storing(stored.as_bytes());
    let anchor = |path: &str| {
        let anchor = json!({"metadata": {"name": "kube-system", "uid": "cluster"}});
        path.ends_with("/kube-system").then_some(anchor)
    };
    let seen = Seen::new(api.client(anchor), "system");
    let map: Option<ConfigMap> = serde_json::from_str(stored).ok();
    let annotation = |map: &ConfigMap| map.metadata.annotations.as_ref()?.get(CLUSTER).cloned();
    let owner = map.as_ref().and_then(annotation);
    let is_usable = map.is_some() || stored.is_empty();
    let Ok(names) = seen.read().await else {
        assert!(!is_usable || owner.is_some_and(|owner| owner != "cluster"));
        assert!(seen.add(&added()).await.is_err());
        assert!(
            api.state().written.is_empty(),
            "changed a foreign ConfigMap"
        );
        return;
    };
    assert!(is_usable && owner.is_none_or(|owner| owner == "cluster"));
    assert_eq!(names, lines(&map.unwrap_or_default()));

    let recorded = seen.add(&added()).await.expect("recorded");
    let with_added: HashSet<_> = names.iter().cloned().chain(added()).collect();
    assert_eq!(seen.read().await.expect("read"), with_added);
    assert_eq!((recorded.names, recorded.left_out), (with_added.len(), 0));

    let kept = names.iter().min().cloned().unwrap_or_default();
    seen.forget(&names, |name| name == kept)
        .await
        .expect("forgotten");
    let keeps = |name: &String| !names.contains(name) || *name == kept;
    let rest: HashSet<_> = with_added.into_iter().filter(keeps).collect();
    assert_eq!(seen.read().await.expect("read"), rest);
    assert_eq!(others(&api.state().stored), others(stored.as_bytes()));
}

fn added() -> BTreeSet<String> {
    ["new", "team-a"].map(str::to_owned).into()
}

fn lines(map: &ConfigMap) -> HashSet<String> {
    let data = map.data.iter().flatten();
    let names = data.filter(|(key, _)| *key == "names");
    let lines = names.flat_map(|(_, names)| names.split('\n').map(str::trim));
    lines
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The keys that Volume Warden does not write.
fn others(stored: &[u8]) -> Vec<(String, String)> {
    let map: ConfigMap = serde_json::from_slice(stored).unwrap_or_default();
    let data = map.data.unwrap_or_default().into_iter();
    data.filter(|(key, _)| key != "names").collect()
}
