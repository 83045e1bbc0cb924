//! Volume Warden's types accept every object that Kubernetes' own types accept, with the same
//! claims.

#![no_main]

use axum::body::Bytes;
use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::StatefulSet,
        core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt::Debug;
use volume_warden::{
    components::pvc_provisioner::{TemplatePolicy, parse_claim_requests},
    objects::{
        self, Claim, ClaimRequests, Tracked, Volume, claim::ClaimWire, is_possible_name,
        pod::PodWire, stateful_set::StatefulSetWire, volume::VolumeWire,
    },
};

fuzz_target!(|bytes: &[u8]| {
    // Any bytes decode to a page of pods or to an error, without a panic.
    if let Some(decode) = objects::Pod::DECODER {
        let _ = decode(&Bytes::copy_from_slice(bytes));
    }
    if let Some((claim, wire)) = both::<PersistentVolumeClaim, ClaimWire>(bytes) {
        assert_eq!(claim.metadata, wire.metadata);
        let _ = Claim::from(wire);
    }
    if let Some((volume, wire)) = both::<PersistentVolume, VolumeWire>(bytes) {
        assert_eq!(volume.metadata, wire.metadata);
        let _ = Volume::from(wire);
    }
    if let Some((set, wire)) = both::<StatefulSet, StatefulSetWire>(bytes) {
        assert_eq!(set.metadata, wire.metadata);
        let _ = objects::StatefulSet::from(wire);
    }
    if let Some((pod, wire)) = both::<Pod, PodWire>(bytes) {
        assert_eq!(pod.metadata, wire.metadata);
        requests(&wire);
        let known = objects::Pod::from(wire);
        let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
        for source in volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref()) {
            // The API server stores a pod with any name of a claim, but no claim with such a name.
            let claim = source.claim_name.as_str();
            assert_eq!(known.may_name(claim), is_possible_name(claim), "{source:?}");
        }
    }
});

/// Parses the object as Kubernetes' own type and as Volume Warden's. Every stored object has a
/// name, and no field twice.
fn both<Whole, Wire>(bytes: &[u8]) -> Option<(Whole, Wire)>
where
    Whole: DeserializeOwned + Metadata<Ty = ObjectMeta>,
    Wire: DeserializeOwned + Debug,
{
    let object: Value = serde_json::from_slice(bytes).ok()?;
    let object = object.to_string();
    let whole: Whole = serde_json::from_str(&object).ok()?;
    whole.metadata().name.as_ref()?;
    let wire = serde_json::from_str(&object);
    Some((whole, wire.expect("what Kubernetes accepts is accepted")))
}

/// Checks that every notice about a pod fits into an Event.
fn requests(pod: &PodWire) {
    let Some(requests) = ClaimRequests::of(pod) else {
        return;
    };
    let (claims, notices) = parse_claim_requests(&requests, &TemplatePolicy::default());
    assert!(claims.len() <= 32 && notices.len() <= 9 + 32);
}
