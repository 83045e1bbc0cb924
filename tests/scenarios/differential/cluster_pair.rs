//! The two clusters of a scenario; performs and checks each step on both.

use super::{
    projection::{Projection, report},
    scenario::{Lines, Step},
    side::Side,
};
use crate::support::{guarded, in_tree};
use anyhow::{Context, Result, ensure};
use futures::future::try_join;
use std::collections::BTreeSet;
use volume_warden_controlplane::eventually;

/// The two clusters, a namespace on each.
pub struct ClusterPair {
    in_tree: Side,
    warden: Side,
}

impl ClusterPair {
    pub async fn new(name: &str) -> Result<Self> {
        let (in_tree, warden) =
            try_join(async { Side::new(in_tree().await?, name).await }, async {
                Side::new(guarded().await?, name).await
            })
            .await?;
        Ok(Self { in_tree, warden })
    }

    pub async fn perform(&self, step: &Step) -> Result<()> {
        match step {
            Step::Expect(lines) => self.reaches(&projection(lines), &projection(lines)).await,
            Step::Stays(lines) => self.stays(&projection(lines), &projection(lines)).await,
            Step::StaysAsModelled(lines) => self.stays(lines, lines).await,
            Step::OnlyWardenRefuses(difference, write) => self
                .only_warden_refuses(write)
                .await
                .context(difference.reason()),
            Step::OnlyWardenPublishes(difference, reason, claim) => self
                .only_warden_publishes(reason, claim)
                .await
                .context(difference.reason()),
            Step::DiffersAtCreation {
                difference,
                claim,
                in_tree,
                warden,
            } => self
                .differs_at_creation(claim, in_tree, warden)
                .await
                .context(difference.reason()),
            Step::Differ {
                difference,
                in_tree,
                warden,
            } => self
                .stays(&projection(in_tree), &projection(warden))
                .await
                .context(difference.reason()),
            operation => self.both(async |side| side.perform(operation).await).await,
        }
    }

    async fn both(&self, act: impl AsyncFn(&Side) -> Result<()>) -> Result<()> {
        let in_tree = async { act(&self.in_tree).await.context("in-tree") };
        let warden = async { act(&self.warden).await.context("Volume Warden") };
        try_join(in_tree, warden).await.map(drop)
    }

    async fn reaches(&self, in_tree: &Projection, warden: &Projection) -> Result<()> {
        eventually("both clusters reach the wanted state", async || {
            self.is(in_tree, warden).await
        })
        .await
    }

    async fn stays(&self, in_tree: &Projection, warden: &Projection) -> Result<()> {
        self.reaches(in_tree, warden).await?;
        self.both(Side::canaries).await?;
        self.is(in_tree, warden)
            .await
            .context("the wanted state was reached but not kept")
    }

    async fn is(&self, in_tree: &Projection, warden: &Projection) -> Result<()> {
        let found = try_join(self.in_tree.projection(), self.warden.projection()).await?;
        ensure!(
            (&found.0, &found.1) == (in_tree, warden),
            "{}{}",
            report("in-tree", in_tree, &found.0),
            report("Volume Warden", warden, &found.1)
        );
        Ok(())
    }

    async fn only_warden_refuses(&self, write: &str) -> Result<()> {
        eventually(&format!("Volume Warden refuses to {write}"), async || {
            let refusals = self.warden.refusals()?;
            ensure!(refusals.contains(write), "refused so far: {refusals:?}");
            Ok(())
        })
        .await
    }

    async fn only_warden_publishes(&self, reason: &str, claim: &str) -> Result<()> {
        eventually(
            &format!("Volume Warden publishes {reason} for {claim}"),
            async || self.warden.has_event(reason, claim).await,
        )
        .await?;
        self.in_tree.canaries().await?;
        ensure!(
            !self.in_tree.has_event(reason, claim).await?,
            "in-tree publishes {reason} for {claim} too"
        );
        Ok(())
    }

    async fn differs_at_creation(&self, claim: &str, in_tree: &str, warden: &str) -> Result<()> {
        let found = try_join(
            self.in_tree.state_at_creation(claim),
            self.warden.state_at_creation(claim),
        )
        .await?;
        ensure!(
            (&*found.0, &*found.1) == (in_tree, warden),
            "in-tree: {}, wanted {in_tree}; Volume Warden: {}, wanted {warden}",
            found.0,
            found.1
        );
        Ok(())
    }

    pub fn refused_only(&self, wanted: &BTreeSet<String>) -> Result<()> {
        let (in_tree, warden) = (self.in_tree.refusals()?, self.warden.refusals()?);
        ensure!(
            in_tree.is_empty() && warden == *wanted,
            "by in-tree: {in_tree:?}, by Volume Warden: {warden:?}, wanted there: {wanted:?}"
        );
        Ok(())
    }
}

fn projection(lines: Lines) -> Projection {
    lines.iter().map(|&line| line.to_owned()).collect()
}
