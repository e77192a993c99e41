//! Walks through one transcript and compares what each client receives with what it says.

use super::frames::{self, Item};
use super::script::{Line, Script, Step};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a client's connection brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    Bytes(Vec<u8>),
    /// Nothing within the world's patience.
    Nothing,
    /// The server ended the stream.
    End,
}

/// Where a transcript is played. Connections have names.
pub trait World {
    fn open(&mut self, conn: &str);
    fn send(&mut self, conn: &str, bytes: &[u8]);
    /// The client ends its side of the stream.
    fn end(&mut self, conn: &str);
    /// `patient`: wait as long as a healthy server may need.
    fn receive(&mut self, conn: &str, patient: bool) -> Received;
    fn pass(&mut self, time: Duration);
    fn drain(&mut self);
    /// Everything a step causes is there when the step returns: nothing may be left over before the next one.
    fn is_exact(&self) -> bool;
}

#[derive(Debug, Default)]
struct Link {
    buf: Vec<u8>,
    frames: bool,
    ended: bool,
}

/// A transcript being played.
struct Player<'a> {
    world: &'a mut dyn World,
    links: BTreeMap<String, Link>,
    /// What `$names` stand for.
    names: BTreeMap<String, String>,
}

/// Plays a script; the error names file, line, what was expected and what came.
pub fn play(script: &Script, world: &mut dyn World) -> Result<(), String> {
    let mut player = Player {
        world,
        links: BTreeMap::new(),
        names: BTreeMap::new(),
    };
    for line in &script.lines {
        player
            .step(line)
            .map_err(|problem| format!("{}.txt:{}: {problem}", script.name, line.number))?;
    }
    player
        .quiet()
        .map_err(|problem| format!("{}.txt, at its end: {problem}", script.name))
}

impl Player<'_> {
    fn step(&mut self, line: &Line) -> Result<(), String> {
        if self.world.is_exact() && !matches!(line.step, Step::Expect { .. }) {
            self.quiet()?;
        }
        match &line.step {
            Step::Send {
                conn,
                what,
                headers,
            } => self.send(conn, what, headers),
            Step::Expect {
                conn,
                what,
                headers,
            } => self.expect(conn, what, headers)?,
            Step::Pass(time) => self.world.pass(*time),
            Step::Drain => self.world.drain(),
        }
        Ok(())
    }

    fn send(&mut self, conn: &str, what: &str, headers: &[String]) {
        if !self.links.contains_key(conn) {
            self.links.insert(conn.to_owned(), Link::default());
            self.world.open(conn);
        }
        let what = self.fill_in(what);
        let (word, rest) = what.split_once(' ').unwrap_or((&what, ""));
        match word {
            "end" => self.world.end(conn),
            "raw" => self.world.send(conn, &raw(rest)),
            _ if self.links[conn].frames => self.world.send(conn, &frames::frame(&what)),
            _ => self.world.send(conn, &frames::request(&what, headers)),
        }
    }

    /// Puts values where the script has names.
    fn fill_in(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, name, after)) = next_name(rest) {
            out.push_str(before);
            match self.names.get(name) {
                Some(value) => out.push_str(value),
                None => panic!("${name} has no value yet"),
            }
            rest = after;
        }
        out + rest
    }

    fn expect(&mut self, conn: &str, what: &str, headers: &[String]) -> Result<(), String> {
        let came = self.next(conn, true)?;
        let Some(item) = came else {
            let left = self.links.get(conn).map_or_else(String::new, |link| {
                format!(" ({} bytes of something incomplete)", link.buf.len())
            });
            return Err(format!("{conn} waits for {what:?}; nothing came{left}"));
        };
        if !self.agrees(what, &item.text) {
            let names = &self.names;
            return Err(format!(
                "{conn} waits for {what:?}; got {:?} ({names:?})",
                item.text
            ));
        }
        for header in headers {
            if !item.headers.contains(header) {
                return Err(format!(
                    "{conn} waits for header {header:?}; got {:?}",
                    item.headers
                ));
            }
        }
        Ok(())
    }

    /// Compares, and gives new names their values.
    fn agrees(&mut self, pattern: &str, actual: &str) -> bool {
        let (mut pattern, mut actual) = (pattern, actual);
        while let Some((before, name, after)) = next_name(pattern) {
            let Some(rest) = actual.strip_prefix(before) else {
                return false;
            };
            let known = self.names.get(name).cloned();
            let value = known.unwrap_or_else(|| {
                let end = rest.find(|c: char| !is_id(c)).unwrap_or(rest.len());
                rest[..end].to_owned()
            });
            let Some(rest) = rest.strip_prefix(value.as_str()) else {
                return false;
            };
            self.names.insert(name.to_owned(), value);
            (pattern, actual) = (after, rest);
        }
        pattern == actual
    }

    /// The next thing a client receives.
    fn next(&mut self, conn: &str, patient: bool) -> Result<Option<Item>, String> {
        loop {
            let link = self
                .links
                .get_mut(conn)
                .ok_or_else(|| format!("{conn} never spoke"))?;
            let parsed = if link.frames {
                frames::incoming(&link.buf)
            } else {
                frames::response(&link.buf)
            };
            if let Some((item, len)) = parsed {
                link.buf.drain(..len);
                link.frames |= item.upgraded;
                return Ok(Some(item));
            }
            if link.ended {
                return Ok(None);
            }
            match self.world.receive(conn, patient) {
                Received::Bytes(bytes) => link.buf.extend_from_slice(&bytes),
                Received::Nothing => return Ok(None),
                Received::End => {
                    link.ended = true;
                    let (headers, upgraded) = (Vec::new(), false);
                    return Ok(Some(Item {
                        text: "end".to_owned(),
                        headers,
                        upgraded,
                    }));
                }
            }
        }
    }

    /// Nobody has received anything that the script does not mention, but for ends of streams.
    fn quiet(&mut self) -> Result<(), String> {
        let conns: Vec<String> = self.links.keys().cloned().collect();
        for conn in conns {
            if let Some(item) = self.next(&conn, false)?
                && item.text != "end"
            {
                return Err(format!("{conn} got {:?}, which nobody expects", item.text));
            }
        }
        Ok(())
    }
}

/// The first `$name` of a text, with what stands before and behind it.
fn next_name(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find('$').map(|at| from + at) {
        let name = &text[at + 1..];
        let end = name
            .find(|c: char| !c.is_ascii_lowercase())
            .unwrap_or(name.len());
        if end > 0 {
            return Some((&text[..at], &name[..end], &name[end..]));
        }
        from = at + 1;
    }
    None
}

/// Characters of ids and numbers: what a new name stands for.
fn is_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Bytes as they are: `hex 01 02`, or text with \r, \n and \\.
fn raw(text: &str) -> Vec<u8> {
    match text.strip_prefix("hex ") {
        Some(digits) => frames::hex(digits),
        None => text
            .replace("\\r", "\r")
            .replace("\\n", "\n")
            .replace("\\\\", "\\")
            .into_bytes(),
    }
}
