use super::*;
use crate::{
    cli::{Cli, Command, command},
    cluster::test_server::{answering, failure, silent},
    components::ALL,
};
use clap::FromArgMatches;
use serde_json::Value;
use std::collections::BTreeMap;

/// The `timeoutSeconds` in `manifests/`, by webhook name without its domain.
fn shipped_timeouts() -> BTreeMap<String, Duration> {
    let texts = [
        include_str!("../../../manifests/components/pv-protection/webhooks.yaml"),
        include_str!("../../../manifests/components/pv-releaser/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-protection/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-protection-binding-guard/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-provisioner/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-retention/webhooks.yaml"),
        include_str!("../../../manifests/components/pvc-trash/webhooks.yaml"),
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

/// A process with all components.
fn process() -> Process {
    install_crypto();
    let matches = command(ALL).try_get_matches_from(["volume-warden", "run"]);
    let cli = Cli::from_arg_matches(&matches.expect("no flags are needed"));
    let Ok(Command::Run(options)) = cli.map(|cli| cli.command) else {
        panic!("another command");
    };
    Process::start(*options, ALL, Handle::current()).expect("a process")
}

#[tokio::test]
async fn review_timeouts_equal_those_of_the_manifests() {
    let (process, client) = (process(), silent());
    let (shared, _elector) = process.shared(&client, client.clone());
    let assembly = Assembly::new(&process.components, shared).await;
    let hooks = assembly.expect("components").webhooks;
    let mut timeouts: BTreeMap<String, Duration> = BTreeMap::new();
    for hook in &hooks {
        let (component, what) = hook.path[1..].split_once('/').expect("two segments");
        timeouts.insert(format!("{what}.{component}"), hook.timeout);
    }
    // One hook reviews both the volume and its status.
    let bind = timeouts["bind.pv-protection"];
    timeouts.insert("phase.pv-protection".to_owned(), bind);
    assert_eq!(timeouts, shipped_timeouts());
}

/// The other calls may wait on connections to an API server that has disappeared.
#[tokio::test(start_paused = true)]
async fn the_leader_election_uses_the_client_that_it_is_given() {
    let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
    let leases = answering(move |head, _| {
        let _ = sent.send(head.uri.path().to_owned());
        failure(503, "ServiceUnavailable")
    });
    let process = process();
    let (_shared, elector) = process.shared(&silent(), leases);
    let election = tokio::spawn(elector.run(process.tasks.stop.clone()));
    let first = tokio::time::timeout(Duration::from_secs(60), received.recv()).await;
    let first = first.expect("a request of the election").expect("its path");
    assert!(first.contains("/leases/"), "{first}");
    election.abort();
}
