//! Every role that the repository ships has a test that uses each of its permissions.

use super::root;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const LIVES: &str = "scenarios/authorization/lives.rs";
/// A test, its file in `tests/`, and the directories in `manifests/` whose roles it uses.
const TESTS: [(&str, &str, &[&str]); 12] = [
    (
        "pvc_protection_uses_its_rights",
        LIVES,
        &[
            "base",
            "components/self-signed",
            "components/pvc-protection",
        ],
    ),
    (
        "pv_protection_uses_its_rights",
        LIVES,
        &["components/pv-protection"],
    ),
    (
        "pvc_retention_uses_its_rights",
        LIVES,
        &["components/pvc-retention"],
    ),
    (
        "owner_references_use_their_rights",
        LIVES,
        &["components/owner-references"],
    ),
    (
        "pvc_provisioner_uses_its_rights",
        LIVES,
        &[
            "components/pvc-provisioner",
            "components/pvc-provisioner-authorize-requester",
        ],
    ),
    (
        "pv_releaser_uses_its_rights",
        LIVES,
        &["components/pv-releaser"],
    ),
    (
        "pvc_trash_uses_its_rights",
        LIVES,
        &["components/pvc-trash"],
    ),
    (
        "pvc_expiry_uses_its_rights",
        LIVES,
        &["components/pvc-expiry"],
    ),
    (
        "trash_list_uses_its_rights",
        LIVES,
        &["components/trash-list"],
    ),
    (
        "namespace_gc_uses_its_rights",
        LIVES,
        &["components/namespace-gc", "components/namespace-gc-seen"],
    ),
    (
        "the_drain_uses_its_rights",
        "scenarios/authorization/drain.rs",
        &["drain/base"],
    ),
    (
        "simulated_renewals_are_adopted",
        "operations/certificates/cert_manager/played.rs",
        &["overlays/cert-manager", "components/webhook-path"],
    ),
];
/// The same for roles of which the test itself is the user.
const METRICS: (&str, &str, &[&str]) = (
    "metrics_require_a_token_that_may_get_them",
    "operations/metrics.rs",
    &["components/metrics-authorization"],
);

/// Files below that directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory is read");
    let paths = entries.map(|entry| entry.expect("an entry is read").path());
    let below = paths.flat_map(|path| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    });
    below.collect()
}

/// The names of the roles in a manifest.
fn roles(text: &str) -> Vec<String> {
    let documents = text.split("\n---\n").filter(|document| {
        let mut lines = document.lines();
        lines.any(|line| line == "kind: Role" || line == "kind: ClusterRole")
    });
    let names = documents.filter_map(|document| {
        let mut lines = document.lines();
        lines.find_map(|line| line.strip_prefix("  name: ").map(str::to_owned))
    });
    names.collect()
}

/// Directories of `manifests/` with the roles that they define. `install.yaml` is generated from
/// them.
fn shipped() -> BTreeMap<String, Vec<String>> {
    let manifests = root().join("manifests");
    let mut shipped = BTreeMap::<_, Vec<_>>::new();
    for path in files(&manifests) {
        let inside = path.strip_prefix(&manifests).expect("inside of manifests");
        let directory = inside.parent().expect("a directory").display().to_string();
        if path.extension().is_none_or(|extension| extension != "yaml")
            || directory.is_empty()
            || directory.starts_with("helm")
        {
            continue;
        }
        let roles = roles(&fs::read_to_string(&path).expect("a manifest is read"));
        if !roles.is_empty() {
            shipped.entry(directory).or_default().extend(roles);
        }
    }
    shipped
}

/// The text of a test's function.
fn body(file: &str, test: &str) -> String {
    let text = fs::read_to_string(root().join("tests").join(file)).expect("a test is read");
    let parts = text.split_once(&format!("async fn {test}()"));
    let rest = parts.map_or("", |(_, rest)| rest);
    let body = rest.split("\n}\n").next();
    body.unwrap_or_default().to_owned()
}

#[test]
fn every_role_has_a_test_that_uses_its_rights() {
    let tests = TESTS.iter().chain([&METRICS]);
    let tested = tests.clone().flat_map(|(.., places)| places.iter());
    let tested: BTreeSet<_> = tested.map(|place| (*place).to_owned()).collect();
    let shipped: BTreeSet<_> = shipped().into_keys().collect();
    assert_eq!(shipped, tested);
    for (test, file, _) in tests {
        let body = body(file, test);
        let compares = ["used_all(", "role_is_used(", "granted(", ".loses("];
        assert!(
            compares.iter().any(|call| body.contains(call)),
            "{test} compares no permissions"
        );
    }
}

/// tests/operations/chart shows that the roles of the chart are those of kustomize. Here: there is
/// no role that only the chart has.
#[test]
fn the_chart_has_no_role_of_its_own() {
    let kustomize: BTreeSet<_> = shipped().into_values().flatten().collect();
    let templates = root().join("manifests/helm/volume-warden/templates");
    let mut found = BTreeSet::new();
    for path in files(&templates) {
        if path.ends_with("_rights.tpl") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a template is read");
        let lines: Vec<_> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let begins = ["role\" (list", "clusterRole\" (list"];
            let follows = ["kind: Role", "kind: ClusterRole"];
            let defines = begins.iter().any(|begin| line.contains(begin))
                || index > 0 && follows.contains(&lines[index - 1]);
            if defines && !line.contains("(print \"-\" $name)") {
                let suffix = line.split('"').nth(3).unwrap_or(line);
                found.insert(format!("volume-warden{suffix}"));
            }
        }
    }
    assert!(found.len() >= 10, "{found:?}");
    let own: Vec<_> = found.difference(&kustomize).collect();
    assert!(own.is_empty(), "{own:?}");
}
