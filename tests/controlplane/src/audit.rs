//! The API server's audit log.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

/// Reads the audit log. The log contains a call once it is answered, and a watch once it has ended.
#[derive(Debug, Clone)]
pub struct AuditLog {
    path: PathBuf,
}

/// A position in the audit log.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

/// One call to the API server. Fields that do not apply are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The user agent.
    pub user_agent: String,
    /// The user; the impersonated one, if there is one.
    pub user: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// The resource's API group.
    pub group: String,
    /// The resource, in the plural.
    pub resource: String,
    /// The subresource, `status` for example.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP status of the response.
    pub code: u16,
    /// The webhooks that failed open, so that the call continued without them.
    pub failed_open: Vec<String>,
}

impl Call {
    /// Whether the call was a write, successful or not.
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb.as_str(),
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    fn is_first_page(&self) -> bool {
        let query = self.uri.split_once('?').map_or("", |(_path, query)| query);
        !query
            .split('&')
            .any(|parameter| parameter.starts_with("continue="))
    }
}

/// Calls, in the order of their responses.
#[derive(Debug, Clone, Default)]
pub struct Calls(Vec<Call>);

impl Calls {
    /// The calls of one user, `system:serviceaccount:volume-warden:volume-warden` for example.
    pub fn by_user(&self, user: &str) -> Self {
        self.only(|call| call.user == user)
    }

    /// The calls whose user agent begins with `prefix`.
    pub fn by_user_agent(&self, prefix: &str) -> Self {
        self.only(|call| call.user_agent.starts_with(prefix))
    }

    /// How often `resource` was listed; further pages of a list are not counted.
    pub fn lists(&self, resource: &str) -> usize {
        self.iter()
            .filter(|call| call.verb == "list" && call.resource == resource && call.is_first_page())
            .count()
    }

    /// The writes, successful or not.
    pub fn writes(&self) -> Self {
        self.only(Call::is_write)
    }

    fn only(&self, wanted: impl Fn(&Call) -> bool) -> Self {
        Self(self.iter().filter(|call| wanted(call)).cloned().collect())
    }
}

impl Deref for Calls {
    type Target = [Call];

    fn deref(&self) -> &[Call] {
        &self.0
    }
}

impl AuditLog {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns the current end of the log.
    pub fn mark(&self) -> Result<Mark> {
        let metadata = fs::metadata(&self.path)
            .with_context(|| format!("reading the length of {}", self.path.display()))?;
        Ok(Mark(metadata.len()))
    }

    /// All calls.
    pub fn all(&self) -> Result<Calls> {
        self.since(Mark(0))
    }

    /// All calls since the mark.
    pub fn since(&self, mark: Mark) -> Result<Calls> {
        let mut file =
            File::open(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        // The API server may have been writing a line when the mark was set. The call of that line
        // was answered before the mark.
        file.seek(SeekFrom::Start(mark.0.saturating_sub(1)))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let text = if mark.0 == 0 {
            &text
        } else {
            text.split_once('\n').map_or("", |(_, rest)| rest)
        };
        // The last line may not be complete yet.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let calls = complete
            .lines()
            .map(|line| Ok(serde_json::from_str::<Event>(line)?.into()));
        calls
            .collect::<Result<_>>()
            .map(Calls)
            .with_context(|| format!("reading {}", self.path.display()))
    }
}

/// The fields of an `audit.k8s.io/v1` Event that this module reads.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "requestURI")]
    request_uri: String,
    verb: String,
    #[serde(default)]
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(default)]
    object_ref: ObjectReference,
    #[serde(default)]
    response_status: ResponseStatus,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectReference {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseStatus {
    code: u16,
}

impl From<Event> for Call {
    fn from(event: Event) -> Self {
        let object = event.object_ref;
        // One annotation for each webhook that failed open, keyed by its position.
        let failed_open = event.annotations.into_iter();
        let failed_open = failed_open.filter(|(key, _)| key.starts_with("failed-open."));
        Self {
            user_agent: event.user_agent,
            user: event.impersonated_user.unwrap_or(event.user).username,
            verb: event.verb,
            group: object.api_group,
            resource: object.resource,
            subresource: object.subresource,
            namespace: object.namespace,
            name: object.name,
            uri: event.request_uri,
            code: event.response_status.code,
            failed_open: failed_open.map(|(_, webhook)| webhook).collect(),
        }
    }
}
