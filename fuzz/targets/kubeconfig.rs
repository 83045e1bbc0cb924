//! A kubeconfig is either accepted or refused with a message that quotes no credential.

#![no_main]

use k8s_openapi::ByteString;
use kube::{
    Config,
    config::{AuthInfo, ExecConfig, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use volume_warden::cli::kubeconfig::kubeconfig_fault;

/// The minimum length of a checked value. Shorter values may occur in a message by coincidence.
const SHORTEST: usize = 8;
/// The fields of a user that are credentials.
const CREDENTIALS: [&str; 3] = ["token", "password", "client-key-data"];

// Uses the text as a kubeconfig, and as the certificate authority in a kubeconfig.
fuzz_target!(|text: &str| {
    match Kubeconfig::from_yaml(text) {
        Ok(config) => usable(config, &[]),
        Err(error) => only_the_place(&error),
    }
    let authority = json!(ByteString(text.as_bytes().to_owned()));
    let config = json!({
        "clusters": [{"name": "a", "cluster": {
            "server": "https://a", "certificate-authority-data": authority}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "current-context": "a",
    });
    let config = serde_json::from_value(config).expect("a kubeconfig");
    usable(config, &text.lines().collect::<Vec<_>>());
});

/// Checks that the message about an invalid kubeconfig has a line and a column, and none of its
/// text.
fn only_the_place(error: &KubeconfigError) {
    let fault = kubeconfig_fault(error);
    if !matches!(error, KubeconfigError::Parse(_)) {
        return;
    }
    let place = fault.strip_prefix("it is not a valid kubeconfig");
    let place = place.expect(&fault);
    let number = |text: &str| text.parse::<u64>().is_ok();
    let place = place.is_empty() || {
        let place = place.strip_prefix(": line ").expect(&fault);
        let (line, column) = place.split_once(", column ").expect(&fault);
        number(line) && number(column)
    };
    assert!(place, "{fault}");
}

/// Checks that the message about fields that a client cannot use has none of the credentials.
fn usable(mut config: Kubeconfig, secrets: &[&str]) {
    for named in &mut config.clusters {
        if let Some(cluster) = &mut named.cluster {
            // The target must not read other files.
            cluster.certificate_authority = None;
        }
    }
    let contexts = config.contexts.iter();
    let clusters = contexts.filter_map(|named| Some(named.context.as_ref()?.cluster.clone()));
    // Names may be quoted.
    let names: Vec<_> = clusters.chain(config.current_context.clone()).collect();
    let users = config.auth_infos.iter();
    let users = users.filter_map(|named| named.auth_info.as_ref());
    let mut secrets: Vec<_> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
    secrets.extend(users.flat_map(credentials));
    let Some(fault) = fault_of(config.clone()) else {
        return;
    };
    let without = redacted(config).and_then(fault_of).unwrap_or_default();
    secrets.retain(|secret| secret.len() >= SHORTEST);
    secrets.retain(|secret| !names.iter().any(|name| name.contains(secret.as_str())));
    for secret in secrets {
        // A value may be part of a text that the message contains regardless of the credentials.
        assert!(
            !fault.contains(&secret) || without.contains(&secret),
            "{fault}"
        );
    }
}

/// The message about fields that a client cannot use; none if it can use all of them.
fn fault_of(config: Kubeconfig) -> Option<String> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let config = runtime.expect("a runtime").block_on(config);
    config.err().map(|error| kubeconfig_fault(&error))
}

/// The same kubeconfig with other credentials and certificate authorities, which are invalid, too.
fn redacted(config: Kubeconfig) -> Option<Kubeconfig> {
    let mut config = serde_json::to_value(config).ok()?;
    for cluster in items(config.get_mut("clusters")) {
        replace(cluster.pointer_mut("/cluster/certificate-authority-data"));
    }
    for user in items(config.get_mut("users")) {
        for field in CREDENTIALS {
            replace(user.pointer_mut(&format!("/user/{field}")));
        }
        for variable in items(user.pointer_mut("/user/exec/env")) {
            replace(variable.get_mut("value"));
        }
    }
    serde_json::from_value(config).ok()
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn replace(text: Option<&mut Value>) {
    if let Some(text) = text.filter(|text| text.is_string()) {
        *text = json!("cmVkYWN0ZWQ=");
    }
}

/// The values of fields with credentials, and of the environment of a command that prints one.
fn credentials(user: &AuthInfo) -> Vec<String> {
    let serialized = serde_json::to_value(user).expect("JSON");
    let fields = CREDENTIALS
        .iter()
        .filter_map(|field| serialized[field].as_str());
    let fields = fields.map(str::to_owned);
    let environment = |exec: &ExecConfig| exec.env.clone();
    let environment = user.exec.as_ref().and_then(environment);
    let environment = environment.into_iter().flatten();
    let values = environment.filter_map(|mut variable| variable.remove("value"));
    fields.chain(values).collect()
}
