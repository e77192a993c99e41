//! Unguessable bytes from the kernel, fetched a page at a time: a session needs twenty, a syscall costs as much as hundreds.

const PAGE: usize = 4096;

/// A source for one hub. Bytes handed out are wiped from the buffer.
pub(crate) fn entropy() -> hub::Entropy {
    let mut buf = Box::new([0u8; PAGE]);
    let mut left = 0;
    Box::new(move |out: &mut [u8]| {
        for byte in out {
            if left == 0 {
                fill(&mut buf[..]);
                left = PAGE;
            }
            left -= 1;
            *byte = std::mem::take(&mut buf[left]);
        }
    })
}

/// Fills the buffer. Without entropy no id is safe to give out, so failure (a kernel before 3.17) ends the process.
#[cfg(target_os = "linux")]
fn fill(buf: &mut [u8]) {
    use rustix::io::Errno;
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut at = 0;
    while at < buf.len() {
        match getrandom(&mut buf[at..], GetRandomFlags::empty()) {
            Ok(n) => at += n,
            Err(Errno::INTR) => {}
            Err(error) => panic!("cannot read random bytes from the kernel: {error}"),
        }
    }
}

/// Other systems name this call differently; the TLS library knows them.
#[cfg(not(target_os = "linux"))]
fn fill(buf: &mut [u8]) {
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(buf).expect("random bytes from the system");
}

#[cfg(test)]
mod tests {
    #[test]
    fn bytes_differ_over_page_borders() {
        let mut entropy = super::entropy();
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let mut id = [0; 13];
            entropy(&mut id);
            assert!(seen.insert(id));
        }
    }
}
