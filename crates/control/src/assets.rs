//! Files for browsers that are part of the binary: the chat page, the console and Socket.IO's own client
//! bundles. Both are built by `web/build.mjs`, committed, and embedded when compiling.

use rust_embed::{EmbeddedFile, RustEmbed};
use std::borrow::Cow;

#[derive(Debug, RustEmbed)]
#[folder = "../../web/chat/dist"]
#[allow_missing = true]
struct Page;

#[derive(Debug, RustEmbed)]
#[folder = "../../web/console/dist"]
#[allow_missing = true]
struct Console;

#[derive(Debug, RustEmbed)]
#[folder = "../../web/bundles"]
#[allow_missing = true]
struct Bundles;

/// The names that Socket.IO's server answers below its path.
const BUNDLE_NAMES: [&str; 8] = [
    "socket.io.js",
    "socket.io.js.map",
    "socket.io.min.js",
    "socket.io.min.js.map",
    "socket.io.esm.min.js",
    "socket.io.esm.min.js.map",
    "socket.io.msgpack.min.js",
    "socket.io.msgpack.min.js.map",
];

/// How a file may be compressed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Brotli,
}

impl Coding {
    /// `*` is what every browser has.
    pub fn named(name: &str) -> Option<Coding> {
        match name {
            "gzip" | "*" => Some(Coding::Gzip),
            "br" => Some(Coding::Brotli),
            _ => None,
        }
    }

    /// Of the file's name, and as in Content-Encoding.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Coding::Gzip => ("gz", "gzip"),
            Coding::Brotli => ("br", "br"),
        }
    }
}

/// One file as it goes out.
#[derive(Debug)]
pub struct Asset {
    pub body: Cow<'static, [u8]>,
    pub content_type: &'static str,
    /// Content-Encoding, when the stored form is a compressed one.
    pub encoding: Option<&'static str>,
    /// With quotes, as in the header.
    pub etag: String,
}

/// A file of the chat page; `accepted` as the browser says.
pub fn page(name: &str, accepted: &[Coding]) -> Option<Asset> {
    of_folder::<Page>(if name.is_empty() { "index.html" } else { name }, accepted)
}

/// One file of the console.
pub fn console(name: &str, accepted: &[Coding]) -> Option<Asset> {
    of_folder::<Console>(name, accepted)
}

fn of_folder<F: RustEmbed>(name: &str, accepted: &[Coding]) -> Option<Asset> {
    if !is_plain_name(name) || name.ends_with(".gz") {
        return None;
    }
    packed::<F>(name, accepted)
        .or_else(|| F::get(name).map(|file| asset(file, content_type(name), None)))
}

/// A client bundle or its source map. The tag is the version, as Socket.IO's server has it.
pub fn bundle(name: &str, accepted: &[Coding]) -> Option<Asset> {
    if !BUNDLE_NAMES.contains(&name) {
        return None;
    }
    let plain = || Bundles::get(name).map(|file| asset(file, content_type(name), None));
    // Source maps are kept compressed only: what asks for them are browsers, which all inflate.
    let found = packed::<Bundles>(name, accepted)
        .or_else(plain)
        .or_else(|| packed::<Bundles>(name, &[Coding::Gzip]))?;
    let etag = format!("\"{}\"", bundle_version());
    Some(Asset { etag, ..found })
}

/// The first of its compressed forms that is there.
fn packed<F: RustEmbed>(name: &str, accepted: &[Coding]) -> Option<Asset> {
    accepted.iter().find_map(|coding| {
        let (suffix, encoding) = coding.names();
        let file = F::get(&format!("{name}.{suffix}"))?;
        Some(asset(file, content_type(name), Some(encoding)))
    })
}

/// Version of the client bundles.
pub fn bundle_version() -> String {
    let file = Bundles::get("VERSION")
        .map(|file| file.data.into_owned())
        .unwrap_or_default();
    String::from_utf8_lossy(&file).trim().to_owned()
}

fn asset(file: EmbeddedFile, content_type: &'static str, encoding: Option<&'static str>) -> Asset {
    let hash = file.metadata.sha256_hash();
    let tag: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Asset {
        body: file.data,
        content_type,
        encoding,
        etag: format!("\"{tag}\""),
    }
}

/// No way out of the folder, in a debug build that reads from disk either.
fn is_plain_name(name: &str) -> bool {
    name.split('/')
        .all(|part| !part.is_empty() && !part.starts_with('.'))
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"./-_".contains(&byte))
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "application/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("map" | "json") => "application/json; charset=utf-8",
        Some("webmanifest") => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_eight_bundles_are_embedded() {
        for name in BUNDLE_NAMES {
            let packed =
                bundle(name, &[Coding::Gzip]).unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(packed.encoding, Some("gzip"), "{name}");
            assert!(packed.body.starts_with(&[0x1f, 0x8b]), "{name} is not gzip");
            assert_eq!(packed.etag, format!("\"{}\"", bundle_version()));
        }
        let plain = bundle("socket.io.js", &[]).expect("bundle");
        assert_eq!(plain.encoding, None);
        let small = bundle("socket.io.js", &[Coding::Brotli, Coding::Gzip]).expect("bundle");
        assert_eq!(small.encoding, Some("br"));
        assert!(bundle("VERSION", &[Coding::Gzip]).is_none());
        assert!(bundle("socket.io.js.gz", &[Coding::Gzip]).is_none());
    }

    #[test]
    fn the_page_has_a_start_and_no_way_out() {
        let index = page("", &[]).expect("index.html");
        assert_eq!(index.content_type, "text/html; charset=utf-8");
        for name in [
            "../bundles/VERSION",
            "/etc/passwd",
            "a//b",
            ".hidden",
            "index.html.gz",
            "no",
        ] {
            assert!(page(name, &[]).is_none(), "{name}");
        }
    }
}
