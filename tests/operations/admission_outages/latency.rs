//! The latency that an unresponsive webhook adds to a request: computed from the manifests, and
//! compared with docs/operations/webhook-latency.md.
//!
//! The API server calls mutating webhooks in sequence, and validating webhooks in parallel.

use super::{
    fixture::Asked,
    shipped::{Webhook, shipped},
};
use anyhow::{Context, Result};
use std::collections::BTreeSet;

const DOMAIN: &str = ".volume-warden.dev";
/// A webhook that `kubectl apply -k manifests` does not install.
const OPTIONAL: &str = "bindings.pvc-protection.volume-warden.dev";
/// A claim that this webhook is called for, and does not change, is refused by a policy, before any
/// validating webhook is called.
const BINDER: &str = "claims.pv-releaser.volume-warden.dev";
/// A volume may wait for a claim of any kind.
const RESERVATIONS: &str = "reservations.pv-releaser.volume-warden.dev";

/// A row of docs/operations/webhook-latency.md's table.
#[derive(Debug)]
pub struct Cost {
    resources: BTreeSet<String>,
    operation: String,
    webhooks: BTreeSet<String>,
    seconds: i32,
}

impl Cost {
    /// The rows of docs/operations/webhook-latency.md's table.
    pub fn documented() -> Result<Vec<Self>> {
        let page = include_str!("../../../docs/operations/webhook-latency.md");
        let table = page.split("| added at most |").nth(1).context("a table")?;
        let rows = table
            .lines()
            .skip(2)
            .take_while(|line| line.starts_with('|'));
        rows.filter(|row| row.contains('`'))
            .map(Self::read)
            .collect()
    }

    fn read(row: &str) -> Result<Self> {
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

    /// The request as the API server's audit log shows it.
    pub fn asked(&self) -> Asked {
        Asked {
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
fn together(webhooks: &[&Webhook]) -> i32 {
    let seconds = |mutates: bool| {
        let of_these = webhooks.iter().filter(move |each| each.mutates == mutates);
        of_these.map(|each| each.seconds())
    };
    let (one_by_one, side_by_side) = (seconds(true).sum::<i32>(), seconds(false).max());
    one_by_one + side_by_side.unwrap_or(0)
}

/// Whether one request can be sent to all of these webhooks.
fn possible(webhooks: &[&Webhook]) -> bool {
    let mut pairs = webhooks
        .iter()
        .flat_map(|one| webhooks.iter().map(move |other| (one, other)));
    let refused =
        |one: &Webhook, other: &Webhook| one.spec.name == BINDER && other.spec.name == RESERVATIONS;
    !pairs.any(|(one, other)| one.excludes(other) || refused(one, other))
}

/// The most seconds that webhooks for the same request add together.
fn worst(webhooks: &[&Webhook]) -> i32 {
    let subsets = 0..1_u32 << webhooks.len();
    let costs = subsets.filter_map(|subset| {
        let chosen = webhooks
            .iter()
            .enumerate()
            .filter(|(index, _)| subset >> index & 1 == 1);
        let chosen: Vec<_> = chosen.map(|(_, webhook)| *webhook).collect();
        possible(&chosen).then(|| together(&chosen))
    });
    costs.max().unwrap_or(0)
}

/// For each row, one request can be sent to all of its webhooks, and they add that many seconds.
#[test]
fn each_row_is_what_its_webhooks_add() -> Result<()> {
    let shipped = shipped()?;
    for cost in Cost::documented()? {
        let named = |name: &String| shipped.iter().find(|webhook| webhook.spec.name == *name);
        let webhooks: Option<Vec<_>> = cost.webhooks.iter().map(named).collect();
        let webhooks = webhooks.with_context(|| format!("no such webhooks: {cost:?}"))?;
        assert_eq!(together(&webhooks), cost.seconds, "{cost:?}");
        assert!(
            possible(&webhooks),
            "never called for one request: {cost:?}"
        );
        for resource in &cost.resources {
            let request = (cost.operation.as_str(), resource.as_str());
            let mut webhooks = webhooks.iter();
            assert!(
                webhooks.all(|each| each.requests().any(|each| each == request)),
                "{cost:?}"
            );
        }
    }
    Ok(())
}

/// For each request, the worst row of docs/operations/webhook-latency.md equals the worst case of
/// the manifests.
#[test]
fn no_request_exceeds_the_documented_latency() -> Result<()> {
    let (documented, shipped) = (Cost::documented()?, shipped()?);
    let requests: BTreeSet<_> = shipped.iter().flat_map(Webhook::requests).collect();
    for request @ (operation, resource) in requests {
        let asked = shipped
            .iter()
            .filter(|each| each.requests().any(|each| each == request));
        let rows = documented
            .iter()
            .filter(|cost| cost.resources.contains(resource) && cost.operation == operation);
        let documented = rows.map(|cost| cost.seconds).max();
        let worst = worst(&asked.collect::<Vec<_>>());
        assert_eq!(
            documented,
            Some(worst),
            "{operation} of {resource}; left: docs/operations/webhook-latency.md, right: the manifests"
        );
    }
    Ok(())
}

/// The maximum of the table, with the webhooks that are installed by default.
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

/// No webhook fails closed, none is called for requests outside of its purpose, and pods that the
/// cluster needs are excluded.
#[test]
fn no_webhook_can_brick_a_cluster() -> Result<()> {
    let affairs = [
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
            webhook.requests().all(|each| affairs.contains(&each)),
            "{name}"
        );
        if webhook
            .requests()
            .any(|(_, resource)| resource.starts_with("pods"))
        {
            assert_eq!(webhook.spared(), ["kube-system", "volume-warden"], "{name}");
        }
        let always = spec.match_conditions.as_ref().is_none_or(Vec::is_empty);
        assert!(
            !always || [OPTIONAL, RESERVATIONS].contains(&name.as_str()),
            "{name} is called for everything"
        );
    }
    Ok(())
}
