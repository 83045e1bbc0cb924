//! The directories of volumes that kube-controller-manager provisioned.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// The directory in which the host-path provisioner creates the directories of volumes, each with a
/// UUID as its name. Kubernetes fixes the path, so it also contains the directories of other
/// clusters.
const BASE: &str = "/tmp/hostpath_pv/";
const UUID: usize = 36;

/// Removes the directories when dropped. It finds them in the audit log, which contains each new
/// volume. Most directories still exist then, because their volumes are retained or the cluster
/// ends before the volumes are deleted.
#[derive(Debug)]
pub(crate) struct Provisioned {
    audit_log: PathBuf,
}

impl Provisioned {
    pub(crate) fn by(audit_log: &Path) -> Self {
        Self {
            audit_log: audit_log.to_owned(),
        }
    }
}

impl Drop for Provisioned {
    fn drop(&mut self) {
        let Ok(log) = File::open(&self.audit_log) else {
            return;
        };
        for directory in directories(BufReader::new(log)) {
            // The directory no longer exists if the volume was deleted.
            let _ = fs::remove_dir_all(directory);
        }
    }
}

fn directories(log: impl BufRead) -> BTreeSet<String> {
    let lines = log.lines().map_while(Result::ok);
    let found = lines.flat_map(|line| {
        let places = line.match_indices(BASE);
        let names = places.filter_map(|(place, _)| line.get(place + BASE.len()..)?.get(..UUID));
        let uuids = names.filter(|name| name.bytes().all(is_of_uuid));
        uuids
            .map(|uuid| format!("{BASE}{uuid}"))
            .collect::<Vec<_>>()
    });
    found.collect()
}

fn is_of_uuid(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_the_provisioner_are_found() {
        let uuid = "6ceede81-b841-4bb5-bb74-ad16e0f8382f";
        let log = format!(
            "{{\"path\":\"/tmp/hostpath_pv/{uuid}\",\"again\":\"/tmp/hostpath_pv/{uuid}/data\"}}\n\
             {{\"path\":\"/tmp/hostpath_pv/mine\"}}\n\
             {{\"path\":\"/tmp/hostpath_pv/../../etc/that-is-not-a-uuid-of-a-volume\"}}\n"
        );
        let found = directories(log.as_bytes());
        assert_eq!(found, BTreeSet::from([format!("/tmp/hostpath_pv/{uuid}")]));
    }
}
