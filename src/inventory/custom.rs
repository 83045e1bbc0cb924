//! Custom resources that name claims, at a path that the user gives with `--references`, or for
//! pvc-expiry with `--expiry-references`.

use super::list::list_as;
use crate::{
    cluster::{DEFAULT_CALL_TIMEOUT, error_message, within},
    objects::AnyObject,
};
use jsonpath_rust::{
    parser::{model::JpQuery, parse_json_path},
    query::js_path_process,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::ApiResource,
    discovery::{Discovery, Scope},
};
use std::{fmt, str::FromStr};

/// Where objects of a kind name claims of their namespace, written as `GROUP/KIND:PATH`.
#[derive(Clone, Debug)]
pub struct ReferencePath {
    group: String,
    kind: String,
    /// The path as the caller wrote it.
    text: String,
    path: JpQuery,
}

/// A custom resource that names claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Referrer {
    /// The namespace of the object and of the claims.
    pub namespace: String,
    /// Kind and name of the custom resource.
    pub what: String,
    /// The names of the claims that the custom resource names.
    pub claims: Vec<String>,
}

impl FromStr for ReferencePath {
    type Err = String;

    /// Parses `postgresql.cnpg.io/Cluster:.status.healthyPVC[*]`. The path is one of RFC 9535,
    /// where `$` may be left out.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            "expected GROUP/KIND:PATH with a JSONPath (RFC 9535), such as \
             postgresql.cnpg.io/Cluster:.status.healthyPVC[*]"
                .to_owned()
        };
        let (kind, path) = text.split_once(':').ok_or_else(expected)?;
        let (group, kind) = kind.split_once('/').ok_or_else(expected)?;
        if group.is_empty() || kind.is_empty() || kind.contains('/') {
            return Err(expected());
        }
        let path = path.strip_prefix('$').unwrap_or(path);
        Ok(Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            text: path.to_owned(),
            path: parse_json_path(&format!("${path}")).map_err(|_| expected())?,
        })
    }
}

impl fmt::Display for ReferencePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.group, self.kind, self.text)
    }
}

impl ReferencePath {
    /// Returns each text that the path selects in the object.
    fn claims(&self, object: &AnyObject) -> Vec<String> {
        // The path is applied to the whole object with its metadata: some operators name claims in
        // annotations.
        let found = js_path_process(&self.path, &object.whole).unwrap_or_default();
        let names = found.into_iter().map(|found| found.val().as_str());
        names.flatten().map(str::to_owned).collect()
    }

    /// Returns the resource of the kind in its preferred version.
    fn resource(&self, discovery: &Discovery) -> Result<ApiResource, &'static str> {
        let group = discovery.get(&self.group);
        let kind = group.and_then(|group| group.recommended_kind(&self.kind));
        match kind {
            None => Err("the API server has no kind of this group and name"),
            Some((_, capabilities)) if capabilities.scope == Scope::Cluster => {
                Err("the kind has no namespace")
            }
            Some((resource, _)) => Ok(resource),
        }
    }
}

/// Returns the objects that name claims, and an error for each path whose objects could not be read
/// or have no text there, or one error if the discovery failed. Finds the kinds by aggregated
/// discovery, and then lists the objects of each path.
pub(super) async fn read(
    client: &Client,
    namespace: Option<&str>,
    paths: &[ReferencePath],
) -> (Vec<Referrer>, Vec<String>) {
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    if paths.is_empty() {
        return (found, errors);
    }
    let groups: Vec<_> = paths.iter().map(|path| &*path.group).collect();
    let discovery = Discovery::new(client.clone()).filter(&groups);
    let discovery = match within(DEFAULT_CALL_TIMEOUT, discovery.run_aggregated()).await {
        Ok(discovery) => discovery,
        Err(error) => {
            let why = error_message(&error);
            errors.push(format!(
                "the kinds of the cluster could not be listed: {why}"
            ));
            return (found, errors);
        }
    };
    for path in paths {
        match referrers(client, namespace, path, &discovery).await {
            Ok(referrers) => found.extend(referrers),
            Err(why) => errors.push(format!("{path}: {why}")),
        }
    }
    (found, errors)
}

async fn referrers(
    client: &Client,
    namespace: Option<&str>,
    path: &ReferencePath,
    discovery: &Discovery,
) -> Result<Vec<Referrer>, String> {
    let resource = path.resource(discovery)?;
    let api: Api<AnyObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let objects = list_as(&api, |object: AnyObject| Referrer {
        namespace: object.namespace().unwrap_or_default(),
        what: format!("{} {}", path.kind, object.name_any()),
        claims: path.claims(&object),
    });
    let mut found = objects.await.map_err(|error| error_message(&error))?;
    let count = found.len();
    found.retain(|each| !each.claims.is_empty());
    if found.is_empty() && count > 0 {
        Err(format!(
            "none of the {count} objects of this kind has a text at this path"
        ))
    } else {
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(path: &str) -> Vec<String> {
        // Rust cannot represent this time, which users can write.
        let managed = json!([{"manager": "a", "time": "9999-12-31T23:59:59Z"}]);
        let object = json!({"metadata": {"name": "main", "annotations": {"disk": "noted"}, "managedFields": managed}, "spec": {
            "claim": "one", "count": 3, "my-disk": "dashed",
            "volumes": [{"claimName": "two"}, {"emptyDir": {}}, {"claimName": "three"}]}});
        let object: AnyObject = serde_json::from_value(object).expect("an object");
        let path: ReferencePath = path.parse().expect("a path");
        path.claims(&object)
    }

    #[test]
    fn a_path_may_select_several_claims() {
        assert_eq!(claims("db.io/Database:.spec.claim"), ["one"]);
        assert_eq!(claims("db.io/Database:$.spec['my-disk']"), ["dashed"]);
        let several = claims("db.io/Database:.spec.volumes[*].claimName");
        assert_eq!(several, ["two", "three"]);
        assert_eq!(
            claims("db.io/Database:.metadata.annotations.disk"),
            ["noted"]
        );
        let other = claims("db.io/Database:.spec['absent', 'count', 'volumes']");
        assert_eq!(other, [""; 0]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for wrong in [
            "",
            "Database:.spec.claim",
            "/Database:.spec.claim",
            "db.io/:.spec.claim",
            "db.io/v1/Database:.spec.claim",
            "db.io/Database",
            "db.io/Database:spec.claim",
            "db.io/Database:.spec.my-disk",
            "db.io/Database:.spec[",
        ] {
            let refused = wrong.parse::<ReferencePath>().err();
            assert!(
                refused.is_some_and(|why| why.contains("GROUP/KIND:PATH")),
                "{wrong}"
            );
        }
        let path: ReferencePath = "db.io/Database:$.spec".parse().expect("a path");
        assert_eq!(path.to_string(), "db.io/Database:.spec");
    }
}
