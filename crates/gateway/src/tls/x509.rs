//! Two facts of a certificate, for choosing and warning: its DNS names and when it expires (RFC 5280 §4.1). rustls has checked
//! already that it is one.

/// What we want to know.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub names: Vec<String>,
    /// Seconds since 1970.
    pub not_after: Option<i64>,
}

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// Explicit tags of TBSCertificate.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// GeneralName: dNSName.
const DNS_NAME: u8 = 0x82;
/// id-ce-subjectAltName, 2.5.29.17.
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];

pub fn read(der: &[u8]) -> Option<Read> {
    let mut certificate = Elements(Elements(der).expect(SEQUENCE)?);
    let mut tbs = Elements(certificate.expect(SEQUENCE)?);
    tbs.optional(VERSION);
    tbs.expect(INTEGER)?;
    let (_algorithm, _issuer) = (tbs.expect(SEQUENCE)?, tbs.expect(SEQUENCE)?);
    let mut validity = Elements(tbs.expect(SEQUENCE)?);
    let _not_before = validity.next()?;
    let (kind, text) = validity.next()?;
    let mut read = Read {
        names: Vec::new(),
        not_after: time(kind, text),
    };
    while let Some((tag, body)) = tbs.next() {
        if tag == EXTENSIONS {
            read.names = alternative_names(body).unwrap_or_default();
        }
    }
    Some(read)
}

fn alternative_names(body: &[u8]) -> Option<Vec<String>> {
    let mut extensions = Elements(Elements(body).expect(SEQUENCE)?);
    while let Some((SEQUENCE, extension)) = extensions.next() {
        let mut extension = Elements(extension);
        let (_, oid) = extension.next()?;
        if oid != SUBJECT_ALT_NAME {
            continue;
        }
        // Between them there may be "critical".
        let value = std::iter::from_fn(|| extension.next()).find(|(tag, _)| *tag == OCTET_STRING);
        let mut names = Elements(Elements(value?.1).expect(SEQUENCE)?);
        let names = std::iter::from_fn(|| names.next()).filter(|(tag, _)| *tag == DNS_NAME);
        let text = |(_, name): (u8, &[u8])| String::from_utf8_lossy(name).into_owned();
        return Some(names.map(text).collect());
    }
    None
}

/// `YYMMDDHHMMSSZ` or the same with four digits of the year (RFC 5280 §4.1.2.5).
fn time(kind: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match kind {
        UTC_TIME => {
            let year: i64 = text.get(..2)?.parse().ok()?;
            let century = if year < 50 { 2000 } else { 1900 };
            (century + year, text.get(2..)?)
        }
        GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
        _ => return None,
    };
    let field = |n: usize| rest.get(2 * n..2 * n + 2)?.parse::<i64>().ok();
    let (month, day) = (field(0)?, field(1)?);
    let (hour, minute, second) = (field(2)?, field(3)?, field(4)?);
    let days = days_since_1970(year, month, day);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days of the Gregorian calendar, with years that begin in March: then the leap day is the last one.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 {
        (year - 1, month + 9)
    } else {
        (year, month - 3)
    };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    // 1970-01-01 is day 719468 of this count.
    year * 365 + leap_days + day_of_year - 719_468
}

/// The elements of a DER value, one after another.
struct Elements<'a>(&'a [u8]);

impl<'a> Elements<'a> {
    /// Tag and content of the next one.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (len, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let shift = |len: usize, digit: &u8| len.checked_mul(256)?.checked_add((*digit).into());
            (digits.iter().try_fold(0, shift)?, rest)
        };
        let (body, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((tag, body))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .filter(|(found, _)| *found == tag)
            .map(|(_, body)| body)
    }

    fn optional(&mut self, tag: u8) {
        if self.0.first() == Some(&tag) {
            self.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_end_of_a_certificate() {
        let names = ["chat.example.org".to_owned(), "*.example.net".to_owned()];
        let mut params = rcgen::CertificateParams::new(names.to_vec()).expect("names");
        let key = rcgen::KeyPair::generate().expect("a key");
        // One year in each of the two ways of writing it.
        for (year, not_after) in [(2031, 1_930_953_600), (2052, 2_593_728_000)] {
            params.not_after = rcgen::date_time_ymd(year, 3, 11);
            let made = params.self_signed(&key).expect("a certificate");
            let read = read(made.der()).expect("facts");
            assert_eq!(read.names, names);
            assert_eq!(read.not_after, Some(not_after), "{year}");
        }
    }

    #[test]
    fn what_is_cut_off_is_nothing() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let params = rcgen::CertificateParams::new(["a.example".to_owned()]).expect("names");
        let made = params.self_signed(&key).expect("a certificate");
        for len in 0..made.der().len() {
            assert_eq!(read(&made.der()[..len]), None, "{len}");
        }
    }
}
