//! The text of the metrics, shared by concurrent scrapes.
//!
//! Rendering the text can require counting all objects. So only one rendering runs at a time,
//! after each one a pause follows that is nine times as long, and one text answers all scrapes
//! that arrived before its rendering began. A text is never older than the request that it
//! answers.

use super::Metrics;
use axum::body::Bytes;
use std::sync::Arc;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Instant, sleep},
};

/// Maximum number of scrapes that wait for a rendering: one for each connection that the metrics
/// server accepts at once.
const WAITING: usize = 64;
/// Pause after each rendering, as a multiple of the time that the rendering took.
const PAUSE: u32 = 9;

type Reply = oneshot::Sender<Bytes>;

/// Requests the text of the metrics. Clones share one renderer.
#[derive(Clone)]
pub(super) struct Scrapes(mpsc::Sender<Reply>);

/// Creates the handle for scrapes, and the task that renders the text, which the caller must run.
pub(super) fn scrapes(metrics: Arc<Metrics>) -> (Scrapes, impl Future<Output = ()> + Send) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Scrapes(sender), render(metrics, receiver))
}

impl Scrapes {
    /// Returns a text whose rendering begins after this call; none if rendering fails.
    pub(super) async fn text(&self) -> Option<Bytes> {
        let (answer, text) = oneshot::channel();
        self.0.send(answer).await.ok()?;
        text.await.ok()
    }
}

async fn render(metrics: Arc<Metrics>, mut waiting: mpsc::Receiver<Reply>) {
    while let Some(first) = waiting.recv().await {
        let mut answers = vec![first];
        while let Ok(another) = waiting.try_recv() {
            answers.push(another);
        }
        let (metrics, started) = (metrics.clone(), Instant::now());
        // Rendering runs on a blocking thread, because it must not delay webhooks.
        #[expect(
            clippy::disallowed_methods,
            reason = "it is awaited, and decides nothing"
        )]
        let rendering = spawn_blocking(move || metrics.text());
        if let Ok(text) = rendering.await {
            let text = Bytes::from(text);
            for answer in answers {
                // A client that has disconnected needs no text.
                let _ = answer.send(text.clone());
            }
        }
        sleep(started.elapsed() * PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    #[tokio::test]
    async fn one_rendering_answers_all_that_asked_before_it() {
        let (metrics, renderings) = (Arc::new(Metrics::new()), Arc::<AtomicUsize>::default());
        let count = renderings.clone();
        metrics.before_scrape(move |metrics| {
            count.fetch_add(1, Ordering::Relaxed);
            metrics.work.ready(true);
        });
        let (scrapes, render) = scrapes(metrics);
        let asked = join_all((0..WAITING / 2).map(|_| scrapes.text()));
        let task = tokio::spawn(render);
        let texts = asked.await;
        assert!(
            texts
                .iter()
                .flatten()
                .all(|text| text.ends_with(b"# EOF\n"))
        );
        assert_eq!(texts.iter().flatten().count(), WAITING / 2);
        assert!(renderings.load(Ordering::Relaxed) <= 2);
        let before = renderings.load(Ordering::Relaxed);
        assert!(scrapes.text().await.is_some());
        assert_eq!(renderings.load(Ordering::Relaxed), before + 1, "a new one");
        task.abort();
    }

    #[tokio::test]
    async fn rendering_takes_a_tenth_of_the_time_at_most() {
        const TAKES: Duration = Duration::from_millis(20);
        let metrics = Arc::new(Metrics::new());
        metrics.before_scrape(|_| std::thread::sleep(TAKES));
        let (scrapes, render) = scrapes(metrics);
        let task = tokio::spawn(render);
        let started = Instant::now();
        for _ in 0..3 {
            assert!(scrapes.text().await.is_some());
        }
        // The third rendering begins after two pauses. On a slow machine it can only be later.
        let earliest = TAKES * (2 * (1 + PAUSE) + 1);
        assert!(started.elapsed() >= earliest, "{:?}", started.elapsed());
        task.abort();
    }
}
