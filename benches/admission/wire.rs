//! The webhook server alone, on one core, compared with controller-runtime.

use crate::{
    aims::Aims,
    certificate::{Certificate, url},
    load::{self, Load},
    peer::Peer,
    review, scene,
    size::Size,
    times::milliseconds,
};
use anyhow::Result;
use reqwest::Client;
use std::{path::PathBuf, time::Duration};
use volume_warden_controlplane::{Cluster, Component, Process, eventually};

/// The CPU core of the server.
const SERVER_CORE: usize = 0;
/// The CPU core of the load generator.
const LOAD_CORE: usize = 1;
/// Duration of the warm-up.
const WARM: Duration = Duration::from_secs(1);
/// The servers take turns, because the machine's speed drifts.
const TURNS: [Who; 4] = [Who::VolumeWarden, Who::Peer, Who::Peer, Who::VolumeWarden];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    VolumeWarden,
    Peer,
}

impl Who {
    fn name(self) -> &'static str {
        match self {
            Self::VolumeWarden => "volume-warden",
            Self::Peer => "controller-runtime",
        }
    }
}

struct Row {
    who: Who,
    load: Load,
    peak_memory: u64,
}

/// The input for both servers.
struct Bench<'a> {
    cluster: &'a Cluster,
    certificate: Certificate,
    client: Client,
    peer: Peer,
    body: PathBuf,
    time: Duration,
}

/// Runs the part, prints its table and returns the aims.
pub async fn measure(size: Size) -> Result<Aims> {
    load::installed()?;
    let peer = Peer::build().await?;
    let rows = scene::on(async |cluster| {
        // With a certificate in files, another controller would have to write the caBundle of the
        // webhook configurations. They are not needed: the benchmark calls the servers directly.
        let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        cluster.kubectl(&["delete", kinds, "--all"]).await?;
        cluster.pause(Component::ControllerManager)?;
        let certificate = Certificate::new()?;
        let body = certificate.directory().join("review.json");
        std::fs::write(&body, review::body()?)?;
        let bench = Bench {
            cluster,
            client: certificate.client()?,
            certificate,
            peer,
            body,
            time: size.load,
        };
        bench.rows().await
    })
    .await?;
    print(&rows)?;
    Ok(aims(&rows))
}

impl Bench<'_> {
    async fn rows(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for who in TURNS {
            rows.push(self.row(who).await?);
        }
        Ok(rows)
    }

    async fn row(&self, who: Who) -> Result<Row> {
        match who {
            Who::VolumeWarden => {
                let file = |name| self.certificate.directory().join(name);
                let warden = scene::warden(self.cluster)
                    .arg(format!("--tls-cert-file={}", file("tls.crt").display()))
                    .arg(format!(
                        "--tls-private-key-file={}",
                        file("tls.key").display()
                    ))
                    .on_core(SERVER_CORE)
                    .start()
                    .await?;
                let path = path(self.cluster, "/pvc-protection/claims").await?;
                let url = url(warden.webhook_port(), &path);
                self.loaded(who, warden.process(), url).await
            }
            Who::Peer => {
                let peer = self
                    .peer
                    .start(self.cluster, &self.certificate, SERVER_CORE);
                let (process, port) = peer?;
                self.loaded(who, &process, url(port, "/claims")).await
            }
        }
    }

    async fn loaded(&self, who: Who, process: &Process, url: String) -> Result<Row> {
        let answers = async || review::answers(&self.client, &url).await;
        eventually("the claim is protected", answers).await?;
        load::load(LOAD_CORE, url.clone(), &self.body, WARM).await?;
        Ok(Row {
            who,
            load: load::load(LOAD_CORE, url, &self.body, self.time).await?,
            peak_memory: process.peak_memory_bytes()?,
        })
    }
}

/// The secret path of a webhook, which Volume Warden stores in a Secret.
async fn path(cluster: &Cluster, hook: &str) -> Result<String> {
    let secret = [
        "get",
        "secret",
        "volume-warden-serving",
        "-n",
        "volume-warden",
    ];
    let template = "-o=go-template=/{{.data.path | base64decode}}";
    let secret = cluster
        .kubectl(&[&secret[..], &[template]].concat())
        .await?;
    Ok(secret + hook)
}

fn print(rows: &[Row]) -> Result<()> {
    let bytes = review::body()?.len();
    println!("\n**A claim's CREATE, {bytes} bytes, 16 connections, one core**\n");
    println!("| who | reviews/s | p50 | p99 | peak memory |");
    println!("|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {} | {:.0} | {} | {} | {:.1} MB |",
            row.who.name(),
            row.load.rate(),
            milliseconds(row.load.p50()),
            milliseconds(row.load.p99()),
            row.peak_memory as f64 / 1e6,
        );
    }
    Ok(())
}

fn aims(rows: &[Row]) -> Aims {
    // Both servers have the same number of rows: the ratio of the sums is that of the means.
    let sum = |who, figure: fn(&Row) -> f64| -> f64 {
        let of = rows.iter().filter(|row| row.who == who);
        of.map(figure).sum()
    };
    let times = |figure| sum(Who::VolumeWarden, figure) / sum(Who::Peer, figure);
    let rate = times(|row| row.load.rate());
    let p99 = times(|row| row.load.p99().as_secs_f64());
    let memory = times(|row| row.peak_memory as f64);
    Aims::default()
        .at_least("rate", 5.0, rate, "times controller-runtime's")
        .at_most("p99", 0.25, p99, "times controller-runtime's")
        .at_most("peak memory", 0.1, memory, "times controller-runtime's")
}
