//! Years pass. Two replicas run in this process, so that the test can move their clock, with the
//! real Secret and webhook configurations, and the rights of the manifests.

use super::{PATIENCE, visitor::Visitor};
use crate::fresh::{self, Fresh};
use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config, config::Kubeconfig};
use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use time::OffsetDateTime;
use tokio::{
    net::TcpListener,
    sync::{Mutex, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;
use volume_warden::{
    admission::{self, Limits, SecretPaths},
    clock::Clock,
    cluster::{Apply, Elector, LeaseName, LeaseObject, ServiceName, connect},
    components,
    telemetry::Metrics,
    tls::{Lifetimes, SelfSigned, ServingCertificate, Settings, Warnings},
};
use volume_warden_controlplane::{Cluster, eventually_within};

const DAY: i64 = 86_400;
/// The pause between two visits. Without it, visits take all of the processor from the tests that
/// run beside them.
const PACE: Duration = Duration::from_millis(10);

/// The clock of a machine, which the test can move.
#[derive(Clone, Default)]
struct Time(Arc<AtomicI64>);

impl Time {
    fn clock(&self) -> Clock {
        let offset = self.0.clone();
        Clock::new(move || {
            let offset = time::Duration::seconds(offset.load(Ordering::SeqCst));
            OffsetDateTime::now_utc() + offset
        })
    }

    fn pass(&self, days: i64) {
        self.0.fetch_add(days * DAY, Ordering::SeqCst);
    }
}

/// The certificate tasks of the program, without the rest of it.
struct Replica {
    self_signed: Mutex<Option<SelfSigned>>,
    serving: ServingCertificate,
    metrics: Arc<Metrics>,
    client: Client,
    port: u16,
    stop: CancellationToken,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Replica {
    async fn start(cluster: &Cluster, time: &Time) -> Result<Self> {
        let file = cluster
            .service_account_kubeconfig("volume-warden", "volume-warden", None)
            .await?;
        let file = Kubeconfig::read_from(file)?;
        let client = connect(Config::from_custom_kubeconfig(file, &Default::default()).await?)?;
        let metrics = Arc::new(Metrics::new());
        let serving = ServingCertificate::new(&metrics, time.clock());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, stop) = (listener.local_addr()?.port(), CancellationToken::new());
        tokio::spawn(admission::serve(
            listener,
            serving.certificate.clone(),
            axum::Router::new(),
            SecretPaths::default(),
            // Servers and visitors share a thread, which other tests may delay.
            Limits {
                stranger_time: PATIENCE,
                ..Limits::default()
            },
            metrics.clone(),
            stop.clone(),
        ));
        let self_signed = SelfSigned::new(settings(&client)?, serving.clone());
        Ok(Self {
            self_signed: Mutex::new(Some(self_signed)),
            serving,
            metrics,
            client,
            port,
            stop,
        })
    }

    async fn round(&self) -> Result<()> {
        let mut self_signed = self.self_signed.lock().await;
        let self_signed = self_signed.as_mut().context("not self-signed")?;
        self_signed.round().await?;
        let missing = self.serving.missing();
        ensure!(missing.is_empty(), "not ready: {missing:?}");
        Ok(())
    }

    /// Starts the task that renews the certificate.
    async fn follow(&self) -> Result<()> {
        let lease = LeaseName {
            namespace: "volume-warden".to_owned(),
            name: "none".to_owned(),
            identity: "none".to_owned(),
            former: None,
            labels: Default::default(),
        };
        let leases = Api::namespaced(self.client.clone(), "volume-warden");
        let (_, leadership) =
            Elector::new(leases, lease.clone(), self.metrics.clone(), Clock::system());
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let apply = Arc::new(Apply::new(client.clone(), leadership, 1, false, metrics));
        let warnings = Warnings::new(apply, LeaseObject::new(client, lease), "a test");
        let self_signed = self.self_signed.lock().await.take().context("once")?;
        tokio::spawn(self_signed.follow(warnings, self.stop.clone()));
        Ok(())
    }

    fn expiration(&self, certificate: &str) -> Option<i64> {
        let series = format!(
            "volume_warden_certificate_expiration_timestamp_seconds{{certificate=\"{certificate}\"}} "
        );
        let text = self.metrics.text();
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.and_then(|value| value.parse().ok())
    }
}

fn settings(client: &Client) -> Result<Settings> {
    let days = |days: u64| Duration::from_secs(days * 86_400);
    Ok(Settings {
        client: client.clone(),
        secret: "volume-warden-tls".to_owned(),
        service: ServiceName {
            namespace: "volume-warden".to_owned(),
            name: "volume-warden".to_owned(),
        },
        configurations: components::ALL
            .iter()
            .flat_map(|component| component.webhook_configurations())
            .copied()
            .collect(),
        lifetimes: Lifetimes::new(days(365), days(90)).map_err(anyhow::Error::msg)?,
    })
}

async fn authority(cluster: &Cluster) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "volume-warden");
    let data = secrets.get("volume-warden-tls").await?.data;
    let authority = data.and_then(|mut data| data.remove("ca.crt"));
    Ok(authority.context("a CA")?.0)
}

/// Visits the replicas in turn until `stop`, and counts; the first refusal ends it.
async fn keep_visiting(
    visitor: Visitor,
    ports: Vec<u16>,
    count: watch::Sender<usize>,
    stop: CancellationToken,
) -> Result<()> {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        for port in &ports {
            pace.tick().await;
            let now = visitor.clock.now();
            let visit = visitor.visit(*port).await;
            visit.with_context(|| format!("refused at {now}"))?;
            count.send_modify(|count| *count += 1);
        }
    }
    Ok(())
}

struct Years {
    time: Time,
    replicas: [Replica; 2],
    visitor: Visitor,
    /// The last field: the replicas end before another test uses the cluster.
    cluster: Fresh,
}

impl Years {
    async fn begin() -> Result<Self> {
        let cluster = fresh::installed().await?;
        let time = Time::default();
        let replicas = [
            Replica::start(&cluster, &time).await?,
            Replica::start(&cluster, &time).await?,
        ];
        for replica in &replicas {
            replica.round().await?;
        }
        let visitor = Visitor {
            client: cluster.client(),
            clock: time.clock(),
            handshake_limit: PATIENCE,
        };
        Ok(Self {
            time,
            replicas,
            visitor,
            cluster,
        })
    }

    fn ports(&self) -> Vec<u16> {
        self.replicas.iter().map(|replica| replica.port).collect()
    }
}

/// The replicas take turns at renewing first, while reviews arrive continuously.
#[tokio::test]
async fn no_review_is_refused_in_four_hundred_days() -> Result<()> {
    let years = Years::begin().await?;
    let first = authority(&years.cluster).await?;
    let (count, mut visited) = watch::channel(0);
    let stop = CancellationToken::new();
    let visits = tokio::spawn(keep_visiting(
        years.visitor.clone(),
        years.ports(),
        count,
        stop.clone(),
    ));
    let mut leaves = std::collections::BTreeSet::new();
    for step in 0..80 {
        years.time.pass(5);
        for turn in 0..2 {
            years.replicas[(step + turn) % 2].round().await?;
            // Between the renewals of the two replicas.
            for port in years.ports() {
                let served = years.visitor.served(port).await;
                leaves.insert(served.with_context(|| format!("at step {step}"))?);
            }
        }
        // Both replicas answer a visit that began after this step's renewals.
        let enough = *visited.borrow() + 2 * years.replicas.len();
        if visited.wait_for(|count| *count >= enough).await.is_err() {
            bail!("{:?}", visits.await);
        }
    }
    stop.cancel();
    visits.await??;
    assert!(leaves.len() >= 7, "{} leaves in 400 days", leaves.len());
    assert_ne!(authority(&years.cluster).await?, first);
    Ok(())
}

/// As after a suspended machine: no renewal was possible meanwhile. The wall clock shows it,
/// without a restart.
#[tokio::test]
async fn everything_is_renewed_after_a_clock_jump() -> Result<()> {
    let years = Years::begin().await?;
    let first = authority(&years.cluster).await?;
    for replica in &years.replicas {
        replica.follow().await?;
    }
    for (days, same_authority) in [(100, true), (300, false), (400, false)] {
        let before = authority(&years.cluster).await?;
        years.time.pass(days);
        eventually_within(PATIENCE, "both replicas are trusted again", async || {
            for replica in &years.replicas {
                years.visitor.visit(replica.port).await?;
            }
            anyhow::Ok(())
        })
        .await?;
        // The state is stable: no visit is refused from now on.
        let (count, mut visited) = watch::channel(0);
        let stop = CancellationToken::new();
        let visits = keep_visiting(years.visitor.clone(), years.ports(), count, stop.clone());
        let enough = async {
            visited.wait_for(|count| *count >= 50).await?;
            stop.cancel();
            anyhow::Ok(())
        };
        tokio::try_join!(visits, enough)?;
        let now = authority(&years.cluster).await?;
        assert_eq!(now == before, same_authority, "after {days} days more");
        for replica in &years.replicas {
            eventually_within(PATIENCE, "it says so", async || {
                let missing = replica.serving.missing();
                ensure!(missing.is_empty(), "{missing:?}");
                for certificate in ["Served", "Authority"] {
                    let expires = replica.expiration(certificate).context("a metric")?;
                    let left = expires - years.time.clock().now().unix_timestamp();
                    ensure!(left > 60 * DAY, "{certificate}: {left}");
                }
                Ok(())
            })
            .await?;
        }
    }
    assert_ne!(authority(&years.cluster).await?, first);
    Ok(())
}
