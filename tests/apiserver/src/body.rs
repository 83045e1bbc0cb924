//! The body of an answer: one object, or the events of a watch.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::sync::mpsc::UnboundedReceiver;

/// The body of an answer.
#[derive(Debug)]
pub enum Body {
    /// The whole answer; `None` after it was read.
    Whole(Option<Bytes>),
    /// A watch: each frame is one event. It ends when the server ends the watch.
    Watch(UnboundedReceiver<Bytes>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(events) => events
                .poll_recv(context)
                .map(|event| Some(Ok(Frame::data(event?)))),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Watch(_) => SizeHint::default(),
        }
    }
}
