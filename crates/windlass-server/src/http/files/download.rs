//! File downloads. The headers make a browser save the file, instead of displaying it or sniffing its type.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, header};
use tokio_util::io::ReaderStream;

use super::{Find, blocking};
use crate::http::Shared;
use crate::http::problem::Problem;

/// Streams a file of a folder.
pub async fn file(app: Shared, find: impl Find, path: String) -> Result<Response, Problem> {
    let (file, name, size) = blocking(move || {
        let folder = find(&app)?;
        let path = folder.resolve(&path)?;
        let file = folder.open_file(&path)?;
        let size = file.metadata().map_err(Problem::internal)?.len();
        let name = path.as_path().file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((file, name.unwrap_or_default(), size))
    })
    .await?;
    // The response already has a content length, so omit bytes that are appended while the server sends the file.
    let reader = tokio::io::AsyncReadExt::take(tokio::fs::File::from_std(file), size);
    let mut response = Response::new(Body::from_stream(ReaderStream::new(reader)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    headers.insert(header::CONTENT_DISPOSITION, disposition(&name));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    Ok(response)
}

/// Returns the `Content-Disposition` header for a download. Non-ASCII names are encoded as in RFC 6266 and RFC 8187.
fn disposition(name: &str) -> HeaderValue {
    let mut value = "attachment; filename*=UTF-8''".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => value.push(byte.into()),
            _ => value.push_str(&format!("%{byte:02X}")),
        }
    }
    // Invariant: letters, digits, punctuation and percent signs form a valid header value.
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_its_header() {
        let value = disposition("a\"; x=\r\nü.txt");
        assert_eq!(value, "attachment; filename*=UTF-8''a%22%3B%20x%3D%0D%0A%C3%BC.txt");
    }
}
