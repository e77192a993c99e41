//! Owns texts with holes: `room-${user % 50}`. A template is compiled once, when the scenario is
//! read, and rendered for each user or message without looking at its source again.
//!
//! A hole is arithmetic over whole numbers (`user`, `users`, `iteration`, `seq`, `random(a, b)`,
//! variables) or one of the texts `stamp`, `fill` and `text(n)`.

use super::expression::{self, Expression};
use std::collections::BTreeMap;

/// What a hole's numbers mean at the moment of rendering.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope {
    /// Number of the user, from 0, over all workers.
    pub user: u64,
    /// Users that the scenario has in all, as scaled.
    pub users: u64,
    /// Rounds done of the innermost loop.
    pub iteration: u64,
    /// Messages this user has sent.
    pub seq: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Number(Expression),
    /// So many random letters.
    Letters(Expression),
    /// Replaced by the message's identity, which makes it countable.
    Stamp,
    /// Letters up to the payload's size.
    Fill,
}

/// A variable's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Variable {
    Number(i64),
    Text(Template),
}

pub type Variables = BTreeMap<String, Variable>;

/// Where random numbers come from: xorshift, seeded by user so that a run repeats itself.
#[derive(Clone, Copy, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn seeded(seed: u64) -> Self {
        // splitmix64's finalizer: neighbouring seeds must not give neighbouring numbers.
        let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Dice((x ^ (x >> 31)) | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 up to, but without, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.roll() >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl Template {
    /// Compiles `text`; the error says what is wrong with which hole.
    pub fn compile(text: &str, variables: &Variables) -> Result<Template, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            push_text(&mut parts, &rest[..start]);
            let hole = &rest[start + 2..];
            let end = hole
                .find('}')
                .ok_or_else(|| format!("\"${{\" without \"}}\" in {text:?}"))?;
            compile_hole(hole[..end].trim(), variables, &mut parts)?;
            rest = &hole[end + 1..];
        }
        push_text(&mut parts, rest);
        Ok(Template { parts })
    }

    pub fn is_constant(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    pub fn stamps(&self) -> usize {
        self.parts
            .iter()
            .filter(|part| **part == Part::Stamp)
            .count()
    }

    pub fn has_fill(&self) -> bool {
        self.parts.contains(&Part::Fill)
    }

    /// Bytes in front of the stamp that could be taken for one.
    pub fn marks_before_stamp(&self) -> bool {
        let fixed = self.parts.iter().take_while(|part| **part != Part::Stamp);
        fixed
            .filter_map(|part| match part {
                Part::Text(text) => Some(text),
                _ => None,
            })
            .any(|text| text.contains('~'))
    }

    /// Appends the text. `stamp` writes the stamp, `size` is what `fill` fills up to.
    pub fn render(
        &self,
        out: &mut Vec<u8>,
        scope: &Scope,
        dice: &mut Dice,
        size: usize,
        stamp: impl Fn(&mut Vec<u8>),
    ) {
        let start = out.len();
        let mut fill_at = None;
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Number(number) => push_decimal(out, number.value(scope, dice)),
                Part::Letters(count) => push_letters(out, count.value(scope, dice), dice),
                Part::Stamp => stamp(out),
                Part::Fill => fill_at = Some(out.len()),
            }
        }
        let lacking = (start + size).saturating_sub(out.len());
        if let Some(at) = fill_at.filter(|_| lacking > 0) {
            let tail = out.len() - at;
            out.resize(out.len() + lacking, b'x');
            out.copy_within(at..at + tail, at + lacking);
            out[at..at + lacking].fill(b'x');
        }
    }

    /// The text for a user outside of any message.
    pub fn text(&self, scope: &Scope, dice: &mut Dice) -> String {
        let mut out = Vec::new();
        self.render(&mut out, scope, dice, 0, |_| {});
        String::from_utf8_lossy(&out).into_owned()
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        _ => parts.push(Part::Text(text.to_owned())),
    }
}

fn compile_hole(hole: &str, variables: &Variables, parts: &mut Vec<Part>) -> Result<(), String> {
    match hole {
        "stamp" => parts.push(Part::Stamp),
        "fill" => parts.push(Part::Fill),
        _ => match variables.get(hole) {
            Some(Variable::Text(template)) => {
                for part in &template.parts {
                    match part {
                        Part::Text(text) => push_text(parts, text),
                        other => parts.push(other.clone()),
                    }
                }
            }
            _ => parts.push(compile_number(hole, variables)?),
        },
    }
    Ok(())
}

fn compile_number(hole: &str, variables: &Variables) -> Result<Part, String> {
    let letters = hole
        .strip_prefix("text(")
        .and_then(|rest| rest.strip_suffix(')'));
    match letters {
        Some(count) => Ok(Part::Letters(expression::compile(count, variables)?)),
        None => Ok(Part::Number(expression::compile(hole, variables)?)),
    }
}

fn push_decimal(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn push_letters(out: &mut Vec<u8>, count: i64, dice: &mut Dice) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";
    let count = usize::try_from(count).unwrap_or(0).min(1 << 20);
    out.extend((0..count).map(|_| LETTERS[(dice.roll() >> 20) as usize % LETTERS.len()]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, variables: &Variables, scope: Scope, size: usize) -> String {
        let template = Template::compile(text, variables).unwrap();
        let mut out = Vec::new();
        template.render(&mut out, &scope, &mut Dice::seeded(1), size, |out| {
            out.extend_from_slice(b"~s");
        });
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn holes_are_filled() {
        let mut variables = Variables::new();
        variables.insert("rooms".into(), Variable::Number(50));
        let room = Template::compile("room-${user % rooms}", &variables).unwrap();
        variables.insert("room".into(), Variable::Text(room));
        let scope = Scope {
            user: 123,
            ..Scope::default()
        };
        assert_eq!(render("${room}!", &variables, scope, 0), "room-23!");
        assert_eq!(
            render("{\"t\":\"${stamp}${fill}\"}", &variables, scope, 20),
            "{\"t\":\"~sxxxxxxxxxx\"}"
        );
        assert_eq!(render("${text(7)}", &variables, scope, 0).len(), 7);
    }

    #[test]
    fn wrong_holes_are_explained() {
        let variables = Variables::new();
        let error = |text| Template::compile(text, &variables).unwrap_err();
        assert_eq!(error("a ${user"), "\"${\" without \"}\" in \"a ${user\"");
        assert_eq!(
            error("${usr}"),
            "unknown name \"usr\" (did you mean \"user\"?)"
        );
    }
}
