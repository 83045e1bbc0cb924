//! The lookups of an explanation: each returns what was read, or requests it.

use super::{
    LISTED, LiveReads, Lookup, Readable, Scope, Selection,
    api_call::{self, ApiCall, Fetch, Metadata},
    listed::{Listed, PodOfClaims, UserOfClaims},
};
use crate::{objects::can_exist, why::read::Pod};
use k8s_openapi::NamespaceResourceScope;
use kube::ResourceExt;
use std::{any::TypeId, sync::Arc};

/// Maximum number of objects that [`LiveReads::each`] reads with one GET each. It reads more with
/// one LIST.
const ONE_BY_ONE: usize = 2;

impl LiveReads {
    /// Looks up one object. If it was not read yet, requests it for the next
    /// [`Self::read_requested`]. The namespace is empty for a cluster-scoped kind. A name that no
    /// object can have is absent.
    pub fn get<K: Readable>(&self, namespace: &str, name: &str) -> Lookup<Arc<K>> {
        if !can_exist(namespace, name) {
            return Lookup::Absent;
        }
        if self.lists::<K>() {
            let all = self.listed::<K, K>(namespace, api_call::listed::<K>);
            return all.and_then(|all| all.get(namespace, name).cloned().map(Arc::new));
        }
        self.lookup(ApiCall::new::<K>(namespace, name), api_call::one::<K>)
    }

    /// Looks up these objects of a namespace, in the order of the names: each with a GET, or all
    /// with one LIST if there are many or if [`Self::get`] uses a LIST, too.
    pub fn each<'a, K: Readable>(
        &self,
        namespace: &str,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Vec<Lookup<K>> {
        if names.len() <= ONE_BY_ONE || self.lists::<K>() {
            let read = names.map(|name| self.get(namespace, name).map(Arc::unwrap_or_clone));
            return read.collect();
        }
        let Some(all) = self.list::<K>(namespace, Selection::default()).found() else {
            return names.map(|_| Lookup::Unread).collect();
        };
        let read = names.map(|name| {
            let object = all.iter().find(|object| object.name_any() == name);
            object.cloned().map_or(Lookup::Absent, Lookup::Found)
        });
        read.collect()
    }

    /// Looks up whether an object exists, and requests its metadata if they were not read yet. Its
    /// content is not read. A name that no object can have is absent.
    pub fn metadata<K: Readable>(&self, namespace: &str, name: &str) -> Lookup<Arc<Metadata<K>>> {
        if !can_exist(namespace, name) {
            return Lookup::Absent;
        }
        if self.lists::<K>() {
            let all = self.listed::<K, Metadata<K>>(namespace, api_call::listed_metadata::<K>);
            return all.and_then(|all| all.get(namespace, name).cloned().map(Arc::new));
        }
        let call = ApiCall::new::<K>(namespace, name).returning::<Metadata<K>>();
        self.lookup(call, api_call::metadata::<K>)
    }

    /// Looks up the selected objects of a namespace, or of all namespaces if it is empty, and
    /// requests them if they were not read yet. The selection is ignored if all objects of the
    /// kind are read at once, so a caller has to filter the result.
    pub fn list<K: Readable>(
        &self,
        namespace: &str,
        selection: Selection<'_>,
    ) -> Lookup<Arc<Vec<K>>> {
        let is_namespaced = TypeId::of::<K::Scope>() == TypeId::of::<NamespaceResourceScope>();
        let all_namespaces =
            is_namespaced && namespace.is_empty() && self.scope == Scope::Namespace;
        if self.lists::<K>() && !all_namespaces {
            let all = self.listed::<K, K>(namespace, api_call::listed::<K>);
            return all.map(|all| match namespace {
                "" => all.everywhere(),
                _ => all.in_namespace(namespace),
            });
        }
        let call = ApiCall {
            labels: selection.labels.to_owned(),
            fields: selection.fields.to_owned(),
            ..ApiCall::new::<K>(namespace, "")
        };
        self.lookup(call.returning::<Vec<K>>(), api_call::all::<K>)
    }

    /// Looks up all objects of a kind, in the namespace or, if it is none, in the cluster. The
    /// result has one list for each namespace.
    pub fn every<K: Readable>(&self, namespace: Option<&str>) -> Lookup<Vec<Arc<Vec<K>>>> {
        match namespace {
            Some(namespace) => self
                .list(namespace, Selection::default())
                .map(|all| vec![all]),
            None => {
                let all = self.listed::<K, K>("", api_call::listed::<K>);
                all.map(|all| all.namespaces())
            }
        }
    }

    /// Looks up the pods of a namespace that name the claim, and requests all pods of the namespace
    /// if they were not read yet: the API server cannot select pods by their claims. Few users are
    /// then read by their names, because a LIST of whole pods takes much longer.
    pub fn users(&self, namespace: &str, claim: &str) -> Lookup<Vec<Pod>> {
        if self.lists::<Pod>() {
            let all = self.list::<Pod>(namespace, Selection::default());
            let users = |all: Arc<Vec<Pod>>| {
                let users = all.iter().filter(|pod| pod.trimmed.may_name(claim));
                users.cloned().collect()
            };
            return all.map(users);
        }
        let call = ApiCall::new::<Pod>(namespace, "").returning::<Vec<UserOfClaims>>();
        let all = self.lookup::<Vec<UserOfClaims>>(call, api_call::users_of_claims);
        let Some(all) = all.found() else {
            return Lookup::Unread;
        };
        let users = all.iter().filter(|(_, pod)| pod.may_name(claim));
        let names: Vec<&str> = users.map(|(name, _)| name.as_str()).collect();
        if names.len() > ONE_BY_ONE {
            return self.many_users(namespace, claim);
        }
        let mut users = Vec::new();
        for user in self.each::<Pod>(namespace, names.into_iter()) {
            match user {
                Lookup::Found(pod) if pod.trimmed.may_name(claim) => users.push(pod),
                // The pod was deleted after the LIST, and perhaps created again.
                Lookup::Found(_) | Lookup::Absent => {}
                Lookup::Unread => return Lookup::Unread,
            }
        }
        Lookup::Found(users)
    }

    /// Looks up the pods that name the claim by a LIST of whole pods.
    fn many_users(&self, namespace: &str, claim: &str) -> Lookup<Vec<Pod>> {
        let call = ApiCall::new::<Pod>(namespace, "").returning::<Vec<PodOfClaims>>();
        let about = call.description();
        let all = self.lookup::<Vec<PodOfClaims>>(call, api_call::pods_of_claims::<Pod>);
        let Some(all) = all.found() else {
            return Lookup::Unread;
        };
        let users = all.iter().filter(|pod| pod.names(claim));
        match users.map(PodOfClaims::parse).collect() {
            Ok(users) => Lookup::Found(users),
            Err(error) => {
                let sentence = format!("{about} could not be read: {error}");
                self.unparsed.borrow_mut().insert(sentence);
                Lookup::Unread
            }
        }
    }

    /// Whether all objects of this kind are read at once.
    fn lists<K: Readable>(&self) -> bool {
        let plural = &*K::plural(&());
        match self.scope {
            Scope::Single => false,
            Scope::Namespace => LISTED.contains(&plural),
            Scope::Cluster => LISTED.contains(&plural) || plural == "namespaces",
        }
    }

    /// Looks up all objects of the kind `K`, each parsed as `T`: those of the cluster if the scope
    /// is [`Scope::Cluster`], else those of the namespace.
    fn listed<K: Readable, T: Send + Sync + 'static>(
        &self,
        namespace: &str,
        fetch: Fetch,
    ) -> Lookup<Arc<Listed<T>>> {
        let namespace = match self.scope {
            Scope::Cluster => "",
            Scope::Single | Scope::Namespace => namespace,
        };
        let call = ApiCall::new::<K>(namespace, "").returning::<Listed<T>>();
        self.lookup(call, fetch)
    }

    fn lookup<T: Send + Sync + 'static>(&self, call: ApiCall, fetch: Fetch) -> Lookup<Arc<T>> {
        match self.read.get(&call) {
            Some(Ok(Some(object))) => match object.clone().downcast::<T>() {
                Ok(object) => Lookup::Found(object),
                Err(_) => Lookup::Unread,
            },
            Some(Ok(None)) => Lookup::Absent,
            Some(Err(_)) => Lookup::Unread,
            None => {
                self.requested.borrow_mut().insert(call, fetch);
                Lookup::Unread
            }
        }
    }
}
