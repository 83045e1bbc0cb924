//! Kubernetes' protobuf encoding: the envelope, errors, and metadata. The API server encodes a list
//! of pods in a fraction of the time that JSON takes.
//!
//! Source: `k8s.io/apimachinery/pkg/runtime/serializer/protobuf` for the envelope, and
//! `pkg/runtime/generated.proto` and `pkg/apis/meta/v1/generated.proto` there for the numbers of
//! the fields. Kubernetes never changes the number of a field.

use super::metadata::bounded_owner;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1 as meta, jiff::Timestamp};
use kube::{api::ObjectMeta, core::Status};
use prost::{Message, bytes::Bytes};
use std::collections::BTreeMap;

/// The media type of this encoding.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The bytes before each envelope.
const MAGIC: &[u8] = b"k8s\0";

/// Why bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes do not have the encoding.
    #[error(transparent)]
    Encoding(#[from] prost::DecodeError),
    /// The bytes are another kind of object, or none.
    #[error("it is not a {0}")]
    Kind(&'static str),
    /// A field is missing that every stored object has.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A time cannot be represented.
    #[error("a time is out of range")]
    Time,
}

/// One page of a LIST.
#[derive(Debug)]
pub struct Page<T> {
    /// The objects.
    pub items: Vec<T>,
    /// The token with which the next page is requested; none if this is the last one.
    pub next: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// `ListMeta`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ListMetadata {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    next: String,
}

/// `ObjectMeta`, with the fields that [`metadata::trimmed`](super::metadata::trimmed) parses.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    generate_name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    deletion_grace_period_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    finalizers: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanoseconds: i32,
}

#[derive(Clone, PartialEq, Message)]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    block_owner_deletion: Option<bool>,
}

/// `Status`, with what is read of an error.
#[derive(Clone, PartialEq, Message)]
struct Failure {
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(int32, tag = "6")]
    code: i32,
}

/// Takes an object of the core API out of its envelope.
///
/// # Errors
/// When the bytes are no envelope, or that of another kind. Empty bytes would otherwise be an empty
/// list.
pub(super) fn unwrap<M: Message + Default>(
    body: &Bytes,
    kind: &'static str,
) -> Result<M, DecodeError> {
    if !body.starts_with(MAGIC) {
        return Err(DecodeError::Kind(kind));
    }
    let envelope = Envelope::decode(body.slice(MAGIC.len()..))?;
    match envelope.type_meta {
        Some(found) if found.kind == kind && found.api_version == "v1" => {
            Ok(M::decode(envelope.raw)?)
        }
        _ => Err(DecodeError::Kind(kind)),
    }
}

/// Reads the `Status` with which the API server answers a request that failed.
///
/// # Errors
/// When the bytes are no `Status`.
pub fn status(body: &Bytes) -> Result<Status, DecodeError> {
    let failure: Failure = unwrap(body, "Status")?;
    let code = u16::try_from(failure.code).unwrap_or_default();
    Ok(Status::failure(&failure.message, &failure.reason).with_code(code))
}

impl ListMetadata {
    /// Makes a page of objects.
    ///
    /// # Errors
    /// When the list has no resourceVersion. Every list of the API server has one, so these bytes
    /// would be another thing.
    pub(super) fn page<T>(self, items: Vec<T>) -> Result<Page<T>, DecodeError> {
        if self.resource_version.is_empty() {
            return Err(DecodeError::Missing("the resourceVersion of the list"));
        }
        let next = some(self.next);
        Ok(Page { items, next })
    }
}

impl TryFrom<Metadata> for ObjectMeta {
    type Error = DecodeError;

    fn try_from(read: Metadata) -> Result<Self, DecodeError> {
        if read.name.is_empty() || read.uid.is_empty() {
            return Err(DecodeError::Missing("the name or uid of an object"));
        }
        let owners = read.owner_references.into_iter().map(owner).collect();
        Ok(Self {
            name: Some(read.name),
            generate_name: some(read.generate_name),
            namespace: some(read.namespace),
            uid: Some(read.uid),
            resource_version: some(read.resource_version),
            creation_timestamp: read.creation_timestamp.map(time).transpose()?,
            deletion_timestamp: read.deletion_timestamp.map(time).transpose()?,
            deletion_grace_period_seconds: read.deletion_grace_period_seconds,
            finalizers: Some(read.finalizers).filter(|list| !list.is_empty()),
            owner_references: Some(owners).filter(|list: &Vec<_>| !list.is_empty()),
            annotations: Some(read.annotations).filter(|map| !map.is_empty()),
            labels: Some(read.labels).filter(|map| !map.is_empty()),
            ..Self::default()
        })
    }
}

fn owner(read: OwnerReference) -> meta::OwnerReference {
    bounded_owner(meta::OwnerReference {
        api_version: read.api_version,
        block_owner_deletion: read.block_owner_deletion,
        controller: read.controller,
        kind: read.kind,
        name: read.name,
        uid: read.uid,
    })
}

fn time(read: Time) -> Result<meta::Time, DecodeError> {
    let time = Timestamp::new(read.seconds, read.nanoseconds);
    time.map(meta::Time).map_err(|_| DecodeError::Time)
}

/// A text, none if it is empty: Kubernetes writes empty texts in this encoding, and none in JSON.
pub(super) fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// An object of the core API in its envelope.
#[cfg(test)]
pub fn wrap(kind: &str, object: &impl Message) -> Bytes {
    let type_meta = Some(TypeMeta {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
    });
    let raw = object.encode_to_vec().into();
    let envelope = Envelope { type_meta, raw }.encode_to_vec();
    [MAGIC, &envelope].concat().into()
}

/// A `Status` as the API server encodes it.
#[cfg(test)]
pub fn wrapped_status(message: &str, reason: &str, code: i32) -> Bytes {
    let (message, reason) = (message.to_owned(), reason.to_owned());
    wrap(
        "Status",
        &Failure {
            message,
            reason,
            code,
        },
    )
}

#[cfg(test)]
impl ListMetadata {
    /// That of a page after which there are others, if `next` is not empty.
    pub(super) fn new(next: &str) -> Self {
        Self {
            resource_version: "7".to_owned(),
            next: next.to_owned(),
        }
    }
}

#[cfg(test)]
impl Metadata {
    /// That of a stored object.
    pub(super) fn new(name: &str, uid: &str) -> Self {
        Self {
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..Self::default()
        }
    }
}
