//! Lists of pods in Kubernetes' protobuf encoding.
//!
//! Source: `k8s.io/api/core/v1/generated.proto` for the numbers of the fields.

use super::{
    pod_wire::{
        ClaimSource, ContainerState, ContainerStatus, PodSpec, PodStatus, PodVolume, PodWire,
    },
    protobuf::{self, DecodeError, ListMetadata, Metadata, Page, some},
};
use prost::{Message, bytes::Bytes};
use serde::de::IgnoredAny;

#[derive(Clone, PartialEq, Message)]
struct PodList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMetadata>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<Pod>,
}

#[derive(Clone, PartialEq, Message)]
struct Pod {
    #[prost(message, optional, tag = "1")]
    metadata: Option<Metadata>,
    #[prost(message, optional, tag = "2")]
    spec: Option<Spec>,
    #[prost(message, optional, tag = "3")]
    status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
struct Spec {
    #[prost(message, repeated, tag = "1")]
    volumes: Vec<Volume>,
    #[prost(string, tag = "10")]
    node_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Volume {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    source: Option<Source>,
}

/// `VolumeSource`.
#[derive(Clone, PartialEq, Message)]
struct Source {
    #[prost(message, optional, tag = "10")]
    persistent_volume_claim: Option<Claim>,
    #[prost(message, optional, tag = "29")]
    ephemeral: Option<Unread>,
}

/// `PersistentVolumeClaimVolumeSource`.
#[derive(Clone, PartialEq, Message)]
struct Claim {
    #[prost(string, tag = "1")]
    claim_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(string, tag = "1")]
    phase: String,
    #[prost(message, repeated, tag = "8")]
    container_statuses: Vec<Container>,
    #[prost(message, repeated, tag = "10")]
    init_container_statuses: Vec<Container>,
    #[prost(message, repeated, tag = "13")]
    ephemeral_container_statuses: Vec<Container>,
}

/// `ContainerStatus`.
#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(message, optional, tag = "2")]
    state: Option<State>,
}

/// `ContainerState`.
#[derive(Clone, PartialEq, Message)]
struct State {
    #[prost(message, optional, tag = "1")]
    waiting: Option<Unread>,
    #[prost(message, optional, tag = "3")]
    terminated: Option<Unread>,
}

/// A message of which only the presence is read.
#[derive(Clone, PartialEq, Message)]
struct Unread {}

/// Decodes one page of a LIST of pods.
///
/// # Errors
/// When the bytes are no page of a LIST of pods. The caller must not conclude that a pod does not
/// exist.
pub(super) fn page(body: &Bytes) -> Result<Page<PodWire>, DecodeError> {
    let list: PodList = protobuf::unwrap(body, "PodList")?;
    let pods = list.items.into_iter().map(PodWire::try_from);
    let pods = pods.collect::<Result<_, _>>()?;
    list.metadata.unwrap_or_default().page(pods)
}

impl TryFrom<Pod> for PodWire {
    type Error = DecodeError;

    fn try_from(read: Pod) -> Result<Self, DecodeError> {
        let (spec, status) = (
            read.spec.unwrap_or_default(),
            read.status.unwrap_or_default(),
        );
        let containers =
            |read: Vec<Container>| read.into_iter().map(ContainerStatus::from).collect();
        Ok(Self {
            metadata: read.metadata.unwrap_or_default().try_into()?,
            spec: PodSpec {
                node_name: some(spec.node_name),
                volumes: spec.volumes.into_iter().map(PodVolume::from).collect(),
            },
            status: PodStatus {
                phase: some(status.phase),
                container_statuses: containers(status.container_statuses),
                init_container_statuses: containers(status.init_container_statuses),
                ephemeral_container_statuses: containers(status.ephemeral_container_statuses),
            },
        })
    }
}

impl From<Volume> for PodVolume {
    fn from(read: Volume) -> Self {
        let source = read.source.unwrap_or_default();
        let claim = |claim: Claim| ClaimSource {
            claim_name: claim.claim_name,
        };
        Self {
            name: read.name,
            persistent_volume_claim: source.persistent_volume_claim.map(claim),
            ephemeral: source.ephemeral.map(|_| IgnoredAny),
        }
    }
}

impl From<Container> for ContainerStatus {
    fn from(read: Container) -> Self {
        let state = read.state.unwrap_or_default();
        Self {
            state: ContainerState {
                terminated: state.terminated.map(|_| IgnoredAny),
                waiting: state.waiting.map(|_| IgnoredAny),
            },
        }
    }
}

// The scenario `pod_lists` compares all fields with those of a real API server.
#[cfg(test)]
mod tests {
    use super::*;
    use protobuf::wrap;

    fn pod(name: &str, uid: &str) -> Pod {
        Pod {
            metadata: Some(Metadata::new(name, uid)),
            ..Pod::default()
        }
    }

    fn list(items: Vec<Pod>) -> PodList {
        let metadata = Some(ListMetadata::new("token"));
        PodList { metadata, items }
    }

    #[test]
    fn a_page_has_its_pods_and_the_token_of_the_next() {
        let page = page(&wrap("PodList", &list(vec![pod("a", "1"), pod("b", "2")])));
        let page = page.expect("a page");
        let names = page.items.iter().map(|pod| pod.metadata.name.as_deref());
        assert_eq!(names.collect::<Vec<_>>(), [Some("a"), Some("b")]);
        assert_eq!(page.next.as_deref(), Some("token"));
    }

    /// Each of these is no pod or fewer pods in a reader that believes it.
    #[test]
    fn what_is_no_list_of_pods_is_an_error() {
        let whole = wrap("PodList", &list(vec![pod("a", "1")]));
        let unversioned = PodList {
            metadata: None,
            items: Vec::new(),
        };
        for (what, body) in [
            ("nothing", Bytes::new()),
            ("JSON", Bytes::from_static(b"{\"kind\":\"PodList\"}")),
            ("no envelope", whole.slice(4..)),
            ("an empty envelope", whole.slice(..4)),
            ("a part", whole.slice(..whole.len() - 1)),
            ("another kind", wrap("Pod", &list(Vec::new()))),
            ("no resourceVersion", wrap("PodList", &unversioned)),
            ("no name", wrap("PodList", &list(vec![pod("", "1")]))),
            ("no uid", wrap("PodList", &list(vec![pod("a", "")]))),
        ] {
            assert!(page(&body).is_err(), "{what}");
        }
    }
}
