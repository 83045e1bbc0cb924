//! The target object and the operation of a request.

use crate::resources::{RESOURCES, Resource};
use std::collections::BTreeMap;

/// The target of a request.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) resource: &'static Resource,
    /// The namespace; empty for cluster-scoped kinds and for all namespaces.
    pub(crate) namespace: String,
    /// The name; empty for a collection.
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: BTreeMap<String, String>,
}

impl Route {
    /// Parses the path and the query; `None` if there is no such resource.
    pub(crate) fn parse(uri: &http::Uri) -> Option<Self> {
        let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
        let (group, version) = match parts.next()? {
            "api" => ("", parts.next()?),
            "apis" => (parts.next()?, parts.next()?),
            _ => return None,
        };
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        // `/namespaces/x/pods` is in a namespace, `/namespaces/x/status` is about the namespace.
        if let ["namespaces", within, plural, ..] = rest[..]
            && !matches!(plural, "status" | "finalize")
        {
            namespace = within;
            rest.drain(..2);
        }
        let plural = *rest.first()?;
        let of = |each: &&Resource| {
            each.group == group && each.version == version && each.plural == plural
        };
        let resource = RESOURCES.iter().find(of)?;
        if rest.get(2) == Some(&"status") && !resource.status {
            return None;
        }
        Some(Self {
            resource,
            namespace: namespace.to_owned(),
            name: rest.get(1).unwrap_or(&"").to_string(),
            subresource: rest.get(2).unwrap_or(&"").to_string(),
            query: query(uri.query().unwrap_or_default()),
        })
    }

    /// The key of the object in etcd, which some answers quote.
    pub(crate) fn key(&self) -> String {
        let parts = [self.resource.plural, &self.namespace, &self.name];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.fold("/registry".to_owned(), |key, part| key + "/" + part)
    }

    /// A parameter of the query, or an empty text.
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }

    /// Whether the parameter is true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        matches!(self.parameter(name), "true" | "1")
    }

    /// The namespace to read: `None` means all.
    pub(crate) fn scope(&self) -> Option<&str> {
        (!self.namespace.is_empty()).then_some(&*self.namespace)
    }
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(value))
        })
        .collect()
}

/// Replaces `+` and percent escapes.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let number = std::str::from_utf8(&digits)
                    .ok()
                    .and_then(|hex| u8::from_str_radix(hex, 16).ok());
                number.unwrap_or(b'%')
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
