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
/// Certificate authorities that cannot be used: not base64, and a PEM block whose text is not.
const USELESS: [&str; 2] = ["*", "LS0tLS1CRUdJTiBBLS0tLS0KKgotLS0tLUVORCBBLS0tLS0K"];
/// A credential that no kubeconfig of the fuzzer has.
const REDACTED: &str = "cmVkYWN0ZWQ=";
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
fn usable(mut config: Kubeconfig, authorities: &[&str]) {
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
    let credentials: Vec<_> = users.flat_map(credentials).collect();
    let Some(fault) = fault_of(config.clone()) else {
        return;
    };
    let mut others = vec![redacted(&config, None)];
    others.extend(USELESS.map(|authority| redacted(&config, Some(authority))));
    let others = others.into_iter().map(|config| config.and_then(fault_of));
    let others: Vec<_> = others.map(Option::unwrap_or_default).collect();
    let is_kept = |secret: &String| {
        secret.len() >= SHORTEST && !names.iter().any(|name| name.contains(secret.as_str()))
    };
    // A value may be a part of the text that the message has for any credentials. The first of the
    // others has the same authorities.
    for secret in authorities
        .iter()
        .map(|line| (*line).to_owned())
        .filter(is_kept)
    {
        let constant = others[1..].iter().any(|other| other.contains(&secret));
        assert!(constant || !fault.contains(&secret), "{fault}");
    }
    for secret in credentials.into_iter().filter(is_kept) {
        let constant = others.iter().any(|other| other.contains(&secret));
        assert!(constant || !fault.contains(&secret), "{fault}");
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

/// The same kubeconfig with other credentials, and with this certificate authority in place of
/// each.
fn redacted(config: &Kubeconfig, authority: Option<&str>) -> Option<Kubeconfig> {
    let mut config = serde_json::to_value(config).ok()?;
    for cluster in items(config.get_mut("clusters")) {
        let data = cluster.pointer_mut("/cluster/certificate-authority-data");
        if let Some(authority) = authority {
            replace(data, authority);
        }
    }
    for user in items(config.get_mut("users")) {
        for field in CREDENTIALS {
            replace(user.pointer_mut(&format!("/user/{field}")), REDACTED);
        }
        for variable in items(user.pointer_mut("/user/exec/env")) {
            replace(variable.get_mut("value"), REDACTED);
        }
    }
    serde_json::from_value(config).ok()
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    list.and_then(Value::as_array_mut).into_iter().flatten()
}

fn replace(text: Option<&mut Value>, by: &str) {
    if let Some(text) = text.filter(|text| text.is_string()) {
        *text = json!(by);
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
