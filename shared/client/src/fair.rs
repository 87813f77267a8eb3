//! Sockets whose traffic counts: a task that moves megabytes gives way to others after a while.
//!
//! tokio lets a task go on for 128 operations; one operation on a busy socket may be 64 KiB and more to encrypt, so that a
//! list of 100 MB would hold up the small requests of everybody else on the same thread for milliseconds. Here every KiB
//! cost what one operation costs, and whoever has used up his turn lets other threads run, too: the next tier's answer to a
//! small request may be waiting for this core.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

/// Bytes that count as one operation.
const BYTES: usize = 1024;

/// Counts what the present task has moved. Its next operation waits when that was too much for once.
pub fn charge(cx: &mut Context<'_>, bytes: usize) {
    for _ in 0..bytes / BYTES {
        match coop::poll_proceed(cx) {
            Poll::Ready(turn) => turn.made_progress(),
            Poll::Pending => {
                // Other processes of this machine wait as well, each for milliseconds if nobody gives way.
                std::thread::yield_now();
                return;
            }
        }
    }
}

/// A socket on which every byte counts.
#[derive(Debug)]
pub struct Fair<T>(T);

impl<T> Fair<T> {
    /// Around this socket.
    pub fn new(socket: T) -> Fair<T> {
        Fair(socket)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Fair<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buf);
        charge(cx, buf.filled().len() - before);
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Fair<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write(cx, buf);
        charge_written(cx, &written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.0).poll_write_vectored(cx, bufs);
        charge_written(cx, &written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn charge_written(cx: &mut Context<'_>, written: &Poll<io::Result<usize>>) {
    if let Poll::Ready(Ok(bytes)) = written {
        charge(cx, *bytes);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn a_task_that_moves_much_gives_way() {
        let (near, _far) = tokio::io::duplex(64 << 20);
        let mut near = Fair::new(near);
        let chunk = vec![0; 64 * 1024];
        let mut writing = std::pin::pin!(async {
            for _ in 0..64 {
                near.write_all(&chunk).await?;
            }
            io::Result::Ok(())
        });
        let mut polls = 0;
        let counted = std::future::poll_fn(|cx| {
            polls += 1;
            writing.as_mut().poll(cx)
        });
        counted.await.unwrap();
        assert!(polls >= 8, "4 MiB were moved in {polls} turns");
    }
}
