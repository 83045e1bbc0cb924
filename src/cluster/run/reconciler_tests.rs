use super::*;
use crate::{cluster::Elector, objects::ObjectName};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

#[derive(Default)]
struct Clumsy {
    seen: Mutex<Vec<String>>,
}

impl Reconcile for Clumsy {
    const COMPONENT: &'static str = "clumsy";
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        ["candidate", "urgent"]
            .map(|name| ObjectName::new("ns", name))
            .into()
    }

    fn is_urgent(&self, name: &ObjectName) -> bool {
        &*name.name == "urgent"
    }

    async fn reconcile(&self, name: &ObjectName) -> Reconciled {
        let first = {
            let mut seen = self.seen.lock();
            seen.push(name.name.to_string());
            seen.iter().filter(|each| **each == *name.name).count() == 1
        };
        assert!(&*name.name != "panics" || !first, "on purpose");
        Ok(Requeue::OnEvent)
    }
}

/// A reconciler that finishes a key when the test allows it.
struct Slow {
    started: AtomicUsize,
    finish: Semaphore,
}

impl Reconcile for Slow {
    const COMPONENT: &'static str = "slow";
    type Key = ObjectName;

    fn candidates(&self) -> Vec<ObjectName> {
        let names = 0..NORMAL + 5;
        names
            .map(|index| ObjectName::new("ns", index.to_string()))
            .collect()
    }

    async fn reconcile(&self, _: &ObjectName) -> Reconciled {
        self.started.fetch_add(1, Ordering::SeqCst);
        self.finish.acquire().await.expect("open").forget();
        Ok(Requeue::OnEvent)
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_limited_and_urgent_keys_do_not_wait() {
    let (lead, leadership) = Elector::for_test();
    let slow = Slow {
        started: AtomicUsize::new(0),
        finish: Semaphore::new(0),
    };
    let (reconcile, queue) = (Arc::new(slow), Arc::new(WorkQueue::default()));
    let metrics = Arc::new(Metrics::new());
    let reconciler = Reconciler {
        reconcile: reconcile.clone(),
        queue: queue.clone(),
        leadership,
        again: Arc::default(),
        metrics: metrics.clone(),
    };
    let depth = |expected: usize| {
        let series = "volume_warden_queue_depth{component=\"slow\"}";
        let (line, text) = (format!("{series} {expected}\n"), metrics.text());
        assert!(text.contains(&line), "{line}: {text}");
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(reconciler.run(stop.clone()));
    lead.replace(Some(Instant::now() + Duration::from_secs(60)));
    let started = async |expected| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(reconcile.started.load(Ordering::SeqCst), expected);
    };
    started(NORMAL).await;
    assert_eq!(queue.depth(), 5, "the rest waits as keys");
    depth(NORMAL + 5);
    for index in 0..=RESERVED {
        queue.add_urgent(ObjectName::new("ns", format!("urgent-{index}")));
    }
    started(MAX_CONCURRENT).await;
    reconcile.finish.add_permits(MAX_CONCURRENT);
    started(MAX_CONCURRENT + 6).await;
    depth(6);
    lead.replace(None);
    started(MAX_CONCURRENT + 6).await;
    depth(0);
    stop.cancel();
    task.await.expect("ends");
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_retry_and_candidates_come_with_the_lease() {
    let (lead, leadership) = Elector::for_test();
    let (reconcile, queue) = (Arc::new(Clumsy::default()), Arc::new(WorkQueue::default()));
    let reconciler = Reconciler {
        reconcile: reconcile.clone(),
        queue: queue.clone(),
        leadership,
        again: Arc::default(),
        metrics: Arc::new(Metrics::new()),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(reconciler.run(stop.clone()));
    let seen = || reconcile.seen.lock().join(" ");

    queue.add(ObjectName::new("ns", "before"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen(), "", "nothing is reconciled without the lease");

    lead.replace(Some(Instant::now() + Duration::from_secs(10)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen(), "urgent candidate", "the urgent one first");
    queue.add(ObjectName::new("ns", "panics"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen(), "urgent candidate panics panics");

    lead.replace(None);
    tokio::time::sleep(Duration::from_secs(1)).await;
    queue.add(ObjectName::new("ns", "after"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(seen(), "urgent candidate panics panics");
    stop.cancel();
    task.await.expect("ends");
}

/// A user who may label a namespace cannot make Volume Warden reconcile everything all the time.
#[tokio::test(start_paused = true)]
async fn candidates_come_again_after_a_notification_but_not_too_often() {
    let (lead, leadership) = Elector::for_test();
    let (reconcile, again) = (Arc::new(Clumsy::default()), Arc::new(Notify::new()));
    let reconciler = Reconciler {
        reconcile: reconcile.clone(),
        queue: Arc::default(),
        leadership,
        again: again.clone(),
        metrics: Arc::new(Metrics::new()),
    };
    let stop = CancellationToken::new();
    let task = tokio::spawn(reconciler.run(stop.clone()));
    lead.replace(Some(Instant::now() + Duration::from_secs(3600)));
    let passes = async |seconds| {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        reconcile.seen.lock().len() / 2
    };
    assert_eq!(passes(1).await, 1);
    for _ in 0..100 {
        again.notify_one();
        passes(0).await;
    }
    assert_eq!(passes(8).await, 1);
    assert_eq!(passes(2).await, 2, "ten seconds after the first");
    assert_eq!(passes(60).await, 2);
    again.notify_one();
    assert_eq!(passes(1).await, 3);
    assert_eq!(passes(598).await, 3);
    assert_eq!(passes(2).await, 4, "ten minutes later");
    stop.cancel();
    task.await.expect("ends");
}

#[test]
fn the_pages_name_the_time_between_two_passes() {
    assert_eq!(RESYNC_PERIOD, Duration::from_secs(10 * 60));
    let sizing = include_str!("../../../docs/operations/sizing.md");
    assert!(sizing.contains("- Every object is evaluated again once in ten minutes."));
    for page in [
        include_str!("../../../docs/components/pvc-protection.md"),
        include_str!("../../../docs/components/pv-protection.md"),
        include_str!("../../../docs/components/pvc-retention.md"),
        include_str!("../../../docs/components/pvc-provisioner.md"),
        include_str!("../../../docs/components/pv-releaser.md"),
        include_str!("../../../docs/components/pvc-trash.md"),
        include_str!("../../../docs/components/pvc-expiry.md"),
        include_str!("../../../docs/components/trash-list.md"),
    ] {
        assert!(page.contains("\n| every ten minutes | "), "{page:.40}");
    }
}
