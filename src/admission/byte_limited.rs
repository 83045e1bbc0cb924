//! Limits how many bytes a client may send before its first request with a secret path.

use super::client_state::ClientState;
use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection from which at most `left` bytes are read before its first request with a secret
/// path has arrived. A read beyond this limit fails.
pub(super) struct ByteLimited<S> {
    stream: S,
    left: usize,
    client: Arc<ClientState>,
}

impl<S> ByteLimited<S> {
    pub(super) fn new(stream: S, left: usize, client: Arc<ClientState>) -> Self {
        Self {
            stream,
            left,
            client,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ByteLimited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.client.is_authenticated() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        if self.left == 0 {
            let error = "the client reached its limit of bytes before it sent a request with the \
                secret webhook path";
            return Poll::Ready(Err(io::Error::other(error)));
        }
        let room = buffer.remaining().min(self.left);
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        std::task::ready!(Pin::new(&mut self.stream).poll_read(context, &mut part))?;
        let read = part.filled().len();
        buffer.advance(read);
        self.left -= read;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ByteLimited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
