use super::*;
use clap::Parser;
use kube::client::Body;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    run: RunOptions,
}

/// In `manifests/`, by name without its domain.
fn shipped_timeouts() -> BTreeMap<String, Duration> {
    let texts = [
        include_str!("../../../manifests/components/pv-protection/webhooks.yaml"),
        include_str!("../../../manifests/components/pv-releaser/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-protection/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-protection-binding-guard/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-provisioner/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-retention/webhooks.yaml"),
    ];
    let mut timeouts = BTreeMap::new();
    for text in texts {
        let configurations: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
        for webhook in configurations
            .iter()
            .flat_map(|each| each["webhooks"].as_array())
            .flatten()
        {
            let name = webhook["name"].as_str().expect("a name");
            let name = name.strip_suffix(".volume-warden.dev").expect("a domain");
            let seconds = webhook["timeoutSeconds"].as_u64().expect("a timeout");
            timeouts.insert(name.to_owned(), Duration::from_secs(seconds));
        }
    }
    timeouts
}

#[tokio::test]
async fn no_review_may_take_longer_than_the_manifests_say() {
    install_crypto();
    let options = Arguments::try_parse_from(["run"]).expect("no flags are needed");
    let service = tower::service_fn(|_: http::Request<Body>| {
        std::future::pending::<Result<http::Response<Body>, std::io::Error>>()
    });
    let client = Client::new(service, "default");
    let mut process = Process::start(options.run).expect("a process");
    let hooks = process.components(&client, None).hooks;
    let mut timeouts: BTreeMap<String, Duration> = BTreeMap::new();
    for hook in &hooks {
        let (component, what) = hook.path[1..].split_once('/').expect("two segments");
        timeouts.insert(format!("{what}.{component}"), hook.timeout);
    }
    // The same hook is asked about the status.
    let bind = timeouts["bind.pv-protection"];
    timeouts.insert("phase.pv-protection".to_owned(), bind);
    assert_eq!(timeouts, shipped_timeouts());
}
