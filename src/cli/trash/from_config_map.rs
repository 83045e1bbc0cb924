//! The trash of one namespace for users who may not list volumes: from the ConfigMap that the
//! component trash-list keeps.

use super::output::{Output, Row, shown};
use crate::{
    cli::{
        print::{print, print_error},
        user::exit_code::report_unknown,
    },
    clock::Clock,
    cluster::{DEFAULT_CALL_TIMEOUT, existing, within},
    objects::{
        Tracked as _, TrashList,
        trash_list::{List, NAME, TrashListWire},
    },
};
use kube::{Api, Client};
use std::process::ExitCode;

/// Prints the list in the ConfigMap of the namespace. If there is none, or it cannot be read,
/// prints `forbidden`, the message that the user may not list the volumes.
///
/// # Errors
/// When the list cannot be written.
pub(super) async fn show(
    client: &Client,
    namespace: &str,
    output: Output,
    forbidden: String,
) -> anyhow::Result<ExitCode> {
    let maps: Api<TrashListWire> = Api::namespaced(client.clone(), namespace);
    let found = existing(within(DEFAULT_CALL_TIMEOUT, maps.get(NAME)).await);
    let Some(list) = found.ok().flatten().and_then(list) else {
        return Ok(report_unknown(forbidden));
    };
    let rows = list.volumes.iter();
    let rows = rows.map(|volume| Row::listed(namespace, volume)).collect();
    print(&shown(rows, output, Clock::system().timestamp()))?;
    print_error(source(namespace, list.left_out));
    Ok(ExitCode::SUCCESS)
}

/// The list in the ConfigMap; none if Volume Warden did not write it, or it cannot be parsed.
fn list(wire: TrashListWire) -> Option<List> {
    let text = TrashList::track(wire)?.text?;
    serde_json::from_str(&text).ok()
}

/// Says where the list is from, and what it leaves out.
fn source(namespace: &str, left_out: usize) -> String {
    let from = format!(
        "this list is from the ConfigMap {NAME} in {namespace}, because this user may not list \
         PersistentVolumes"
    );
    match left_out {
        0 => from,
        1 => format!("{from}; 1 claim that was deleted earlier is left out"),
        more => format!("{from}; {more} claims that were deleted earlier are left out"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::trash_list::{config_map, name_in};
    use serde_json::{Value, json};

    fn read(text: &str, changes: Value) -> Option<List> {
        let mut map = config_map(&name_in("shop"), text);
        json_patch::merge(&mut map, &changes);
        list(serde_json::from_value(map).expect("a ConfigMap"))
    }

    #[test]
    fn only_a_list_of_volume_warden_is_shown() {
        let text = List::default().text();
        assert_eq!(read(&text, json!({})), Some(List::default()));
        assert_eq!(read(&text, json!({"metadata": {"labels": null}})), None);
        assert_eq!(read("{}", json!({})), None);
    }

    #[test]
    fn what_is_left_out_is_counted() {
        assert!(source("shop", 0).ends_with("PersistentVolumes"));
        assert!(source("shop", 1).ends_with("1 claim that was deleted earlier is left out"));
        assert!(source("shop", 7).ends_with("7 claims that were deleted earlier are left out"));
    }
}
