//! POST requests.

use crate::{
    review::Write,
    route::Route,
    server::{ApiServer, User},
    status::{Answer, Failure},
    store::Store,
    strategy::{defaults, protect, tidy, validate},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A creation: the object, its place and the user.
pub(crate) struct Creation<'a> {
    pub(crate) user: &'a User,
    pub(crate) route: &'a Route,
    pub(crate) warnings: &'a mut Vec<String>,
}

impl ApiServer {
    pub(crate) async fn create(&self, creation: Creation<'_>, object: Value) -> Answer<Arc<Value>> {
        let Creation {
            user,
            route,
            warnings,
        } = creation;
        match route.subresource.as_str() {
            "" => {}
            "binding" => return self.bind(user, route, object, warnings).await,
            _ => return Err(Failure::method_not_allowed()),
        }
        let resource = route.resource;
        let mut object = self.completed(route, object)?;
        if self.parts.settings.in_tree_protection {
            protect(resource, &mut object);
        }
        let write = Write {
            user,
            route,
            operation: "CREATE",
            old: None,
        };
        let (mut object, _) = self.mutated(&write, object, warnings).await?;
        self.identify(&mut object);
        tidy(&mut object["metadata"]);
        validate(self.parts.settings.version, resource, &object)?;
        self.validated(&write, Some(&object), warnings).await?;
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut store = self.store();
        if let Some(present) = store.get(resource, &route.namespace, &name) {
            let deleting = !present["metadata"]["deletionTimestamp"].is_null();
            return Err(Failure::already_exists(resource, &name, deleting));
        }
        check_namespace(&store, route, &name)?;
        if route.parameter("dryRun") == "All" {
            return Ok(Arc::new(object));
        }
        Ok(store.commit(resource, &user.name, None, object, false))
    }

    /// The new object with what the API server sets before admission. Webhooks see neither a
    /// generated name nor a uid.
    ///
    /// Source: `createHandler` of `k8s.io/apiserver/pkg/endpoints/handlers/create.go`.
    fn completed(&self, route: &Route, mut object: Value) -> Answer<Value> {
        let resource = route.resource;
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let text = |object: &Value, field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        if !resource.namespaced {
            object["metadata"]["namespace"] = Value::Null;
        }
        let namespace = text(&object, "namespace");
        if !namespace.is_empty() && namespace != route.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let store = self.store();
        let name = text(&object, "name");
        if name.is_empty() && text(&object, "generateName").is_empty() {
            let detail = "Required value: name or generateName is required";
            return Err(Failure::invalid(resource, "", "metadata.name", detail));
        }
        check_namespace(&store, route, &name)?;
        let dry = route.parameter("dryRun") == "All";
        if !dry && !text(&object, "resourceVersion").is_empty() {
            return Err(Failure::version_of_a_new_object());
        }
        drop(store);
        let metadata = &mut object["metadata"];
        for field in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "generation",
        ] {
            metadata[field] = Value::Null;
        }
        if resource.namespaced {
            metadata["namespace"] = route.namespace.as_str().into();
        }
        if resource.has_generation() {
            metadata["generation"] = 1.into();
        }
        object["kind"] = resource.kind.into();
        object["apiVersion"] = resource.api_version().into();
        defaults(resource, &mut object, &self.now());
        tidy(&mut object["metadata"]);
        Ok(object)
    }

    /// Sets the name, the uid and the creation time of a new object.
    ///
    /// Source: `BeforeCreate` of `k8s.io/apiserver/pkg/registry/rest/create.go`.
    fn identify(&self, object: &mut Value) {
        let mut store = self.store();
        let metadata = &mut object["metadata"];
        if metadata["name"].as_str().unwrap_or_default().is_empty() {
            let prefix = metadata["generateName"].as_str().unwrap_or_default();
            metadata["name"] = format!("{prefix}{}", store.suffix()).into();
        }
        metadata["uid"] = store.uid().into();
        metadata["creationTimestamp"] = self.now().into();
    }

    /// Binds a pod to a node.
    ///
    /// Source: `pkg/registry/core/pod/storage/storage.go` (`BindingREST`).
    async fn bind(
        &self,
        user: &User,
        route: &Route,
        mut binding: Value,
        warnings: &mut Vec<String>,
    ) -> Answer<Arc<Value>> {
        let resource = route.resource;
        binding["metadata"]["name"] = route.name.as_str().into();
        binding["metadata"]["namespace"] = route.namespace.as_str().into();
        let write = Write {
            user,
            route,
            operation: "CREATE",
            old: None,
        };
        let (binding, _) = self.mutated(&write, binding, warnings).await?;
        self.validated(&write, Some(&binding), warnings).await?;
        let mut store = self.store();
        let found = store.get(resource, &route.namespace, &route.name).cloned();
        let pod = found.ok_or_else(|| Failure::not_found(resource, &route.name))?;
        let conflict = |why: &str| Err(Failure::binding(&route.name, why));
        let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
        if !uid.is_empty() && pod["metadata"]["uid"] != uid {
            return conflict("the UID in the precondition does not match the UID in record");
        }
        if !pod["metadata"]["deletionTimestamp"].is_null() {
            return conflict(&format!(
                "pod {} is being deleted, cannot be assigned to a host",
                route.name
            ));
        }
        if let Some(node) = pod["spec"]["nodeName"].as_str() {
            return conflict(&format!(
                "pod {} is already assigned to node {node:?}",
                route.name
            ));
        }
        let mut bound = (*pod).clone();
        bound["spec"]["nodeName"] = binding["target"]["name"].clone();
        store.commit(resource, &user.name, Some(pod), bound, false);
        Ok(Arc::new(
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
        ))
    }
}

/// The namespace of a new object has to exist, and must not be terminating.
fn check_namespace(store: &Store, route: &Route, name: &str) -> Answer<()> {
    let (Some(namespaces), true) = (
        crate::store::resource("namespaces"),
        route.resource.namespaced,
    ) else {
        return Ok(());
    };
    let Some(namespace) = store.get(namespaces, "", &route.namespace) else {
        return Err(Failure::not_found(namespaces, &route.namespace));
    };
    if namespace["metadata"]["deletionTimestamp"].is_null() {
        Ok(())
    } else {
        Err(Failure::terminating(route.resource, name, &route.namespace))
    }
}
