//! Objects as `why` reads them: the API object for its messages and conditions, and the part of it
//! that the rules of the components read, so that `why` applies the same rules.

use crate::objects::{
    self, Claim, Volume, VolumeSource, claim::ClaimWire, pod::PodWire,
    stateful_set::StatefulSetWire, volume::VolumeWire,
};
use k8s_openapi::api::{apps::v1 as apps, core::v1 as core};
use kube::{Resource, api::ObjectMeta};
use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error as _};
use serde_json::{Map, Value, value::RawValue};
use std::{borrow::Cow, ops::Deref};

pub type Pod = Read<core::Pod>;
pub type PersistentVolumeClaim = Read<core::PersistentVolumeClaim>;
pub type PersistentVolume = Read<core::PersistentVolume>;
pub type StatefulSet = Read<apps::StatefulSet>;

/// A kind that rules of components read.
pub trait Trimmable: Resource<DynamicType = ()> + DeserializeOwned {
    /// The fields that the rules read.
    type Wire: DeserializeOwned + Into<Self::Trimmed>;
    /// The object that the rules take, built from these fields.
    type Trimmed;
}

impl Trimmable for core::Pod {
    type Wire = PodWire;
    type Trimmed = objects::Pod;
}

impl Trimmable for core::PersistentVolumeClaim {
    type Wire = ClaimWire;
    type Trimmed = Claim;
}

impl Trimmable for core::PersistentVolume {
    type Wire = TrimmedVolume;
    type Trimmed = TrimmedVolume;
}

impl Trimmable for apps::StatefulSet {
    type Wire = StatefulSetWire;
    type Trimmed = objects::StatefulSet;
}

/// A volume as the rules of the components see it. `Deref` gives its fields.
#[derive(Clone, Debug)]
pub struct TrimmedVolume {
    fields: Volume,
    /// Where the data of the volume is.
    pub source: VolumeSource,
}

impl Deref for TrimmedVolume {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.fields
    }
}

impl<'de> Deserialize<'de> for TrimmedVolume {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Whole {
            #[serde(default)]
            spec: Map<String, Value>,
        }
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let wire: VolumeWire = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        let whole: Whole = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self {
            fields: wire.into(),
            source: VolumeSource::of(&whole.spec),
        })
    }
}

/// An object from the API server, and the part of it that the rules of the components read. `Deref`
/// gives the API object.
#[derive(Clone, Debug)]
pub struct Read<K: Trimmable> {
    object: K,
    /// The object as the rules of the components see it.
    pub trimmed: K::Trimmed,
}

impl<K: Trimmable> Deref for Read<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.object
    }
}

impl<'de, K: Trimmable> Deserialize<'de> for Read<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let wire: K::Wire = serde_json::from_str(text.get()).map_err(D::Error::custom)?;
        Ok(Self {
            object: serde_json::from_str(text.get()).map_err(D::Error::custom)?,
            trimmed: wire.into(),
        })
    }
}

impl<K: Trimmable> Resource for Read<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.meta_mut()
    }
}
