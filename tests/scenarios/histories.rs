//! Random histories: claims and pods come and go while Volume Warden is killed, paused, refused, cut off and notified late. At no moment
//! is a claim gone that a pod uses, and in the end none is left that is deleted and unused.
//!
//! A history is made from its number alone. `VOLUME_WARDEN_SOAK=1` plays more and longer ones.

use crate::support::{BINARY, Space, bare, on_node};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use volume_warden_controlplane::{Interposer, Rule, RuleHandle, Warden, eventually};

#[tokio::test]
async fn no_history_loses_a_used_claim_or_leaves_an_unused_one() -> Result<()> {
    let soak = std::env::var_os("VOLUME_WARDEN_SOAK").is_some();
    let (histories, steps) = if soak { (40, 200) } else { (3, 40) };
    for number in 1..=histories {
        play(number, steps)
            .await
            .with_context(|| format!("history {number} of {steps} steps"))?;
    }
    Ok(())
}

async fn play(number: u64, steps: usize) -> Result<()> {
    let mut history = History::new(number).await?;
    for step in 0..steps {
        history
            .step()
            .await
            .with_context(|| format!("step {step}"))?;
        history
            .used_claims_are_there()
            .await
            .with_context(|| format!("after step {step}"))?;
    }
    history.end().await
}

/// The objects, as far as the user knows.
struct History {
    random: fastrand::Rng,
    space: Space,
    between: Interposer,
    warden: Option<Warden>,
    faults: Vec<RuleHandle>,
    /// Claims with the pods that use them; deleted ones are marked.
    claims: BTreeMap<String, Model>,
    count: usize,
}

#[derive(Default)]
struct Model {
    deleted: bool,
    pods: BTreeSet<String>,
}

impl History {
    async fn new(number: u64) -> Result<Self> {
        let cluster = bare().await?;
        let space = Space::new(cluster, "history").await?;
        let kubeconfig = cluster
            .service_account_kubeconfig("volume-warden", "volume-warden", None)
            .await?;
        let between = Interposer::start(cluster, kubeconfig)?;
        let mut history = Self {
            random: fastrand::Rng::with_seed(number),
            space,
            between,
            warden: None,
            faults: Vec::new(),
            claims: BTreeMap::new(),
            count: 0,
        };
        history.start_warden().await?;
        Ok(history)
    }

    /// Always of one identity, so that no start has to wait for a Lease to expire.
    async fn start_warden(&mut self) -> Result<()> {
        let name = &self.space.name;
        let builder = Warden::builder(self.space.cluster, BINARY)
            .name(format!("warden-{name}"))
            .kubeconfig(self.between.kubeconfig());
        let builder = builder
            .arg(format!("--namespace={name}"))
            .arg(format!("--leader-elect-resource-name={name}"));
        self.warden = Some(
            builder
                .arg("--leader-elect-identity=history")
                .arg("--components=pvc-protection")
                .start()
                .await?,
        );
        Ok(())
    }

    async fn step(&mut self) -> Result<()> {
        match self.random.u8(0..16) {
            0..=3 => self.create_claim().await,
            4..=7 => self.create_pod().await,
            8..=10 => self.delete_claim().await,
            11..=12 => self.delete_pod().await,
            13 => self.kill_or_start().await,
            14 => self.break_something(),
            _ => {
                self.faults.clear();
                Ok(())
            }
        }
    }

    async fn create_claim(&mut self) -> Result<()> {
        self.count += 1;
        let name = format!("claim-{}", self.count);
        // With the finalizer: without it a deletion takes the claim at once, which no controller can prevent.
        let claim = crate::support::claim(
            &name,
            serde_json::json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}),
        )?;
        self.space
            .claims
            .create(&Default::default(), &claim)
            .await?;
        self.claims.insert(name, Model::default());
        Ok(())
    }

    /// Only onto a claim that is not deleted: the scheduler and the guard see to that.
    async fn create_pod(&mut self) -> Result<()> {
        let Some(claim) = self.choose(|model| !model.deleted) else {
            return Ok(());
        };
        self.count += 1;
        let pod = format!("pod-{}", self.count);
        self.space.create_pod(&pod, &claim, on_node()).await?;
        self.claims.entry(claim).or_default().pods.insert(pod);
        Ok(())
    }

    async fn delete_claim(&mut self) -> Result<()> {
        let Some(claim) = self.choose(|model| !model.deleted) else {
            return Ok(());
        };
        self.space.delete_claim(&claim).await?;
        self.claims.entry(claim).or_default().deleted = true;
        Ok(())
    }

    async fn delete_pod(&mut self) -> Result<()> {
        let Some(claim) = self.choose(|model| !model.pods.is_empty()) else {
            return Ok(());
        };
        let pod = self
            .claims
            .entry(claim)
            .or_default()
            .pods
            .pop_first()
            .context("a pod")?;
        self.space.delete_pod(&pod).await
    }

    async fn kill_or_start(&mut self) -> Result<()> {
        match self.warden.take() {
            Some(warden) => warden.process().kill().map(drop),
            None => {
                self.faults.clear();
                self.start_warden().await
            }
        }
    }

    fn break_something(&mut self) -> Result<()> {
        let pods = || Rule::on("GET").path_contains("/pods");
        let fault = match self.random.u8(0..5) {
            0 => pods().query_contains("watch=true").freeze_stream(),
            1 => pods().query_contains("limit=").times(3).respond(
                500,
                "InternalError",
                "no pods today",
            ),
            2 => pods().cut(),
            3 => Rule::on("PATCH")
                .times(3)
                .respond(409, "Conflict", "another write was first"),
            _ => Rule::on("PATCH").times(3).cut(),
        };
        self.faults.push(self.between.add(fault));
        Ok(())
    }

    fn choose(&mut self, fits: impl Fn(&Model) -> bool) -> Option<String> {
        let names: Vec<_> = self
            .claims
            .iter()
            .filter(|(_, model)| fits(model))
            .map(|(name, _)| name.clone())
            .collect();
        self.random.choice(names)
    }

    async fn used_claims_are_there(&self) -> Result<()> {
        let there = self.there().await?;
        let lost = self.claims.iter().filter(|(name, model)| {
            (!model.pods.is_empty() || !model.deleted) && !there.contains(*name)
        });
        let lost: Vec<_> = lost
            .map(|(name, model)| format!("{name} of {:?}", model.pods))
            .collect();
        ensure!(lost.is_empty(), "lost: {lost:?}");
        Ok(())
    }

    async fn there(&self) -> Result<BTreeSet<String>> {
        let claims = self.space.claims.list_metadata(&Default::default()).await?;
        Ok(claims
            .items
            .into_iter()
            .filter_map(|claim| claim.metadata.name)
            .collect())
    }

    /// All faults gone and Volume Warden running: what may go goes, and nothing else.
    async fn end(mut self) -> Result<()> {
        self.faults.clear();
        if self.warden.is_none() {
            self.start_warden().await?;
        }
        eventually("no deleted and unused claim is left", async || {
            let there = self.there().await?;
            let left = self.claims.iter().filter(|(name, model)| {
                model.deleted && model.pods.is_empty() && there.contains(*name)
            });
            let left: Vec<_> = left.map(|(name, _)| name).collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await?;
        self.used_claims_are_there().await
    }
}
