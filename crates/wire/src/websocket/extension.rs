//! Negotiation of permessage-deflate (RFC 7692 §5, §7.1) in `Sec-WebSocket-Extensions`.
//! Every offer is judged as a whole: an impossible one is declined, never repaired and never echoed.

use crate::http::{Head, is_token_byte};

const HEADER: &str = "sec-websocket-extensions";
const NAME: &[u8] = b"permessage-deflate";
/// Smallest and largest window a parameter may name, base-2 logarithms (RFC 7692 §7.1.2).
const WINDOW_BITS: std::ops::RangeInclusive<u8> = 8..=15;
/// zlib's deflate knows no window of 256 bytes; who insists on one gets no compression from us.
const DEFLATE_WINDOW_BITS_MIN: u8 = 9;

/// What this side is ready to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Willing {
    /// May keep a window of what it sent from message to message.
    pub server_takeover: bool,
    /// Lets the client keep one, and so keeps one to inflate with.
    pub client_takeover: bool,
    /// Largest window of its compressor, 9-15.
    pub server_window_bits: u8,
    /// Largest window it wants clients to use, 8-15; 15 asks for nothing.
    pub client_window_bits: u8,
}

/// What was agreed on, in the words of the response (RFC 7692 §7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Each message from the server is compressed on its own.
    pub server_no_context_takeover: bool,
    /// Each message from the client is compressed on its own.
    pub client_no_context_takeover: bool,
    /// The server's window, if the client set a bound.
    pub server_max_window_bits: Option<u8>,
    /// The client's window, if the server sets a bound and the client allowed it.
    pub client_max_window_bits: Option<u8>,
}

impl Agreed {
    /// Appends the response's header line.
    pub fn write_header(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Sec-WebSocket-Extensions: permessage-deflate");
        for (wanted, name) in [
            (
                self.server_no_context_takeover,
                "; server_no_context_takeover",
            ),
            (
                self.client_no_context_takeover,
                "; client_no_context_takeover",
            ),
        ] {
            if wanted {
                out.extend_from_slice(name.as_bytes());
            }
        }
        let mut digits = itoa::Buffer::new();
        for (bits, name) in [
            (self.server_max_window_bits, "; server_max_window_bits="),
            (self.client_max_window_bits, "; client_max_window_bits="),
        ] {
            if let Some(bits) = bits {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(digits.format(bits).as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Accepts the first offer that can be met; `None`: the connection goes on uncompressed.
///
/// Linear in the headers, whose size the parser of heads bounds.
pub fn negotiate(head: &Head<'_>, willing: &Willing) -> Option<Agreed> {
    head.headers()
        .filter(|(name, _)| name.eq_ignore_ascii_case(HEADER))
        .flat_map(|(_, value)| Offers(value))
        .flatten()
        .find_map(|offer| offer.accept(willing))
}

/// A well-formed offer of permessage-deflate.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// Present without a value: any window is welcome.
    client_max_window_bits: Option<Option<u8>>,
}

impl Offer {
    fn accept(&self, willing: &Willing) -> Option<Agreed> {
        let server_max_window_bits = match self.server_max_window_bits {
            Some(bits) if bits < DEFLATE_WINDOW_BITS_MIN => return None,
            bits => bits.map(|bits| bits.min(willing.server_window_bits)),
        };
        // Only a client that named the parameter understands it in the answer (RFC 7692 §7.1.2.2).
        let client_max_window_bits = self
            .client_max_window_bits
            .filter(|_| willing.client_window_bits < *WINDOW_BITS.end())
            .map(|bits| {
                bits.map_or(willing.client_window_bits, |bits| {
                    bits.min(willing.client_window_bits)
                })
            });
        Some(Agreed {
            server_no_context_takeover: self.server_no_context_takeover || !willing.server_takeover,
            client_no_context_takeover: self.client_no_context_takeover || !willing.client_takeover,
            server_max_window_bits,
            client_max_window_bits,
        })
    }

    /// Takes in one parameter; `None` if it makes the offer impossible (RFC 7692 §7.1).
    fn set(&mut self, name: &[u8], value: Option<&[u8]>) -> Option<()> {
        match (name, value) {
            (b"server_no_context_takeover", None) => once(std::mem::replace(
                &mut self.server_no_context_takeover,
                true,
            )),
            (b"client_no_context_takeover", None) => once(std::mem::replace(
                &mut self.client_no_context_takeover,
                true,
            )),
            (b"server_max_window_bits", Some(value)) => once(
                self.server_max_window_bits
                    .replace(window_bits(value)?)
                    .is_some(),
            ),
            (b"client_max_window_bits", value) => {
                let bits = match value {
                    Some(value) => Some(window_bits(value)?),
                    None => None,
                };
                once(self.client_max_window_bits.replace(bits).is_some())
            }
            _ => None,
        }
    }
}

fn once(seen_before: bool) -> Option<()> {
    (!seen_before).then_some(())
}

/// Decimal without sign or leading zeros, 8 to 15.
fn window_bits(value: &[u8]) -> Option<u8> {
    let bits = match value {
        [digit @ b'8'..=b'9'] => digit - b'0',
        [b'1', digit @ b'0'..=b'9'] => 10 + (digit - b'0'),
        _ => return None,
    };
    WINDOW_BITS.contains(&bits).then_some(bits)
}

/// The elements of one header value: `Some` for an offer that could be met, `None` for any other
/// extension and for what is not well-formed (RFC 6455 §9.1).
struct Offers<'a>(&'a [u8]);

impl Iterator for Offers<'_> {
    type Item = Option<Offer>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let element = self.0;
        let offer = self.offer();
        if offer.is_none() {
            self.0 = element;
            self.skip_element();
        }
        Some(offer)
    }
}

impl<'a> Offers<'a> {
    /// Reads one element with the comma behind it.
    fn offer(&mut self) -> Option<Offer> {
        let mut offer = Offer::default();
        if self.token()? != NAME {
            return None;
        }
        loop {
            self.blanks();
            match self.0.split_first() {
                None => return Some(offer),
                Some((b',', rest)) => {
                    self.0 = rest;
                    return Some(offer);
                }
                Some((b';', rest)) => self.0 = rest,
                Some(_) => return None,
            }
            let name = self.token()?;
            self.blanks();
            let value = match self.0.split_first() {
                Some((b'=', rest)) => {
                    self.0 = rest;
                    Some(self.value()?)
                }
                _ => None,
            };
            offer.set(name, value)?;
        }
    }

    /// A token, or a quoted string that holds one: escapes are not needed in any known value.
    fn value(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        let Some((b'"', rest)) = self.0.split_first() else {
            return self.token();
        };
        self.0 = rest;
        let value = self.token()?;
        self.0 = self.0.strip_prefix(b"\"")?;
        Some(value)
    }

    fn token(&mut self) -> Option<&'a [u8]> {
        self.blanks();
        let len = self
            .0
            .iter()
            .take_while(|byte| is_token_byte(**byte))
            .count();
        let (token, rest) = self.0.split_at(len);
        self.0 = rest;
        (!token.is_empty()).then_some(token)
    }

    fn blanks(&mut self) {
        let len = self
            .0
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count();
        self.0 = self.0.get(len..).unwrap_or_default();
    }

    /// Goes behind the next comma that is not inside a quoted string.
    fn skip_element(&mut self) {
        let (mut quoted, mut escaped) = (false, false);
        let end = self.0.iter().position(|byte| {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                b',' => return !quoted,
                _ => {}
            }
            false
        });
        self.0 = end
            .and_then(|end| self.0.get(end + 1..))
            .unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HEAD_BYTES_MAX, parse_head};

    const MODEST: Willing = Willing {
        server_takeover: false,
        client_takeover: false,
        server_window_bits: 15,
        client_window_bits: 15,
    };
    const GENEROUS: Willing = Willing {
        server_takeover: true,
        client_takeover: true,
        server_window_bits: 13,
        client_window_bits: 12,
    };

    /// The answer to these header values, without the header's name.
    fn answer(values: &[&str], willing: &Willing) -> Option<String> {
        let mut text = "GET / HTTP/1.1\r\nHost: a\r\n".to_owned();
        for value in values {
            text.push_str(&format!("Sec-WebSocket-Extensions: {value}\r\n"));
        }
        text.push_str("\r\n");
        let head = parse_head(text.as_bytes())
            .expect("well-formed")
            .expect("complete");
        negotiate(&head, willing).map(|agreed| {
            let mut line = Vec::new();
            agreed.write_header(&mut line);
            let line = String::from_utf8_lossy(&line).into_owned();
            let rest = line
                .strip_prefix("Sec-WebSocket-Extensions: permessage-deflate")
                .expect("name");
            rest.trim_end().to_owned()
        })
    }

    #[test]
    fn good_offers_are_answered_parameter_by_parameter() {
        let both = "; server_no_context_takeover; client_no_context_takeover";
        let cases = [
            ("permessage-deflate", both.to_owned(), String::new()),
            (
                "permessage-deflate; client_max_window_bits",
                both.to_owned(),
                "; client_max_window_bits=12".into(),
            ),
            (
                "permessage-deflate;client_max_window_bits=9",
                both.to_owned(),
                "; client_max_window_bits=9".into(),
            ),
            (
                "permessage-deflate; client_max_window_bits=8",
                both.to_owned(),
                "; client_max_window_bits=8".into(),
            ),
            (
                "permessage-deflate; server_max_window_bits=\"15\"",
                format!("{both}; server_max_window_bits=15"),
                "; server_max_window_bits=13".into(),
            ),
            (
                "permessage-deflate ; server_max_window_bits = 9 ; server_no_context_takeover",
                format!("{both}; server_max_window_bits=9"),
                "; server_no_context_takeover; server_max_window_bits=9".into(),
            ),
            (
                "permessage-deflate; client_no_context_takeover",
                both.to_owned(),
                "; client_no_context_takeover".into(),
            ),
        ];
        for (offer, modest, generous) in cases {
            assert_eq!(answer(&[offer], &MODEST), Some(modest), "{offer}");
            assert_eq!(answer(&[offer], &GENEROUS), Some(generous), "{offer}");
        }
    }

    #[test]
    fn impossible_offers_are_declined() {
        for parameters in [
            "; server_max_window_bits",
            "; server_max_window_bits=",
            "; server_max_window_bits=7",
            "; server_max_window_bits=16",
            "; server_max_window_bits=08",
            "; server_max_window_bits=+9",
            "; server_max_window_bits=1000000000000",
            "; server_max_window_bits=8",
            "; server_max_window_bits=\"9",
            "; server_max_window_bits=9; server_max_window_bits=9",
            "; client_max_window_bits=7",
            "; client_max_window_bits=16",
            "; client_max_window_bits=\"\"",
            "; client_max_window_bits; client_max_window_bits=10",
            "; server_no_context_takeover=1",
            "; server_no_context_takeover; server_no_context_takeover",
            "; client_no_context_takeover=\"\"",
            "; client_no_context_takeover; client_no_context_takeover",
            "; unknown",
            "; Server_no_context_takeover",
            "; ü=1",
            ";",
            "; ;client_max_window_bits",
            " client_max_window_bits",
            "=1",
        ] {
            let offer = format!("permessage-deflate{parameters}");
            assert_eq!(answer(&[&offer], &MODEST), None, "{offer}");
            let second = format!("{offer}, permessage-deflate");
            let unclosed = parameters.contains("\"9");
            assert_eq!(answer(&[&second], &MODEST).is_none(), unclosed, "{second}");
        }
    }

    #[test]
    fn the_first_possible_offer_wins() {
        let first = "permessage-deflate; server_max_window_bits=10";
        let cases: [(&[&str], Option<&str>); 7] = [
            (&[], None),
            (&["", ",,  ,"], None),
            (
                &[
                    "x-webkit-deflate-frame",
                    "permessage-bzip2; x=\"a, permessage-deflate\"",
                ],
                None,
            ),
            (&["a;b=\"\\\", permessage-deflate\""], None),
            (
                &["a; b=\"c,d\", permessage-deflate; server_max_window_bits=10"],
                Some("; server_max_window_bits=10"),
            ),
            (
                &["permessage-deflate; nonsense", first, "permessage-deflate"],
                Some("; server_max_window_bits=10"),
            ),
            (
                &[
                    "permessage-deflate; server_max_window_bits=8, permessage-deflate; server_max_window_bits=11",
                ],
                Some("; server_max_window_bits=11"),
            ),
        ];
        for (values, expected) in cases {
            assert_eq!(answer(values, &GENEROUS).as_deref(), expected, "{values:?}");
        }
    }

    #[test]
    fn a_thousand_offers_are_read_once() {
        let unit = "permessage-deflate;x,";
        let mut offers = unit.repeat(HEAD_BYTES_MAX / unit.len() - 10);
        assert_eq!(answer(&[&offers], &MODEST), None);
        offers.push_str("permessage-deflate");
        assert!(answer(&[&offers], &MODEST).is_some());
    }
}
