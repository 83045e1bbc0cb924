//! Which volumes `volume-warden trash repair` creates again: a pure function of what was read.

use super::copies::{VolumeCopy, without_volumes};
use crate::{
    cluster::Store,
    columns::aligned,
    hashing::HashMap,
    objects::{CompactText, Namespace, ObjectName, WholeVolume, trash::TrashRecord},
    plain::Plain,
};
use serde_json::Value;

const HEADER: [&str; 5] = ["VOLUME", "CLAIM", "SIZE", "STORAGE", "ACTION"];

/// What `trash repair` read, in the order of the reads.
pub(super) struct Found {
    /// The copies that exist before the volumes are listed.
    pub(super) before: Store<VolumeCopy>,
    /// All volumes of the cluster.
    pub(super) volumes: Store<WholeVolume>,
    /// The copies that exist after the volumes were listed.
    pub(super) after: Store<VolumeCopy>,
    /// All namespaces of the cluster.
    pub(super) namespaces: Store<Namespace>,
}

impl Found {
    /// Returns whether the namespace of the recorded claim does not exist, or is another one of the
    /// same name. Then the copy may have been restored from the backup of another cluster, whose
    /// volume still exists. False if the record does not say which namespace it was.
    fn lacks_namespace(&self, record: &TrashRecord) -> bool {
        let name = ObjectName::cluster_scoped(&*record.claim.namespace);
        let live = self.namespaces.get(&name);
        record.claim.namespace_uid.is_some() && !record.is_of(live.as_ref().map(|live| &*live.uid))
    }
}

/// A volume that was removed by force: only its copy still exists.
pub(super) struct Removed {
    /// The namespace and name of the ConfigMap with the copy of the volume.
    pub(super) copy: ObjectName,
    /// The uid that the volume had before it was removed.
    pub(super) uid: CompactText,
    /// The volume as its copy describes it; none if the copy cannot be parsed.
    pub(super) whole: Option<WholeVolume>,
    /// Why the volume is not created again; none if nothing prevents it.
    pub(super) refused: Option<String>,
}

impl Removed {
    /// Returns the name of the volume, or else that of its copy.
    pub(super) fn name(&self) -> &str {
        let whole = self.whole.as_ref();
        whole.map_or(&self.copy.name, |whole| whole.name())
    }

    /// Returns the manifest of the volume to create; none if its copy cannot be read.
    pub(super) fn manifest(&self) -> Option<Value> {
        self.whole.as_ref().and_then(WholeVolume::manifest)
    }

    /// Returns whether the claim that the copy records, deleted or not, is of this namespace. True
    /// without a namespace, also if the copy cannot be read.
    pub(super) fn is_in(&self, namespace: Option<&str>) -> bool {
        let record = self.whole.as_ref().and_then(WholeVolume::record);
        namespace.is_none_or(|only| record.is_some_and(|it| it.claim.namespace == only))
    }

    /// Returns whether the same volume would be created by this plan as by `shown`.
    pub(super) fn is_same_plan(&self, shown: &Self) -> bool {
        self.refused.is_none() && self.uid == shown.uid && self.manifest() == shown.manifest()
    }
}

/// Returns the volumes that were removed by force and not created again since, also those that
/// `trash repair` refuses to create. A volume that is `named` is created despite doubts that only
/// the user can clear.
pub(super) fn plan(found: &Found, named: &[String]) -> Vec<Removed> {
    let volumes = || found.volumes.objects();
    let uids: HashMap<_, _> = volumes()
        .map(|(name, whole)| (&whole.volume.uid, name))
        .collect();
    let mut sources = HashMap::default();
    for (name, whole) in volumes() {
        sources.extend(whole.source().map(|source| (source, name.clone())));
    }
    let exists = |uid: &CompactText| uids.contains_key(uid);
    let copies = without_volumes(&found.before, &found.after, exists);
    let again = |copy: &VolumeCopy| {
        let source = copy.whole.as_ref().and_then(WholeVolume::source);
        let has_it = source.and_then(|source| sources.get(&source));
        has_it.is_some() && has_it == copy.name().as_ref()
    };
    let copies: Vec<_> = copies
        .into_iter()
        .filter(|(_, copy)| !again(copy))
        .collect();
    let refused: Vec<_> = copies
        .iter()
        .map(|(name, copy)| {
            refusal(name, copy, &copies, (&found.volumes, &sources))
                .or_else(|| doubt(found, copy).filter(|_| !copy.is_among(named)))
        })
        .collect();
    let removed = copies.into_iter().zip(refused);
    let removed = removed.map(
        |((copy, VolumeCopy { volume_uid, whole }), refused)| Removed {
            copy,
            uid: volume_uid,
            whole,
            refused,
        },
    );
    removed.collect()
}

/// Returns why the volume of the copy is not created again.
fn refusal(
    name: &ObjectName,
    copy: &VolumeCopy,
    copies: &[(ObjectName, VolumeCopy)],
    (volumes, sources): (&Store<WholeVolume>, &HashMap<String, ObjectName>),
) -> Option<String> {
    let Some(whole) = copy.whole.as_ref().filter(|whole| whole.record().is_some()) else {
        return Some(format!("the ConfigMap {name} cannot be read"));
    };
    if volumes
        .get(&ObjectName::cluster_scoped(whole.name()))
        .is_some()
    {
        return Some("a volume of this name exists".to_owned());
    }
    let Some(source) = whole.source() else {
        return Some("the copy does not name the storage of the volume".to_owned());
    };
    if let Some(other) = sources.get(&source) {
        return Some(format!("the volume {other} has the same storage"));
    }
    let others = || copies.iter().filter(|(other, _)| other != name);
    let same_storage = others().find(|(_, other)| {
        other.whole.as_ref().and_then(WholeVolume::source).as_ref() == Some(&source)
    });
    if let Some((other, _)) = same_storage {
        return Some(format!(
            "the ConfigMaps {name} and {other} have the same storage: delete one of them"
        ));
    }
    let same_name = others().find(|(_, other)| other.name() == copy.name());
    same_name.map(|(other, _)| {
        format!("the ConfigMaps {name} and {other} are of volumes of one name: delete one of them")
    })
}

/// Returns why the volume of the copy is created only if the user names it.
fn doubt(found: &Found, copy: &VolumeCopy) -> Option<String> {
    let record = copy.whole.as_ref().and_then(WholeVolume::record)?;
    if found.lacks_namespace(record) {
        return Some(format!(
            "the namespace {} of its claim does not exist any more, so the copy may be one of \
             another cluster: check the storage, then name the volume",
            record.claim.namespace
        ));
    }
    record.ends_at_once().then(|| {
        "its undelete window is 0, so its data is deleted once the volume is created, unless its \
         claim exists: name the volume"
            .to_owned()
    })
}

/// Formats the plan as a table.
pub(super) fn table(removed: &[Removed]) -> String {
    let header = HEADER.map(str::to_owned).to_vec();
    let rows = removed.iter().map(row);
    aligned(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

/// The message about a volume that was created.
pub(super) fn recreated(name: &str) -> String {
    Plain(format!("Recreated volume {name}.")).to_string()
}

fn row(removed: &Removed) -> Vec<String> {
    let whole = removed.whole.as_ref();
    let record = whole.and_then(WholeVolume::record);
    let claim = record.map(|it| format!("{}/{}", it.claim.namespace, it.claim.name));
    let trash = whole.and_then(|whole| whole.volume.trash.as_deref());
    let action = match &removed.refused {
        None => "create".to_owned(),
        Some(why) => format!("none: {why}"),
    };
    let cells = [
        removed.name().to_owned(),
        claim.unwrap_or_default(),
        trash
            .map(|trash| trash.capacity.to_string())
            .unwrap_or_default(),
        whole.and_then(WholeVolume::source).unwrap_or_default(),
        action,
    ];
    cells.map(|cell| Plain(cell).to_string()).to_vec()
}

#[cfg(test)]
#[path = "repair_plan_tests.rs"]
mod tests;
