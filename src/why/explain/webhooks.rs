//! Finds out whether the API server can reach and trust the webhook that writes on new objects.

use super::controllers::list_replicas_command;
use crate::why::{Cause, Code, Evidence, LiveReads, Lookup, Object, Selection};
use k8s_openapi::api::{
    admissionregistration::v1::{MutatingWebhookConfiguration, WebhookClientConfig},
    discovery::v1::EndpointSlice,
};
use kube::ResourceExt;
use x509_parser::pem::Pem;

/// Why an object lacks what the webhook of this configuration writes; none if the configuration is
/// not installed or not read, or if no fault is found.
pub(super) fn cause(reads: &LiveReads, configuration: &str) -> Option<Cause> {
    let Lookup::Found(found) = reads.get::<MutatingWebhookConfiguration>("", configuration) else {
        return None;
    };
    let called = &found.webhooks.as_ref()?.first()?.client_config;
    down(reads, called).or_else(|| mistrusted(reads, &found.name_any(), called))
}

/// The cause that the Service of the webhook has no ready endpoint; none if it has one, if its
/// EndpointSlices could not be read, or if the webhook has no Service.
fn down(reads: &LiveReads, called: &WebhookClientConfig) -> Option<Cause> {
    let service = called.service.as_ref()?;
    let labels = format!("kubernetes.io/service-name={}", service.name);
    let selection = Selection {
        labels: &labels,
        fields: "",
    };
    let slices = reads
        .list::<EndpointSlice>(&service.namespace, selection)
        .found()?;
    let mut endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter());
    let is_ready = |ready: Option<bool>| ready != Some(false);
    if endpoints.any(|endpoint| is_ready(endpoint.conditions.as_ref().and_then(|each| each.ready)))
    {
        return None;
    }
    let object = Object::new("Service", "service", &service.namespace, &service.name);
    let sentence = "The object lacks what Volume Warden's webhook adds, and no replica of Volume Warden is ready.";
    let evidence = Evidence::new(object.to_string(), "endpoints");
    Some(Cause::new(Code::WebhookDown, sentence, evidence).run(
        list_replicas_command(&service.namespace),
        "to see why no replica is ready; a running replica repairs the object",
    ))
}

/// The cause that the webhook configuration has no CA certificate, or only expired ones; none if
/// one has not expired.
fn mistrusted(
    reads: &LiveReads,
    configuration: &str,
    called: &WebhookClientConfig,
) -> Option<Cause> {
    let bundle = called.ca_bundle.as_ref().map(|bundle| bundle.0.as_slice());
    let now = reads.now.as_second();
    let certificates = Pem::iter_from_buffer(bundle.unwrap_or_default()).flatten();
    let mut last = None;
    for pem in certificates {
        let Ok(certificate) = pem.parse_x509() else {
            continue;
        };
        last = last.max(Some(certificate.validity().not_after.timestamp()));
    }
    let what = match last {
        Some(until) if until > now => return None,
        Some(_) => "the CA certificate in the webhook configuration has expired",
        None => "the webhook configuration has no CA certificate",
    };
    let object = Object::new(
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfiguration",
        "",
        configuration,
    );
    let sentence = format!(
        "The object lacks what Volume Warden's webhook adds, and the API server does not trust the webhook: {what}."
    );
    let since = last.and_then(|until| k8s_openapi::jiff::Timestamp::from_second(until).ok());
    let evidence =
        Evidence::new(object.to_string(), "webhooks[0].clientConfig.caBundle").since(since);
    let namespace = called
        .service
        .as_ref()
        .map_or("volume-warden", |service| &service.namespace);
    Some(Cause::new(Code::CertificateWrong, sentence, evidence).run(
        format!("kubectl get events -n {namespace} --field-selector reason=CertificateNotRenewed"),
        "to see which certificate was not renewed; Volume Warden publishes its own CA again once it runs, and cert-manager renews a certificate of cert-manager",
    ))
}
