//! A peer that speaks HTTP where lines are expected.
//!
//! Whoever points an HTTP client at a source of lines shall be told what is wrong.
//! More than that: any web page may make the browser on this machine, or beside it,
//! post to a port, and the lines of such a body must not become readings. So the
//! first line is looked at before anything is parsed. No request line is a JSON
//! object or a point of the line protocol: nothing that could be read is turned away.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A first line of this length that begins as a request is one, whatever its end: a
/// long address must not hide it.
const REQUEST_LINE_MAX: usize = 8 * 1024;
/// The longest method: `UPDATEREDIRECTREF` has 17 letters.
const METHOD_MAX: usize = 20;

/// What a stream begins with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// No HTTP; these bytes were read to find that out.
    Lines(Vec<u8>),
    /// The line of an HTTP request.
    Http,
}

/// Reads until it is known what the stream begins with: of lines that are none of
/// HTTP a few bytes, and never more than one read beyond the first line.
///
/// # Errors
/// Those of the reader.
pub(super) async fn beginning(reader: &mut (impl AsyncRead + Unpin)) -> io::Result<Beginning> {
    let mut bytes = Vec::with_capacity(REQUEST_LINE_MAX);
    loop {
        let count = reader.read_buf(&mut bytes).await?;
        match is_request(&bytes) {
            Some(true) => return Ok(Beginning::Http),
            None if count > 0 => {}
            Some(false) | None => return Ok(Beginning::Lines(bytes)),
        }
    }
}

/// Whether the stream begins with `METHOD /path HTTP/1.x`; `None` where more bytes
/// must tell.
fn is_request(bytes: &[u8]) -> Option<bool> {
    let head = &bytes[..bytes.len().min(METHOD_MAX + 1)];
    let method = head.iter().take_while(|byte| byte.is_ascii_uppercase()).count();
    match bytes.get(method..) {
        Some([]) if method <= METHOD_MAX => return None,
        Some([b' ']) if method > 0 => return None,
        // The path, the whole address, or what OPTIONS may ask about.
        Some([b' ', b'/' | b'h' | b'*', ..]) if method > 0 => {}
        _ => return Some(false),
    }
    let Some(end) = memchr::memchr(b'\n', bytes) else {
        return (bytes.len() >= REQUEST_LINE_MAX).then_some(true);
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let version = memchr::memrchr(b' ', line).map_or(&[][..], |at| &line[at + 1..]);
    Some(version.starts_with(b"HTTP/") || end >= REQUEST_LINE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_line_is_told_from_lines() {
        for (bytes, expected) in [
            ("", None),
            ("POST", None),
            ("POST ", None),
            ("POST /", None),
            ("POST / HTTP/1.1", None),
            ("POST / HTTP/1.1\r\n", Some(true)),
            ("GET /x?a=b%20c HTTP/1.0\nHost: h\n", Some(true)),
            ("OPTIONS * HTTP/1.1\r\n", Some(true)),
            ("GET http://127.0.0.1:7000/ HTTP/1.1\r\n", Some(true)),
            ("UPDATEREDIRECTREF /", None),
            ("ABCDEFGHIJKLMNOPQRSTU", Some(false)),
            ("{", Some(false)),
            ("\n", Some(false)),
            (" GET / HTTP/1.1\r\n", Some(false)),
            ("/ HTTP/1.1\r\n", Some(false)),
            ("CPU,host=a v=1", Some(false)),
            ("GET value=1 17\n", Some(false)),
            ("GET /a=1,b=2 17\n", Some(false)),
            ("GET /a=\"HTTP/1.1\"\n", Some(false)),
        ] {
            assert_eq!(is_request(bytes.as_bytes()), expected, "{bytes:?}");
        }
        let long = format!("POST /{}", "a".repeat(REQUEST_LINE_MAX));
        assert_eq!(is_request(long.as_bytes()), Some(true));
        assert_eq!(is_request(&long.as_bytes()[..REQUEST_LINE_MAX - 1]), None);
    }

    #[tokio::test]
    async fn whatever_the_pieces_nothing_of_lines_is_lost() {
        for (text, is_http) in [("POST /a HTTP/1.1\r\n\r\n{}", true), ("POST a=1\nb", false)] {
            for step in 1..=text.len() {
                let (mut sender, mut stream) = tokio::io::duplex(step);
                let send = async {
                    // Nobody reads on once it is known.
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut sender, text.as_bytes()).await;
                    drop(sender);
                };
                let read = async {
                    let found = beginning(&mut stream).await.unwrap();
                    let Beginning::Lines(mut bytes) = found else {
                        drop(stream);
                        return None;
                    };
                    stream.read_to_end(&mut bytes).await.unwrap();
                    Some(bytes)
                };
                let ((), read) = tokio::join!(send, read);
                assert_eq!(read, (!is_http).then(|| text.as_bytes().to_vec()), "{step}");
            }
        }
    }
}
