//! The copies of PersistentVolume objects that pvc-trash keeps in ConfigMaps, and which of these
//! volumes were removed by force: their objects do not exist, although no purge deleted them.

use crate::{
    cli::options::connection::DEFAULT_NAMESPACE,
    cluster::{Store, read_all},
    objects::{
        CompactText, Kind, ObjectName, Tracked, WholeVolume,
        saved_volume::{SELECTOR, SavedVolumeWire},
    },
};
use kube::{Api, Client};

/// A copy of a PersistentVolume object, parsed from its ConfigMap.
#[derive(Clone, Debug)]
pub(super) struct VolumeCopy {
    /// The uid of the volume when it was copied.
    pub(super) volume_uid: CompactText,
    /// The volume with its complete `spec`; none if the manifest in the copy cannot be parsed.
    pub(super) whole: Option<WholeVolume>,
}

impl Tracked for VolumeCopy {
    type Wire = SavedVolumeWire;
    const KIND: Kind = Kind::ConfigMap;
    const LABELS: Option<&'static str> = Some(SELECTOR);

    fn track(wire: SavedVolumeWire) -> Option<Self> {
        Some(Self {
            volume_uid: wire.volume_uid()?.into(),
            whole: wire.volume(),
        })
    }
}

impl VolumeCopy {
    /// Returns the name of the volume; none if the manifest in the copy cannot be parsed.
    pub(super) fn name(&self) -> Option<ObjectName> {
        let whole = self.whole.as_ref()?;
        Some(ObjectName::cluster_scoped(whole.name()))
    }

    /// Returns whether one of these names is that of the volume.
    pub(super) fn is_among(&self, names: &[String]) -> bool {
        let whole = self.whole.as_ref();
        whole.is_some_and(|whole| names.iter().any(|name| name == whole.name()))
    }
}

/// Lists the ConfigMaps that hold copies of volumes, in one namespace.
#[derive(Clone)]
pub(super) struct Copies(Api<SavedVolumeWire>);

impl Copies {
    pub(super) fn of(client: &Client, system_namespace: &str) -> Self {
        Self(Api::namespaced(client.clone(), system_namespace))
    }

    /// Lists all copies, by live reads.
    ///
    /// # Errors
    /// When they could not be listed.
    pub(super) async fn list(&self) -> kube::Result<Store<VolumeCopy>> {
        read_all::<VolumeCopy>(&self.0).await
    }
}

/// Returns the copies whose volumes were not in a list of volumes that was read after `before` and
/// before `after`.
///
/// A volume is created before its copy, and its copy is deleted before its purge. So if a copy
/// exists before and after the list, and the list lacks the volume, it was removed without a purge.
pub(super) fn without_volumes(
    before: &Store<VolumeCopy>,
    after: &Store<VolumeCopy>,
    exists: impl Fn(&CompactText) -> bool,
) -> Vec<(ObjectName, VolumeCopy)> {
    let stayed = before
        .objects()
        .filter(|(name, copy)| after.get(name).is_some() && !exists(&copy.volume_uid));
    let mut removed: Vec<_> = stayed
        .map(|(name, copy)| (name.clone(), VolumeCopy::clone(copy)))
        .collect();
    removed.sort_by(|(a, _), (b, _)| a.cmp(b));
    removed
}

/// The notice that volumes were removed by force.
pub(super) fn notice(number: usize, system_namespace: &str, cluster_flags: &str) -> String {
    let volumes = match number {
        1 => "1 volume was".to_owned(),
        number => format!("{number} volumes were"),
    };
    let place = match system_namespace {
        DEFAULT_NAMESPACE => String::new(),
        other => format!(" --system-namespace {other}"),
    };
    format!(
        "{volumes} removed without a purge. To see which can be created again: volume-warden trash \
         repair --dry-run{place}{cluster_flags}"
    )
}
