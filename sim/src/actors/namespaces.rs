//! The namespace controller: empties a namespace that is deleted, then removes it.

use super::{Call, Controller};
use crate::{
    cluster::Cluster,
    json::{is_deleting, name, namespace, uid},
    view::View,
};
use serde_json::Value;

/// The namespace controller.
pub struct Namespaces;

const CONTENT: [(&str, &str); 4] = [
    ("statefulsets", "/apis/apps/v1"),
    ("pods", "/api/v1"),
    ("persistentvolumeclaims", "/api/v1"),
    ("configmaps", "/api/v1"),
];

impl Controller for Namespaces {
    const NAME: &'static str = "namespace-controller";
    const USER: &'static str = "system:serviceaccount:kube-system:namespace-controller";
    const KINDS: &'static [&'static str] = &[
        "namespaces",
        CONTENT[0].0,
        CONTENT[1].0,
        CONTENT[2].0,
        CONTENT[3].0,
    ];

    fn act(&mut self, view: &View, live: &Cluster, _: u64) -> Vec<Call> {
        let terminating = view.all("namespaces").filter(|each| is_deleting(each));
        terminating
            .flat_map(|each| empty(view, live, each))
            .collect()
    }
}

fn empty(view: &View, live: &Cluster, terminating: &Value) -> Vec<Call> {
    let own = name(terminating);
    let content = CONTENT
        .iter()
        .flat_map(|kind| view.all(kind.0).map(move |object| (kind, object)));
    let content = content.filter(|(_, object)| namespace(object) == own && !is_deleting(object));
    let calls: Vec<Call> = content
        .map(|((plural, base), object)| {
            Call::delete(
                format!("{base}/namespaces/{own}/{plural}/{}", name(object)),
                uid(object),
            )
        })
        .collect();
    if !calls.is_empty()
        || CONTENT
            .iter()
            .any(|kind| !live.server.list(kind.0, Some(own)).is_empty())
    {
        return calls;
    }
    let mut last = terminating.clone();
    last["spec"]["finalizers"] = Value::Array(Vec::new());
    vec![Call::replace(
        format!("/api/v1/namespaces/{own}/finalize"),
        last,
    )]
}
