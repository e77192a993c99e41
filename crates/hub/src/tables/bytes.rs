//! Numbers, texts and lists as bytes between nodes. Numbers are LEB128, texts and lists follow their length. What is read comes from
//! a stranger: a length that lies allocates nothing.

pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

pub(crate) fn names(out: &mut Vec<u8>, names: &[&str]) {
    number(out, names.len() as u64);
    names.iter().for_each(|name| bytes(out, name.as_bytes()));
}

pub(crate) fn attachments(out: &mut Vec<u8>, attachments: &[Vec<u8>]) {
    number(out, attachments.len() as u64);
    attachments.iter().for_each(|one| bytes(out, one));
}

/// Reads what others wrote. `None`: they wrote something else.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    pub(crate) fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn small(&mut self) -> Option<u16> {
        self.number()?.try_into().ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let text = std::str::from_utf8(self.bytes()?).ok()?;
        Some(text.to_owned())
    }

    /// A count that lies about what follows allocates nothing: every item is one byte at least.
    pub(crate) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = usize::try_from(self.number()?).ok()?;
        if len > self.0.len() {
            return None;
        }
        (0..len).map(|_| item(self)).collect()
    }

    pub(crate) fn names(&mut self) -> Option<Vec<String>> {
        self.list(Self::text)
    }

    pub(crate) fn attachments(&mut self) -> Option<Vec<Vec<u8>>> {
        self.list(|one| one.bytes().map(<[u8]>::to_vec))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
