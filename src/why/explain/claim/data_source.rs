//! Claims whose volume is created by the controller of their data source: a volume populator.
//!
//! Source: `prepareProvision` in `pkg/controller/controller.go` of the external-provisioner, which
//! creates no volume for a data source of a kind that it does not know.

use crate::{
    objects::is_subdomain,
    why::{Cause, Code, Evidence, Object, explain::quote, read::PersistentVolumeClaim},
};

/// The kinds of data sources from which the provisioner itself creates a volume.
const OF_THE_PROVISIONER: [&str; 2] = ["VolumeSnapshot", "PersistentVolumeClaim"];

/// The object from which the volume of a claim is created.
pub(super) struct DataSource<'a> {
    /// The field of the claim that names the object.
    field: &'static str,
    group: &'a str,
    kind: &'a str,
    name: &'a str,
    /// None if the object is in the namespace of the claim.
    namespace: Option<&'a str>,
}

impl<'a> DataSource<'a> {
    /// The data source of the claim, if a volume populator creates the volume from it. None if the
    /// claim has no data source, or one from which the provisioner creates the volume.
    pub(super) fn populated(claim: &'a PersistentVolumeClaim) -> Option<Self> {
        let source = Self::of(claim)?;
        (!OF_THE_PROVISIONER.contains(&source.kind)).then_some(source)
    }

    fn of(claim: &'a PersistentVolumeClaim) -> Option<Self> {
        let spec = claim.spec.as_ref()?;
        if let Some(source) = &spec.data_source_ref {
            return Some(Self {
                field: "spec.dataSourceRef",
                group: source.api_group.as_deref().unwrap_or_default(),
                kind: &source.kind,
                name: &source.name,
                namespace: source.namespace.as_deref().filter(|name| !name.is_empty()),
            });
        }
        let source = spec.data_source.as_ref()?;
        Some(Self {
            field: "spec.dataSource",
            group: source.api_group.as_deref().unwrap_or_default(),
            kind: &source.kind,
            name: &source.name,
            namespace: None,
        })
    }

    /// The cause that the controller of the data source has not created the volume of the claim.
    pub(super) fn cause(&self, object: &Object, provisioner: &str) -> Cause {
        let [kind, name] = [self.kind, self.name].map(quote::name);
        let place = self.namespace.map(quote::name);
        let place = place.map(|of| format!(" in the namespace {of}"));
        let sentence = format!(
            "The claim waits until its volume is created from {kind} {name}{}. The controller of that kind creates the volume; the provisioner \
             {provisioner} creates none from such a data source.",
            place.unwrap_or_default()
        );
        let evidence = Evidence::new(object.to_string(), self.field);
        let cause = Cause::new(Code::ProvisionerSilent, sentence, evidence);
        match self.show(object.namespace_name()) {
            Some(command) => cause.run(
                command,
                "to see whether that object exists and what its controller reports; then check that the controller is installed and runs",
            ),
            None => cause.run(
                object.describe(),
                "to see the Events of that controller; then check that it is installed and runs",
            ),
        }
    }

    /// The command that shows the object. None if one of its words is not a name: the API server
    /// does not check them, so in a command they could be run by the shell.
    fn show(&self, namespace: &str) -> Option<String> {
        let Self {
            group, kind, name, ..
        } = *self;
        let namespace = self.namespace.unwrap_or(namespace);
        let lower = kind.to_ascii_lowercase();
        let words = [lower.as_str(), group, name, namespace];
        let safe = words.into_iter().all(is_subdomain);
        safe.then(|| format!("kubectl get {kind}.{group} {name} -n {namespace} -o yaml"))
    }
}
