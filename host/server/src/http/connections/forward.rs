//! Forwards reads and writes to the streams in an enumeration.

/// Forwards reads and writes to the stream in each variant of an enumeration. The one of
/// `tokio-util` does not write several slices at once.
macro_rules! forward {
    ($name:ident { $($(#[$attribute:meta])* $variant:ident),* $(,)? }) => {
        impl tokio::io::AsyncRead for $name {
            fn poll_read(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
                buffer: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                match self.get_mut() {
                    $($(#[$attribute])*
                    Self::$variant(stream) => std::pin::Pin::new(stream).poll_read(context, buffer),)*
                }
            }
        }

        impl tokio::io::AsyncWrite for $name {
            fn poll_write(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                match self.get_mut() {
                    $($(#[$attribute])*
                    Self::$variant(stream) => std::pin::Pin::new(stream).poll_write(context, bytes),)*
                }
            }

            fn poll_write_vectored(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
                slices: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                match self.get_mut() {
                    $($(#[$attribute])*
                    Self::$variant(stream) => {
                        std::pin::Pin::new(stream).poll_write_vectored(context, slices)
                    })*
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                match self.get_mut() {
                    $($(#[$attribute])*
                    Self::$variant(stream) => std::pin::Pin::new(stream).poll_flush(context),)*
                }
            }

            fn poll_shutdown(
                self: std::pin::Pin<&mut Self>,
                context: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                match self.get_mut() {
                    $($(#[$attribute])*
                    Self::$variant(stream) => std::pin::Pin::new(stream).poll_shutdown(context),)*
                }
            }
        }
    };
}

pub(super) use forward;
