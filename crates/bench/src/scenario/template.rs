//! Owns texts with holes: `room-${user % 50}`. A template is compiled once, when the scenario is
//! read, and rendered for each user or message without looking at its source again.
//!
//! A hole is arithmetic over whole numbers (`user`, `users`, `iteration`, `seq`, `random(a, b)`,
//! variables) or one of the texts `stamp`, `fill` and `text(n)`.

use super::expression::{self, Expression, LETTERS_MAX, shown};
use fastrand::Rng;
use std::collections::BTreeMap;

/// The error of a text whose fault was told where it is: repeating it helps nobody.
pub const TOLD: &str = "";
/// Bytes of a template with its variables filled in. Each may hold the one before it twice.
const SIZE_MAX: usize = 1 << 20;
/// What an operand of a hole counts, in bytes.
const NODE_SIZE: usize = 32;

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
    /// Its line comes later in the file.
    Below,
    /// What is wrong with it was told.
    Unreadable,
}

pub type Variables = BTreeMap<String, Variable>;

impl Template {
    /// Compiles `text`; the error says what is wrong with which hole, or is `TOLD`.
    pub fn compile(text: &str, variables: &Variables) -> Result<Template, String> {
        let mut building = Building {
            variables,
            parts: Vec::new(),
            size: 0,
        };
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            building.text(&rest[..start])?;
            let hole = &rest[start + 2..];
            let end = hole
                .find('}')
                .ok_or_else(|| format!("\"${{\" without \"}}\" in {}", shown(text)))?;
            building.hole(hole[..end].trim())?;
            rest = &hole[end + 1..];
        }
        building.text(rest)?;
        Ok(Template {
            parts: building.parts,
        })
    }

    /// `"${stamp}${fill}"`, in its quotes.
    pub fn stamp_and_fill() -> Template {
        let quote = || Part::Text("\"".into());
        Template {
            parts: vec![quote(), Part::Stamp, Part::Fill, quote()],
        }
    }

    /// It gives no text at all, whoever asks.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
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
        dice: &mut Rng,
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
    pub fn text(&self, scope: &Scope, dice: &mut Rng) -> String {
        let mut out = Vec::new();
        self.render(&mut out, scope, dice, 0, |_| {});
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// A template that grows part by part.
struct Building<'v> {
    variables: &'v Variables,
    parts: Vec<Part>,
    size: usize,
}

impl Building<'_> {
    fn grow(&mut self, size: usize) -> Result<(), String> {
        self.size = self.size.saturating_add(size);
        match self.size > SIZE_MAX {
            true => Err(format!(
                "with its variables filled in it is longer than {SIZE_MAX} bytes; for a long \
                 payload use \"size\" and \"${{fill}}\""
            )),
            false => Ok(()),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), String> {
        self.grow(text.len())?;
        match self.parts.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.parts.push(Part::Text(text.to_owned())),
        }
        Ok(())
    }

    fn part(&mut self, part: Part) -> Result<(), String> {
        let nodes = match &part {
            Part::Number(expression) | Part::Letters(expression) => expression.nodes(),
            Part::Text(text) => return self.text(text),
            Part::Stamp | Part::Fill => 1,
        };
        self.grow(nodes * NODE_SIZE)?;
        self.parts.push(part);
        Ok(())
    }

    fn hole(&mut self, hole: &str) -> Result<(), String> {
        match (hole, self.variables.get(hole)) {
            ("stamp", _) => self.part(Part::Stamp),
            ("fill", _) => self.part(Part::Fill),
            (_, Some(Variable::Text(template))) => template
                .parts
                .iter()
                .try_for_each(|part| self.part(part.clone())),
            // The name of a variable may look like arithmetic: `room-1`.
            (_, Some(Variable::Number(number))) => {
                self.part(Part::Number(Expression::Number(*number)))
            }
            (name, Some(Variable::Below)) => Err(expression::defined_below(name)),
            (_, Some(Variable::Unreadable)) => Err(TOLD.into()),
            (_, None) => self.part(number(hole, self.variables)?),
        }
    }
}

fn number(hole: &str, variables: &Variables) -> Result<Part, String> {
    let letters = hole
        .strip_prefix("text(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(count) = letters else {
        return Ok(Part::Number(expression::compile(hole, variables)?));
    };
    let count = expression::compile(count, variables)?;
    match count {
        Expression::Number(count) if !(0..=LETTERS_MAX).contains(&count) => Err(format!(
            "text({count}): give a number from 0 to {LETTERS_MAX}"
        )),
        count => Ok(Part::Letters(count)),
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

fn push_letters(out: &mut Vec<u8>, count: i64, dice: &mut Rng) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz      ";
    let count = count.clamp(0, LETTERS_MAX) as usize;
    out.extend((0..count).map(|_| LETTERS[dice.usize(..LETTERS.len())]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(text: &str, variables: &Variables, scope: Scope, size: usize) -> String {
        let template = Template::compile(text, variables).unwrap();
        let mut out = Vec::new();
        template.render(&mut out, &scope, &mut Rng::with_seed(1), size, |out| {
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

    #[test]
    fn what_grows_without_end_is_refused() {
        let mut variables = Variables::new();
        variables.insert(
            "v0".into(),
            Variable::Text(Template::compile("ab", &variables).unwrap()),
        );
        variables.insert(
            "n0".into(),
            Variable::Text(Template::compile("${user}", &variables).unwrap()),
        );
        let mut refused = Vec::new();
        for (kind, number) in (1..=40).flat_map(|number| [("v", number), ("n", number)]) {
            let before = number - 1;
            let text = format!("${{{kind}{before}}}${{{kind}{before}}}");
            let variable = match Template::compile(&text, &variables) {
                Ok(template) => Variable::Text(template),
                Err(error) => {
                    refused.push(error);
                    Variable::Unreadable
                }
            };
            variables.insert(format!("{kind}{number}"), variable);
        }
        let (told, silent): (Vec<_>, Vec<_>) = refused.iter().partition(|error| !error.is_empty());
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(
            told.iter()
                .all(|error| error.contains("longer than 1048576 bytes")),
            "{told:?}"
        );
        assert!(silent.len() > 30, "uses of a refused variable add nothing");
    }
}
