//! Where the gateway listens and whom it believes: addresses, Unix sockets, proxies, origins. Text in, meaning or the reason
//! why there is none out.

use hub::trust::Cidr;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Longest path of a Unix socket (unix(7): 108 bytes with the NUL behind it).
const UNIX_PATH_BYTES_MAX: usize = 107;

/// An address of `server.listen`, or that of `workers.listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listen {
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            Self::Unix(_) => None,
        }
    }

    pub fn unix(&self) -> Option<&PathBuf> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(path) => Some(path),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub fn listen(text: &str) -> Result<Listen, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path).map(Listen::Unix);
    }
    address(text)
        .map(Listen::Tcp)
        .ok_or_else(|| format!("{}, or \"unix:/run/sockeye.sock\"", needs_addr(text)))
}

fn unix_path(path: &str) -> Result<PathBuf, String> {
    if !path.starts_with('/') || path.ends_with('/') {
        return Err(format!(
            "cannot listen on Unix socket {path:?}: a whole path is needed, such as \
             \"unix:/run/sockeye.sock\""
        ));
    }
    if path.len() > UNIX_PATH_BYTES_MAX {
        return Err(format!(
            "cannot listen on Unix socket {path:?}: the system takes {UNIX_PATH_BYTES_MAX} bytes, \
             these are {}",
            path.len()
        ));
    }
    Ok(path.into())
}

/// The path at which another process finds this one. Its successor opens a socket beside it.
pub fn upgrade_socket(path: &str) -> Result<PathBuf, String> {
    let bytes_max = UNIX_PATH_BYTES_MAX - crate::unix::BESIDE.len();
    match path.len() > bytes_max {
        true => Err(format!(
            "cannot listen on Unix socket {path:?}: it may have {bytes_max} bytes, for a successor listens at that path and \"{}\" behind it; \
             these are {}",
            crate::unix::BESIDE,
            path.len()
        )),
        false => Ok(path.into()),
    }
}

/// `IP:PORT`, `localhost:PORT`, or `:PORT` for all addresses of IPv4 and IPv6.
pub fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    match host {
        "" => Some(SocketAddr::from((
            Ipv6Addr::UNSPECIFIED,
            port.parse().ok()?,
        ))),
        "localhost" => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        _ => text.parse().ok(),
    }
}

pub fn needs_addr(text: &str) -> String {
    format!("cannot use address {text:?}: IP and port are needed, such as \"0.0.0.0:3000\"")
}

/// Permissions of a file, as chmod takes them.
pub fn mode(text: &str) -> Result<u32, String> {
    let octal = text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| octal && *mode <= 0o777).ok_or_else(|| {
        format!("cannot use mode {text:?}: octal digits are needed, such as \"0660\"")
    })
}

pub fn trusted(text: &str) -> Result<Cidr, String> {
    Cidr::parse(text).ok_or_else(|| {
        format!(
            "cannot trust {text:?}: an address or a range of addresses is needed, such as \
             \"10.0.0.0/8\" or \"::1\""
        )
    })
}

/// Why an entry of a list of origins can not be used.
pub fn origin_problem(text: &str) -> Option<String> {
    (!hub::origin::is_pattern(text)).then(|| {
        format!(
            "cannot use origin {text:?}: scheme, host and port as browsers send them are needed, \
             such as \"https://chat.example.org\" or \"https://*.example.org\""
        )
    })
}

/// Why an entry of a list of header names can not be used (RFC 9110 §5.6.2: a token).
pub fn header_problem(text: &str) -> Option<String> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (text.is_empty() || !text.bytes().all(is_token)).then(|| {
        format!("cannot use header name {text:?}: a name is needed, such as \"content-type\"")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_addresses_or_paths() {
        let tcp = |text: &str| Ok(Listen::Tcp(text.parse().expect(text)));
        assert_eq!(listen("localhost:1"), tcp("127.0.0.1:1"));
        assert_eq!(listen(":2"), tcp("[::]:2"));
        assert_eq!(listen("[::1]:3"), tcp("[::1]:3"));
        let path = "/run/sockeye/public.sock";
        assert_eq!(
            listen(&format!("unix:{path}")),
            Ok(Listen::Unix(path.into()))
        );
        for text in [
            "unix:",
            "unix:run/s.sock",
            "unix:/run/",
            "/run/s.sock",
            "3000",
        ] {
            assert!(listen(text).is_err(), "{text}");
        }
        let longest = format!("unix:/{}", "x".repeat(106));
        assert!(listen(&longest).is_ok());
        let error = listen(&format!("{longest}x")).expect_err("too long");
        assert!(error.ends_with("these are 108"), "{error}");
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(mode("0660"), Ok(0o660));
        assert_eq!(mode("777"), Ok(0o777));
        for text in ["", "0o660", "rw", "888", "1777", "+660"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
