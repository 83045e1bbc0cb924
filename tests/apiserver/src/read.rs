//! GET and LIST requests.

use crate::{
    json::{json_of, metadata_of, parse},
    route::Route,
    selectors::Selectors,
    server::ApiServer,
    status::{Answer, Failure},
    store::Objects,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::{Value, json};
use std::{ops::Bound, sync::Arc};

/// Where a LIST continues: its revision, and the last namespace and name.
struct Continue {
    revision: u64,
    after: (String, String),
}

impl ApiServer {
    pub(crate) fn read(&self, route: &Route) -> Answer<Arc<Value>> {
        let found = self
            .store()
            .get(route.resource, &route.namespace, &route.name)
            .cloned();
        found.ok_or_else(|| Failure::not_found(route.resource, &route.name))
    }

    /// The number of objects in a page for this limit of the request; 0 if there is no limit.
    fn page(&self, limit: usize) -> usize {
        match self.parts.settings.longest_page {
            0 => limit,
            longest => limit.min(longest),
        }
    }

    /// Returns one page of a LIST as JSON.
    pub(crate) fn list_page(&self, route: &Route, metadata_only: bool) -> Answer<Bytes> {
        let selectors = Selectors::parse(
            route.parameter("labelSelector"),
            route.parameter("fieldSelector"),
        )?;
        let limit = self.page(route.parameter("limit").parse().unwrap_or(0));
        let token = Continue::parse(route.parameter("continue"))?;
        let mut store = self.store();
        let wanted = route
            .parameter("resourceVersion")
            .parse::<u64>()
            .unwrap_or(0);
        if wanted > store.revision {
            return Err(Failure::gone(format!(
                "Too large resource version: {wanted}, current: {}",
                store.revision
            )));
        }
        let revision = token
            .as_ref()
            .map_or(store.revision, |token| token.revision);
        let plural = route.resource.plural;
        // A page of a revision whose state is no longer kept.
        let lost = revision < store.revision && !store.snapshots.contains_key(&(revision, plural));
        if revision < store.compacted
            || lost
            || (wanted > 0
                && wanted < store.compacted
                && route.parameter("resourceVersionMatch") == "Exact")
        {
            return Err(Failure::gone(
                "The provided continue parameter is too old to display a consistent list result.",
            ));
        }
        let empty = Objects::new();
        let objects = match store.snapshots.get(&(revision, plural)) {
            Some(snapshot) if token.is_some() => snapshot,
            _ => store.kind(route.resource).unwrap_or(&empty),
        };
        let first = token.map_or(Bound::Unbounded, |token| Bound::Excluded(token.after));
        let mut matching = objects
            .range((first, Bound::Unbounded))
            .filter(|((namespace, _), _)| route.scope().is_none_or(|scope| scope == namespace))
            .filter(|(_, object)| selectors.match_object(object));
        let mut page: Vec<_> = matching
            .by_ref()
            .take(if limit == 0 { usize::MAX } else { limit })
            .collect();
        let left = matching.count();
        let mut items = Vec::new();
        for (_, object) in &page {
            items.extend_from_slice(if items.is_empty() { b"" } else { b"," });
            write_item(&mut items, object, metadata_only);
        }
        let last = page.pop().map(|(name, _)| name.clone());
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if let Some(after) = last.filter(|_| left > 0) {
            metadata["continue"] = Continue { revision, after }.text().into();
            if selectors.is_empty() {
                metadata["remainingItemCount"] = left.into();
            }
            let is_new = !store.snapshots.contains_key(&(revision, plural));
            let snapshot = is_new.then(|| objects.clone());
            if let Some(snapshot) = snapshot {
                store.snapshots.insert((revision, plural), snapshot);
            }
        }
        let (kind, version) = if metadata_only {
            (
                "PartialObjectMetadataList".to_owned(),
                "meta.k8s.io/v1".to_owned(),
            )
        } else {
            (
                format!("{}List", route.resource.kind),
                route.resource.api_version(),
            )
        };
        let head = format!("{{\"apiVersion\":{version:?},\"items\":[");
        let tail = format!("],\"kind\":{kind:?},\"metadata\":{metadata}}}");
        Ok([head.as_bytes(), &items, tail.as_bytes()].concat().into())
    }
}

/// Writes an object of a list. The object has no `kind` unless only its metadata is listed.
fn write_item(list: &mut Vec<u8>, object: &Value, metadata_only: bool) {
    if metadata_only {
        list.extend_from_slice(&json_of(&metadata_of(object)));
        return;
    }
    let fields = object.as_object().into_iter().flatten();
    let fields = fields.filter(|(key, _)| *key != "kind" && *key != "apiVersion");
    for (number, (key, value)) in fields.enumerate() {
        list.push(if number == 0 { b'{' } else { b',' });
        list.extend_from_slice(format!("{key:?}:").as_bytes());
        list.extend_from_slice(&json_of(value));
    }
    list.push(b'}');
}

impl Continue {
    fn parse(text: &str) -> Answer<Option<Self>> {
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || Failure::bad_request("continue key is not valid");
        let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
        let token = parse(&json)?;
        let field = |name: &str| token[name].as_str().unwrap_or_default().to_owned();
        let revision = token["rv"].as_u64().ok_or_else(wrong)?;
        Ok(Some(Self {
            revision,
            after: (field("namespace"), field("name")),
        }))
    }

    fn text(&self) -> String {
        let token = json!({"rv": self.revision, "namespace": self.after.0, "name": self.after.1});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }
}
