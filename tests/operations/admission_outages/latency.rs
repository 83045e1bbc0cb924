//! The latency that an unresponsive webhook adds to a request: computed from the manifests, and
//! compared with docs/operations/webhook-latency.md.
//!
//! The API server calls mutating webhooks in sequence, and validating webhooks in parallel.

use super::{
    fixture::WebhookCalls,
    shipped::{Webhook, shipped},
};
use anyhow::{Context, Result};
use std::collections::BTreeSet;

const DOMAIN: &str = ".volume-warden.dev";
/// A webhook that `kubectl apply -k manifests` does not install.
const OPTIONAL: &str = "bindings.pvc-protection.volume-warden.dev";
/// A webhook for claims with annotations of the binder. If it does not change the claim, a policy
/// refuses the claim before the API server calls a validating webhook.
const BINDER: &str = "claims.pv-releaser.volume-warden.dev";
/// A webhook without match conditions, because a volume may wait for any claim.
const RESERVATIONS: &str = "reservations.pv-releaser.volume-warden.dev";

/// A row of the table in docs/operations/webhook-latency.md.
#[derive(Debug)]
pub struct Cost {
    resources: BTreeSet<String>,
    operation: String,
    webhooks: BTreeSet<String>,
    seconds: i32,
}

impl Cost {
    /// The rows of the table in docs/operations/webhook-latency.md.
    pub fn documented() -> Result<Vec<Self>> {
        let page = include_str!("../../../docs/operations/webhook-latency.md");
        let table = page.split("| added at most |").nth(1).context("a table")?;
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        rows.filter(|row| row.contains('`'))
            .map(Self::parse)
            .collect()
    }

    fn parse(row: &str) -> Result<Self> {
        let columns: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, _, resources, operation, webhooks, seconds, _] = columns[..] else {
            anyhow::bail!("not a row of five columns: {row}");
        };
        let quoted = |text: &str| {
            text.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let webhooks = quoted(webhooks).into_iter();
        let seconds = seconds.strip_suffix(" s").context("seconds")?;
        Ok(Self {
            resources: quoted(resources).into_iter().collect(),
            operation: operation.to_owned(),
            webhooks: webhooks.map(|webhook| webhook + DOMAIN).collect(),
            seconds: seconds.parse()?,
        })
    }

    /// The request and its webhooks, as the API server's audit log shows them.
    pub fn webhook_calls(&self) -> WebhookCalls {
        WebhookCalls {
            resource: self.resources.first().cloned().unwrap_or_default(),
            operation: self.operation.clone(),
            webhooks: self.webhooks.clone(),
        }
    }

    pub fn is_optional(&self) -> bool {
        self.webhooks.contains(OPTIONAL)
    }
}

/// The seconds that these webhooks together add to one request.
fn total_seconds(webhooks: &[&Webhook]) -> i32 {
    let seconds = |mutates: bool| {
        let of_kind = webhooks.iter().filter(move |each| each.mutates == mutates);
        of_kind.map(|each| each.seconds())
    };
    let (in_sequence, in_parallel) = (seconds(true).sum::<i32>(), seconds(false).max());
    in_sequence + in_parallel.unwrap_or(0)
}

/// Whether the API server can call all of these webhooks for one request.
fn can_be_called_together(webhooks: &[&Webhook]) -> bool {
    let mut pairs = webhooks
        .iter()
        .flat_map(|one| webhooks.iter().map(move |other| (one, other)));
    let refused_before =
        |one: &Webhook, other: &Webhook| one.spec.name == BINDER && other.spec.name == RESERVATIONS;
    !pairs.any(|(one, other)| one.excludes(other) || refused_before(one, other))
}

/// The maximum number of seconds that any of these webhooks together add to one request.
fn worst_case_seconds(webhooks: &[&Webhook]) -> i32 {
    let subsets = 0..1_u32 << webhooks.len();
    let costs = subsets.filter_map(|subset| {
        let chosen = webhooks
            .iter()
            .enumerate()
            .filter(|(index, _)| subset >> index & 1 == 1);
        let chosen: Vec<_> = chosen.map(|(_, webhook)| *webhook).collect();
        can_be_called_together(&chosen).then(|| total_seconds(&chosen))
    });
    costs.max().unwrap_or(0)
}

/// For each row of the table, the API server can call all of its webhooks for one request, and they
/// add the stated number of seconds.
#[test]
fn each_row_states_the_latency_of_its_webhooks() -> Result<()> {
    let shipped = shipped()?;
    for cost in Cost::documented()? {
        let named = |name: &String| shipped.iter().find(|webhook| webhook.spec.name == *name);
        let webhooks: Option<Vec<_>> = cost.webhooks.iter().map(named).collect();
        let webhooks = webhooks.with_context(|| format!("no such webhooks: {cost:?}"))?;
        assert_eq!(total_seconds(&webhooks), cost.seconds, "{cost:?}");
        assert!(
            can_be_called_together(&webhooks),
            "the webhooks are never called for one request: {cost:?}"
        );
        for resource in &cost.resources {
            let request = (cost.operation.as_str(), resource.as_str());
            let mut webhooks = webhooks.iter();
            assert!(
                webhooks.all(|each| each.requests().any(|each| each == request)),
                "a webhook is not called for {request:?}: {cost:?}"
            );
        }
    }
    Ok(())
}

/// For each request, the highest latency in docs/operations/webhook-latency.md equals the worst
/// case of the manifests.
#[test]
fn no_request_exceeds_the_documented_latency() -> Result<()> {
    let (documented, shipped) = (Cost::documented()?, shipped()?);
    let requests: BTreeSet<_> = shipped.iter().flat_map(Webhook::requests).collect();
    for request @ (operation, resource) in requests {
        let called = shipped
            .iter()
            .filter(|each| each.requests().any(|each| each == request));
        let rows = documented
            .iter()
            .filter(|cost| cost.resources.contains(resource) && cost.operation == operation);
        let documented = rows.map(|cost| cost.seconds).max();
        let worst = worst_case_seconds(&called.collect::<Vec<_>>());
        assert_eq!(
            documented,
            Some(worst),
            "{operation} of {resource}; left: docs/operations/webhook-latency.md, right: the manifests"
        );
    }
    Ok(())
}

/// README.md states the maximum of the table for the webhooks that are installed by default.
#[test]
fn the_readme_states_the_worst_case() -> Result<()> {
    let documented = Cost::documented()?;
    let installed = documented.iter().filter(|cost| !cost.is_optional());
    let worst = installed.map(|cost| cost.seconds).max();
    let worst = format!("and {} s at most", worst.context("no rows")?);
    let readme = include_str!("../../../README.md");
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    anyhow::ensure!(readme.contains(&worst), "README does not state: {worst}");
    Ok(())
}

/// No webhook fails closed or is called for requests that Volume Warden does not handle, and pods
/// in `kube-system` and in the namespace of Volume Warden are excluded.
#[test]
fn no_webhook_can_brick_a_cluster() -> Result<()> {
    let handled = [
        ("CREATE", "persistentvolumeclaims"),
        ("UPDATE", "persistentvolumeclaims"),
        ("DELETE", "persistentvolumeclaims"),
        ("CREATE", "persistentvolumes"),
        ("DELETE", "persistentvolumes"),
        ("UPDATE", "persistentvolumes"),
        ("UPDATE", "persistentvolumes/status"),
        ("CREATE", "pods"),
        ("CREATE", "pods/binding"),
        ("CREATE", "bindings"),
    ];
    for webhook in shipped()? {
        let (spec, name) = (&webhook.spec, &webhook.spec.name);
        assert_eq!(spec.failure_policy.as_deref(), Some("Ignore"), "{name}");
        assert!(webhook.seconds() <= 2, "{name}");
        assert!(
            ["None", "NoneOnDryRun"].contains(&&*spec.side_effects),
            "{name}"
        );
        assert!(
            webhook.requests().all(|each| handled.contains(&each)),
            "{name}"
        );
        if webhook
            .requests()
            .any(|(_, resource)| resource.starts_with("pods"))
        {
            assert_eq!(
                webhook.excluded_namespaces(),
                ["kube-system", "volume-warden"],
                "{name}"
            );
        }
        let always = spec.match_conditions.as_ref().is_none_or(Vec::is_empty);
        assert!(
            !always || [OPTIONAL, RESERVATIONS].contains(&name.as_str()),
            "{name} has no match conditions"
        );
    }
    Ok(())
}
