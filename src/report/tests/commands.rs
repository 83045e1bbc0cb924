//! Tests of the next command that each line of the page shows.

use super::*;
use crate::objects::trash::MAX_UNBINDABLE;

/// What the page shows as code in the section of this group.
fn commands(page: &str, group: &str) -> Vec<String> {
    let parts = section(page, group).split("<code>").skip(1);
    let commands = parts.map(|part| part.split("</code>").next().unwrap_or_default());
    commands.map(str::to_owned).collect()
}

#[test]
fn each_line_has_its_next_command() {
    let page = page(&mixed(), None, &Prices::new());
    assert_eq!(
        commands(&page, "available"),
        ["volume-warden why pv/available"]
    );
    assert_eq!(commands(&page, "released"), ["volume-warden why pv/kept"]);
    assert_eq!(
        commands(&page, "trash"),
        ["volume-warden undelete pvc of-trashed -n shop"]
    );
    let unused = commands(&page, "unused");
    assert!(
        unused
            .iter()
            .all(|command| command.starts_with("volume-warden why pvc/")),
        "{unused:?}"
    );
    assert_eq!(unused.len(), 6);
    // The claim `just` was deleted half a minute ago.
    let stuck = ["why pv/failed", "why pvc/going -n shop", "why pv/pv-used"];
    assert_eq!(
        commands(&page, "stuck"),
        stuck.map(|command| format!("volume-warden {command}"))
    );
}

#[test]
fn a_deletion_is_proposed_only_if_it_can_be_undone() {
    let recent = json!({"status": {"conditions": [
        {"type": "Unused", "status": "True", "lastTransitionTime": "2026-01-30T00:00:00Z"}]}});
    let owned = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Database", "name": "db", "uid": "db"}]}});
    let retained = |name: &str| volume(&format!("pv-{name}"), "Bound", record(name, "Delete"));
    let changed =
        |name: &str, changes| volume(&format!("pv-{name}"), "Bound", record_with(name, changes));
    let at_once = changed("at-once", json!({"windowSeconds": 0}));
    let unnamed = changed("unnamed", json!({"claim": {"namespaceUid": null}}));
    let failed = changed("failed", json!({"unbindable": vec!["x"; MAX_UNBINDABLE]}));
    let mut going = retained("going");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut purged = retained("purged");
    purged["metadata"]["annotations"]["volume-warden.dev/purge"] = json!("1");
    let mut other = retained("other");
    other["spec"]["claimRef"]["uid"] = json!("2");
    let mut deleted = retained("delete");
    deleted["spec"]["persistentVolumeReclaimPolicy"] = json!("Delete");
    let mut listed = Listed {
        claims: vec![
            read(claim("safe", json!({}))),
            read(claim("recent", recent)),
            read(claim("owned", owned)),
            read(claim("other", json!({}))),
            read(claim("delete", json!({}))),
            read(claim("failed", json!({}))),
            read(claim("going", json!({}))),
            read(claim("plain", json!({}))),
            read(claim("at-once", json!({}))),
            read(claim("unnamed", json!({}))),
            read(claim("purged", json!({}))),
        ],
        volumes: ["safe", "recent", "owned"]
            .map(|name| read(retained(name)))
            .into(),
        namespaces: shop(),
        ..Listed::default()
    };
    let others = [other, deleted, at_once, unnamed, purged, failed, going];
    listed.volumes.extend(others.map(read));
    let shown = page(&listed, None, &Prices::new());
    let why = |name| format!("volume-warden why pvc/{name} -n shop");
    let undo = [
        "kubectl delete pvc safe -n shop",
        "volume-warden undelete pvc safe -n shop",
    ];
    let expected = [
        "at-once", "delete", "failed", "going", "other", "owned", "plain", "purged", "recent",
    ];
    let before: Vec<String> = expected.map(why).into();
    assert_eq!(
        commands(&shown, "unused"),
        [before, undo.map(str::to_owned).into(), vec![why("unnamed")]].concat()
    );
    assert!(shown.contains("can be undone for 3d:"), "{shown}");
    // A snapshot that could not be listed may need the claim.
    listed
        .errors
        .push("VolumeSnapshots could not be listed".to_owned());
    assert!(!page(&listed, None, &Prices::new()).contains("kubectl delete"));
}

/// The page is read where another cluster may be the current one.
#[test]
fn each_command_is_for_the_cluster_of_the_page() {
    let mut listed = mixed();
    let many = (0..250).map(|number| read(claim(&format!("data-{number}"), json!({}))));
    listed.claims.extend(many);
    let safe = json!({"status": {"capacity": {"storage": "1Ti"}}});
    listed.claims.push(read(claim("safe", safe)));
    let safe = volume("pv-safe", "Bound", record("safe", "Delete"));
    listed.volumes.push(read(safe));
    let page = html(&Subject {
        listed: &listed,
        namespace: None,
        prices: &Prices::new(),
        cluster_flags: " --context=prod",
        now: now(),
    });
    let groups = ["unused", "stuck", "released", "trash", "available"];
    let all: Vec<_> = groups
        .iter()
        .flat_map(|group| commands(&page, group))
        .collect();
    for command in &all {
        assert!(command.ends_with(" --context=prod"), "{command}");
    }
    // 200 claims, the deletion of one of which has two commands, a list of all, and six others.
    assert_eq!(all.len(), 208);
}

/// In the namespace of the claim, users cannot undo a deletion: only an administrator can.
#[test]
fn in_a_namespace_that_is_not_handled_only_an_administrator_restores() {
    let mut listed = Listed {
        claims: vec![read(claim("safe", json!({})))],
        volumes: vec![
            read(volume("pv-safe", "Bound", record("safe", "Delete"))),
            read(volume("trashed", "Released", record("gone", "Delete"))),
        ],
        ..Listed::default()
    };
    let excluded = json!({"uid": "n", "labels": {"volume-warden.dev/exclude": "true"}});
    let deleted = json!({"uid": "n", "deletionTimestamp": "2026-01-30T00:00:00Z"});
    let unread = HashMap::default();
    let mut another = namespace(json!({"uid": "n"}));
    let shop_again = another.remove("shop").expect("a namespace");
    another.insert("another".to_owned(), shop_again);
    for (namespaces, to) in [
        (namespace(excluded), "shop"),
        (namespace(deleted), "NAMESPACE"),
        (namespace(json!({"uid": "recreated"})), "shop"),
        (another, "NAMESPACE"),
        (unread, "shop"),
    ] {
        listed.namespaces = namespaces;
        let page = page(&listed, None, &Prices::new());
        let why = "volume-warden why pvc/safe -n shop";
        assert_eq!(commands(&page, "unused"), [why]);
        let undelete = format!("volume-warden undelete pvc gone -n shop --to-namespace {to}");
        assert_eq!(commands(&page, "trash"), [undelete]);
    }
    listed.namespaces = shop();
    let page = page(&listed, None, &Prices::new());
    assert_eq!(commands(&page, "unused").len(), 2);
}

#[test]
fn the_trash_has_the_end_of_each_window() {
    let in_trash =
        |name: &str, claim: &str, policy: &str| volume(name, "Released", record(claim, policy));
    let mut requested = in_trash("c", "requested", "Delete");
    requested["metadata"]["annotations"]["volume-warden.dev/purge"] = json!("1");
    let mut listed = Listed {
        volumes: vec![
            read(in_trash("a", "data", "Delete")),
            read(in_trash("b", "data", "Retain")),
            read(requested),
        ],
        namespaces: shop(),
        ..Listed::default()
    };
    listed.volumes.push(read(volume(
        "d",
        "Released",
        record_with("unnamed", json!({"claim": {"namespaceUid": null}})),
    )));
    let page = page(&listed, None, &Prices::new());
    let expected = [
        "data -n shop --volume a",
        "data -n shop --volume b",
        "requested -n shop",
        "unnamed -n shop --to-namespace shop",
    ];
    let expected = expected.map(|claim| format!("volume-warden undelete pvc {claim}"));
    assert_eq!(commands(&page, "trash"), expected);
    for end in ["2026-02-02T00:00:00Z", "never", "requested"] {
        assert!(
            section(&page, "trash").contains(&format!("<td>{end}</td>")),
            "{end}: {page}"
        );
    }
}

#[test]
fn only_the_largest_are_listed() {
    let claims = (0..250).map(|number| {
        let size = json!({"status": {"capacity": {"storage": format!("{number}Gi")}}});
        read(claim(&format!("data-{number}"), size))
    });
    let listed = Listed {
        claims: claims.collect(),
        ..Listed::default()
    };
    for (namespace, flag) in [(None, "-A"), (Some("shop"), "-n shop")] {
        let page = page(&listed, namespace, &Prices::new());
        let commands = commands(&page, "unused");
        assert_eq!(commands.len(), 201);
        assert_eq!(commands[199], "volume-warden why pvc/data-50 -n shop");
        assert_eq!(commands[200], format!("volume-warden unused {flag} -o csv"));
        assert!(page.contains("And 50 more.") && page.contains("(250)"));
    }
}
