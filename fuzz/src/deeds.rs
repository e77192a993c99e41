//! What happens to a hub, as bytes: how the target `hub` reads its input, and how its seeds are written.
//!
//! A deed begins with a byte: client in the low half, kind in the high half. Bytes of a client (kinds 0 to 9) have two bytes of
//! length, little-endian, before them; time (13) has one more byte.

use std::time::Duration;

/// Clients that a byte can name.
pub const CLIENTS: usize = 16;

/// Times that may pass.
const TIMES_MS: [u64; 8] = [1, 100, 300, 1_000, 5_000, 11_000, 25_000, 61_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed<'a> {
    Bytes(usize, &'a [u8]),
    /// The client ends its side.
    End(usize),
    /// The connection breaks.
    Break(usize),
    /// Somebody stops reading, or reads again.
    Hearing(usize),
    Pass(Duration),
    Drain,
}

/// Reads deeds until the input ends.
pub fn deeds(mut input: &[u8]) -> impl Iterator<Item = Deed<'_>> {
    std::iter::from_fn(move || {
        let (&first, rest) = input.split_first()?;
        let client = usize::from(first & 15);
        input = rest;
        Some(match first >> 4 {
            0..=9 => {
                let (len, rest) = input.split_first_chunk::<2>()?;
                let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
                let (bytes, rest) = rest.split_at(len);
                input = rest;
                Deed::Bytes(client, bytes)
            }
            10 => Deed::End(client),
            11 => Deed::Break(client),
            12 => Deed::Hearing(client),
            13 | 14 => {
                let (&time, rest) = input.split_first()?;
                input = rest;
                Deed::Pass(Duration::from_millis(
                    TIMES_MS[usize::from(time) % TIMES_MS.len()],
                ))
            }
            _ => Deed::Drain,
        })
    })
}

/// Writes a deed as `deeds` reads it; time is rounded up to one of those that may pass.
pub fn write(out: &mut Vec<u8>, deed: Deed<'_>) {
    match deed {
        Deed::Bytes(client, bytes) => {
            out.push(client as u8 & 15);
            out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        Deed::End(client) => out.push(10 << 4 | client as u8 & 15),
        Deed::Break(client) => out.push(11 << 4 | client as u8 & 15),
        Deed::Hearing(client) => out.push(12 << 4 | client as u8 & 15),
        Deed::Pass(time) => {
            let wanted = time.as_millis() as u64;
            let found = TIMES_MS.iter().position(|ms| *ms >= wanted);
            out.extend_from_slice(&[13 << 4, found.unwrap_or(TIMES_MS.len() - 1) as u8]);
        }
        Deed::Drain => out.push(15 << 4),
    }
}
