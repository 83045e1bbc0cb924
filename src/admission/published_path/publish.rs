//! Decides whether the `path` of a webhook may be replaced, and publishes the secret path.

use crate::{
    admission::PathSecret,
    cluster::{StoredConfiguration, Webhook},
};
use json_patch::{AddOperation, PatchOperation, TestOperation, jsonptr::PointerBuf};
use serde_json::{Value, json};

/// The kind of path that a webhook has in its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// The secret path that is published at present.
    Current,
    /// No path, as in the manifests.
    Absent,
    /// The fixed path of version 0.1.0.
    Unprefixed,
    /// Another secret path, such as a replaced one or the next one.
    Other,
    /// A path that another writer has set, or any path of a webhook whose name is not one of the
    /// manifests. Volume Warden leaves it unchanged and reports it.
    Foreign,
}

/// Returns the hook of a webhook: `/pvc-protection/claims` for
/// `claims.pvc-protection.volume-warden.dev`. All webhooks of the manifests have names of this
/// form.
fn hook(webhook: &str) -> Option<String> {
    let (hook, component) = webhook
        .strip_suffix(".volume-warden.dev")?
        .split_once('.')?;
    Some(format!("/{component}/{hook}"))
}

/// Returns which kind of path a webhook has in its configuration.
pub(super) fn carried(webhook: &Webhook<'_>, current: &PathSecret) -> Carried {
    let Some(hook) = hook(webhook.name) else {
        return Carried::Foreign;
    };
    match webhook.path() {
        None | Some("" | "/") => Carried::Absent,
        Some(path) => match PathSecret::split(path) {
            Some((secret, of)) if of == hook && secret == *current => Carried::Current,
            Some((_, of)) if of == hook => Carried::Other,
            None if is_unprefixed(path, &hook) => Carried::Unprefixed,
            _ => Carried::Foreign,
        },
    }
}

/// Returns whether `path` is a fixed path `/<component>/<hook>` of version 0.1.0. Only the
/// component has to match, because two webhooks of that version shared a hook.
fn is_unprefixed(path: &str, hook: &str) -> bool {
    let segments = |path: &str| path.split('/').map(str::to_owned).collect::<Vec<_>>();
    let (path, hook) = (segments(path), segments(hook));
    path.len() == hook.len() && path[..2] == hook[..2]
}

/// Returns the JSON patch that publishes `current` in each webhook whose path may be replaced.
/// `test` operations ensure that each webhook still has the same index, name and Service:
/// otherwise the API server rejects the whole patch.
pub(super) fn operations(found: &StoredConfiguration, current: &PathSecret) -> Vec<PatchOperation> {
    let mut operations = Vec::new();
    for webhook in found.webhooks() {
        let (Some(hook), carried) = (hook(webhook.name), carried(&webhook, current)) else {
            continue;
        };
        if matches!(carried, Carried::Current | Carried::Foreign) {
            continue;
        }
        let index = webhook.index.to_string();
        let service = webhook.client_config["service"].clone();
        let at = |tokens: &[&str]| {
            let tokens = ["webhooks", &index]
                .into_iter()
                .chain(tokens.iter().copied());
            PointerBuf::from_tokens(tokens)
        };
        operations.extend([
            test(at(&["name"]), json!(webhook.name)),
            test(at(&["clientConfig", "service"]), service),
            PatchOperation::Add(AddOperation {
                path: at(&["clientConfig", "service", "path"]),
                value: json!(current.path(&hook)),
            }),
        ]);
    }
    operations
}

fn test(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Test(TestOperation { path, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> PathSecret {
        PathSecret::generate().expect("generates")
    }

    fn of(name: &str, path: Option<&str>, current: &PathSecret) -> Carried {
        let client_config = json!({"service": {"name": "a", "namespace": "b", "path": path}});
        let webhook = Webhook {
            index: 0,
            name,
            client_config: &client_config,
            fails_closed: false,
        };
        carried(&webhook, current)
    }

    #[test]
    fn only_absent_fixed_and_older_paths_are_replaced() {
        let (current, older) = (secret(), secret());
        let claims = "claims.pvc-protection.volume-warden.dev";
        for (path, expected) in [
            (None, Carried::Absent),
            (Some("/"), Carried::Absent),
            (Some("/pvc-protection/claims"), Carried::Unprefixed),
            (
                Some(&*current.path("/pvc-protection/claims")),
                Carried::Current,
            ),
            (Some(&*older.path("/pvc-protection/claims")), Carried::Other),
            (
                Some(&*current.path("/pvc-protection/pods")),
                Carried::Foreign,
            ),
            (Some("/pv-protection/claims"), Carried::Foreign),
            (Some("/pvc-protection/claims/more"), Carried::Foreign),
            (Some("/mine"), Carried::Foreign),
            (Some("mine"), Carried::Foreign),
        ] {
            assert_eq!(of(claims, path, &current), expected, "{path:?}");
        }
        let phase = "phase.pv-protection.volume-warden.dev";
        let shared = of(phase, Some("/pv-protection/bind"), &current);
        assert_eq!(shared, Carried::Unprefixed);
        assert_eq!(of("claims.example.com", None, &current), Carried::Foreign);
    }
}
