//! The kernel's figures of one TCP connection, for operators: one question by netlink (`sock_diag(7)`), asked only when somebody looks.

use crate::reactor::stream::Stream;
use hub::Kernel;

/// `None`: it is no TCP connection, or this system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn figures(stream: &Stream) -> Option<Kernel> {
    let Stream::Tcp(stream) = stream else {
        return None;
    };
    let (local, peer) = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
    read(&netlink::ask(&netlink::question(local, peer)).ok()?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn figures(_: &Stream) -> Option<Kernel> {
    None
}

#[cfg(target_os = "linux")]
mod netlink {
    use crate::bounds::KERNEL_ANSWER_BYTES_MAX;
    use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
    use rustix::net::{netlink, recv, send, socket_with};
    use std::io;
    use std::net::{IpAddr, SocketAddr};

    /// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
    pub(super) const BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const TCP: u8 = 6;
    /// The bit of `INET_DIAG_INFO`.
    const WITH_INFO: u8 = 1 << 1;

    /// A header (`struct nlmsghdr`) and `struct inet_diag_req_v2`, which names the connection by both of its addresses.
    pub(super) fn question(local: SocketAddr, peer: SocketAddr) -> Vec<u8> {
        let family = if local.is_ipv4() { 2 } else { 10 };
        let mut body = vec![family, TCP, WITH_INFO, 0];
        // In any state.
        body.extend(u32::MAX.to_ne_bytes());
        body.extend(local.port().to_be_bytes());
        body.extend(peer.port().to_be_bytes());
        for address in [local.ip(), peer.ip()] {
            match address {
                IpAddr::V4(address) => {
                    body.extend(address.octets());
                    body.extend([0; 12]);
                }
                IpAddr::V6(address) => body.extend(address.octets()),
            }
        }
        // At any interface, with any cookie.
        body.extend([0; 4]);
        body.extend([0xff; 8]);
        let mut message = Vec::from((16 + body.len() as u32).to_ne_bytes());
        message.extend(BY_FAMILY.to_ne_bytes());
        message.extend(NLM_F_REQUEST.to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        message
    }

    /// The kernel answers before `send` returns: nothing waits here.
    pub(super) fn ask(question: &[u8]) -> io::Result<Vec<u8>> {
        let family = AddressFamily::NETLINK;
        let flags = SocketFlags::CLOEXEC;
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(family, SocketType::DGRAM, flags, protocol)?;
        send(&socket, question, SendFlags::empty())?;
        let mut answer = vec![0; KERNEL_ANSWER_BYTES_MAX];
        let (len, _) = recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        answer.truncate(len);
        Ok(answer)
    }
}

/// `struct nlmsghdr`, `struct inet_diag_msg`, then attributes, of which one is `struct tcp_info`.
#[cfg(target_os = "linux")]
fn read(answer: &[u8]) -> Option<Kernel> {
    const HEADER: usize = 16;
    const MESSAGE: usize = 72;
    const QUEUE: usize = HEADER + 60;
    const INFO: u16 = 2;
    let short = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    if short(4)? != netlink::BY_FAMILY {
        return None;
    }
    let queued = word(QUEUE)?;
    let mut at = HEADER + MESSAGE;
    loop {
        let len = usize::from(short(at)?);
        if short(at + 2)? == INFO {
            let info = at + 4;
            // An old kernel's structure is shorter.
            let unsent = word(info + 144)
                .filter(|_| len >= 4 + 148)
                .unwrap_or_default();
            return Some(Kernel {
                rtt_us: word(info + 68)?,
                rtt_var_us: word(info + 72)?,
                retransmits: word(info + 100)?,
                backoff: *answer.get(info + 4)?,
                unacked_bytes: queued.saturating_sub(unsent),
                unsent_bytes: unsent.min(queued),
            });
        }
        // Attributes begin at multiples of four; one of no length would be read for ever.
        at += len.max(4).next_multiple_of(4);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use mio::net::TcpStream;
    use std::io::Write;
    use std::net::TcpListener;

    fn pair(address: &str) -> (Stream, std::net::TcpStream) {
        let listener = TcpListener::bind(address).expect("listen");
        let own = std::net::TcpStream::connect(listener.local_addr().expect("address"));
        let (other, _) = listener.accept().expect("accept");
        let own = own.expect("connect");
        own.set_nonblocking(true).expect("non-blocking");
        (Stream::Tcp(TcpStream::from_std(own)), other)
    }

    #[test]
    fn a_client_that_reads_nothing_is_seen_in_the_kernels_figures() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (mut own, other) = pair(address);
            let Some(idle) = figures(&own) else {
                panic!("the kernel does not tell of {address}");
            };
            assert_eq!((idle.unacked_bytes, idle.unsent_bytes), (0, 0), "{idle:?}");
            while own.write(&[7; 65_536]).is_ok() {}
            let full = figures(&own).expect("figures");
            let waiting = full.unacked_bytes + full.unsent_bytes;
            assert!(waiting > 10_000, "{full:?}");
            assert!(full.rtt_us > 0, "{full:?}");
            drop(other);
        }
    }

    #[test]
    fn an_answer_that_is_none_says_nothing() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0; 500]), None);
        let (own, other) = pair("127.0.0.1:0");
        let Stream::Tcp(stream) = &own else { return };
        let addresses = (
            stream.local_addr().expect("a"),
            stream.peer_addr().expect("a"),
        );
        drop(other);
        let whole = netlink::ask(&netlink::question(addresses.0, addresses.1)).expect("an answer");
        for len in 0..whole.len() {
            // No cut may be read beyond its end.
            let _ = read(&whole[..len]);
        }
    }
}
