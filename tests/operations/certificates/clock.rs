//! Renewals over more than a year of simulated time. Two replicas run in this process, so that the
//! test can move their clock, with the real Secret and webhook configurations, and the permissions
//! of the manifests.

use super::{TIMEOUT, strict_client::StrictClient};
use crate::fresh::{self, FreshCluster};
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
    cluster::{Apply, Elector, LatestTime, LeaseName, LeaseObject, ServiceName, connect},
    components,
    telemetry::Metrics,
    tls::{Lifetimes, SelfSigned, ServingCertificate, Settings, Warnings},
};
use volume_warden_controlplane::{Cluster, eventually_within};

const DAY: i64 = 86_400;
/// The interval between two requests. Without it, the requests take the CPU time of the tests that
/// run at the same time.
const REQUEST_INTERVAL: Duration = Duration::from_millis(10);

/// A clock that the test can move.
#[derive(Clone, Default)]
struct MovableClock(Arc<AtomicI64>);

impl MovableClock {
    fn as_clock(&self) -> Clock {
        let offset = self.0.clone();
        Clock::new(move || {
            let offset = time::Duration::seconds(offset.load(Ordering::SeqCst));
            OffsetDateTime::now_utc() + offset
        })
    }

    fn advance(&self, days: i64) {
        self.0.fetch_add(days * DAY, Ordering::SeqCst);
    }
}

/// A webhook server with a self-signed certificate, without the other tasks of the program.
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
    async fn start(cluster: &Cluster, clock: &MovableClock) -> Result<Self> {
        let file = cluster
            .service_account_kubeconfig("volume-warden", "volume-warden", None)
            .await?;
        let file = Kubeconfig::read_from(file)?;
        let client = connect(Config::from_custom_kubeconfig(file, &Default::default()).await?)?;
        let metrics = Arc::new(Metrics::new());
        let serving = ServingCertificate::new(&metrics, clock.as_clock());
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (port, stop) = (listener.local_addr()?.port(), CancellationToken::new());
        tokio::spawn(admission::serve(
            listener,
            serving.certificate.clone(),
            axum::Router::new(),
            SecretPaths::default(),
            // The servers and the clients share a thread, which other tests may delay.
            Limits {
                unauthenticated_timeout: TIMEOUT,
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

    /// Performs the renewal step that is due, and checks that the replica is ready.
    async fn round(&self) -> Result<()> {
        let mut self_signed = self.self_signed.lock().await;
        let self_signed = self_signed.as_mut().context("not self-signed")?;
        self_signed.round().await?;
        let missing = self.serving.not_ready_reasons();
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
        let (_, leadership) = Elector::new(
            leases,
            lease.clone(),
            self.metrics.clone(),
            LatestTime::new(Clock::system()),
        );
        let (client, metrics) = (self.client.clone(), self.metrics.clone());
        let apply = Arc::new(Apply::new(client.clone(), leadership, 1, false, metrics));
        let warnings = Warnings::new(apply, LeaseObject::new(client, lease), "a test");
        let self_signed = self.self_signed.lock().await.take().context("once")?;
        tokio::spawn(self_signed.follow(warnings, self.stop.clone()));
        Ok(())
    }

    /// The metric of the certificate's expiry, in seconds since the epoch.
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

/// The CA certificate in the Secret.
async fn authority(cluster: &Cluster) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), "volume-warden");
    let data = secrets.get("volume-warden-tls").await?.data;
    let authority = data.and_then(|mut data| data.remove("ca.crt"));
    Ok(authority.context("a CA")?.0)
}

/// Sends requests to the replicas in turn until `stop`, and counts them. Returns the first error.
async fn keep_requesting(
    strict_client: StrictClient,
    ports: Vec<u16>,
    count: watch::Sender<usize>,
    stop: CancellationToken,
) -> Result<()> {
    let mut ticks = interval(REQUEST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.is_cancelled() {
        for port in &ports {
            ticks.tick().await;
            let now = strict_client.clock.now();
            let response = strict_client.request(*port).await;
            response.with_context(|| format!("refused at {now}"))?;
            count.send_modify(|count| *count += 1);
        }
    }
    Ok(())
}

/// Two replicas with a certificate, and a client with the same clock.
struct ClockFixture {
    clock: MovableClock,
    replicas: [Replica; 2],
    strict_client: StrictClient,
    /// This is the last field, so that the replicas stop before another test uses the cluster.
    cluster: FreshCluster,
}

impl ClockFixture {
    async fn new() -> Result<Self> {
        let cluster = fresh::installed().await?;
        let clock = MovableClock::default();
        let replicas = [
            Replica::start(&cluster, &clock).await?,
            Replica::start(&cluster, &clock).await?,
        ];
        for replica in &replicas {
            replica.round().await?;
        }
        let strict_client = StrictClient {
            client: cluster.client(),
            clock: clock.as_clock(),
            handshake_limit: TIMEOUT,
        };
        Ok(Self {
            clock,
            replicas,
            strict_client,
            cluster,
        })
    }

    fn ports(&self) -> Vec<u16> {
        self.replicas.iter().map(|replica| replica.port).collect()
    }
}

/// A client sends requests continuously while the clock advances by 5 days at a time. The replicas
/// alternate in renewing first.
#[tokio::test]
async fn no_review_is_refused_in_four_hundred_days() -> Result<()> {
    let fixture = ClockFixture::new().await?;
    let first = authority(&fixture.cluster).await?;
    let (count, mut counted) = watch::channel(0);
    let stop = CancellationToken::new();
    let requests = tokio::spawn(keep_requesting(
        fixture.strict_client.clone(),
        fixture.ports(),
        count,
        stop.clone(),
    ));
    let mut leaves = std::collections::BTreeSet::new();
    for step in 0..80 {
        fixture.clock.advance(5);
        for turn in 0..2 {
            fixture.replicas[(step + turn) % 2].round().await?;
            // Also after only one of the two replicas has renewed its certificate.
            for port in fixture.ports() {
                let served = fixture.strict_client.served_certificate(port).await;
                leaves.insert(served.with_context(|| format!("at step {step}"))?);
            }
        }
        // Both replicas answer a request that began after the renewals of this step.
        let enough = *counted.borrow() + 2 * fixture.replicas.len();
        if counted.wait_for(|count| *count >= enough).await.is_err() {
            bail!("{:?}", requests.await);
        }
    }
    stop.cancel();
    requests.await??;
    assert!(
        leaves.len() >= 7,
        "only {} certificates in 400 days",
        leaves.len()
    );
    assert_ne!(authority(&fixture.cluster).await?, first);
    Ok(())
}

/// The clock jumps past the renewals, as after the suspension of a machine. The replicas renew the
/// certificate without a restart.
#[tokio::test]
async fn everything_is_renewed_after_a_clock_jump() -> Result<()> {
    let fixture = ClockFixture::new().await?;
    let first = authority(&fixture.cluster).await?;
    for replica in &fixture.replicas {
        replica.follow().await?;
    }
    for (days, same_authority) in [(100, true), (300, false), (400, false)] {
        let before = authority(&fixture.cluster).await?;
        fixture.clock.advance(days);
        eventually_within(
            TIMEOUT,
            "the certificates of both replicas are trusted",
            async || {
                for replica in &fixture.replicas {
                    fixture.strict_client.request(replica.port).await?;
                }
                anyhow::Ok(())
            },
        )
        .await?;
        // The state is stable: no further request is refused.
        let (count, mut counted) = watch::channel(0);
        let stop = CancellationToken::new();
        let requests = keep_requesting(
            fixture.strict_client.clone(),
            fixture.ports(),
            count,
            stop.clone(),
        );
        let enough = async {
            counted.wait_for(|count| *count >= 50).await?;
            stop.cancel();
            anyhow::Ok(())
        };
        tokio::try_join!(requests, enough)?;
        let now = authority(&fixture.cluster).await?;
        assert_eq!(now == before, same_authority, "after {days} days more");
        for replica in &fixture.replicas {
            let what = "the replica is ready and its metrics have the new expiry";
            eventually_within(TIMEOUT, what, async || {
                let missing = replica.serving.not_ready_reasons();
                ensure!(missing.is_empty(), "{missing:?}");
                for certificate in ["Served", "Authority"] {
                    let expires = replica.expiration(certificate).context("a metric")?;
                    let left = expires - fixture.clock.as_clock().now().unix_timestamp();
                    ensure!(left > 60 * DAY, "{certificate}: {left} s are left");
                }
                Ok(())
            })
            .await?;
        }
    }
    assert_ne!(authority(&fixture.cluster).await?, first);
    Ok(())
}
