//! Owns texts with holes: `room-${user % 50}`. A template is compiled once, when the scenario is
//! read, and rendered for each user or message without looking at its source again.
//!
//! A hole is arithmetic over whole numbers (`user`, `users`, `iteration`, `seq`, `random(a, b)`,
//! variables) or one of the texts `stamp`, `fill` and `text(n)`.

pub use super::expression::Scope;
use super::expression::{self, Expression, NAMES, shown};
use super::problem::suggestion;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io::Write;

/// The error of a text whose fault was told where it is: repeating it helps nobody.
pub const TOLD: &str = "";
/// Bytes of a template with its variables filled in. Each may hold the one before it twice.
const SIZE_MAX: usize = 1 << 20;
/// Random letters of one hole.
const LETTERS_MAX: i64 = 1 << 20;

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
        let mut template = Template { parts: Vec::new() };
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            template.push(Part::Text(rest[..start].to_owned()));
            let hole = &rest[start + 2..];
            let end = hole
                .find('}')
                .ok_or_else(|| format!("\"${{\" without \"}}\" in {}", shown(text)))?;
            template.hole(hole[..end].trim(), variables)?;
            rest = &hole[end + 1..];
        }
        template.push(Part::Text(rest.to_owned()));
        let size: usize = template.parts.iter().map(Part::size).sum();
        match size > SIZE_MAX {
            true => Err(format!(
                "with its variables filled in it is longer than {SIZE_MAX} bytes; for a long \
                 payload use \"size\" and \"${{fill}}\""
            )),
            false => Ok(template),
        }
    }

    fn push(&mut self, part: Part) {
        match (self.parts.last_mut(), part) {
            (_, Part::Text(text)) if text.is_empty() => {}
            (Some(Part::Text(last)), Part::Text(text)) => last.push_str(&text),
            (_, part) => self.parts.push(part),
        }
    }

    fn hole(&mut self, hole: &str, variables: &Variables) -> Result<(), String> {
        match (hole, variables.get(hole)) {
            ("stamp", _) => self.push(Part::Stamp),
            ("fill", _) => self.push(Part::Fill),
            (_, Some(Variable::Text(template))) => {
                template
                    .parts
                    .iter()
                    .for_each(|part| self.push(part.clone()));
            }
            // The name of a variable may look like arithmetic: `room-1`.
            (_, Some(Variable::Number(number))) => {
                self.push(Part::Number(Expression::Number(*number)));
            }
            (name, Some(_)) => {
                number_of(name, variables)?;
            }
            (_, None) => self.push(number(hole, variables)?),
        }
        Ok(())
    }

    /// `"${stamp}${fill}"`, in its quotes.
    pub fn stamp_and_fill() -> Template {
        let quote = || Part::Text("\"".into());
        Template {
            parts: vec![quote(), Part::Stamp, Part::Fill, quote()],
        }
    }

    /// It gives no text to any user.
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
                Part::Number(number) => {
                    // Writing to memory cannot fail.
                    let _ = write!(out, "{}", number.value(scope, dice));
                }
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

impl Part {
    fn size(&self) -> usize {
        match self {
            Part::Text(text) => text.len(),
            _ => size_of::<Part>(),
        }
    }
}

/// The number that a variable stands for.
fn number_of(word: &str, variables: &Variables) -> Result<i64, String> {
    match variables.get(word) {
        Some(Variable::Number(number)) => Ok(*number),
        Some(Variable::Text(_)) => Err(format!("variable {word:?} is text, not a number")),
        Some(Variable::Below) => Err(format!(
            "variable {word:?} is defined below: it must stand above the first one that uses it"
        )),
        Some(Variable::Unreadable) => Err(TOLD.into()),
        None if matches!(word, "stamp" | "fill" | "text") => Err(format!(
            "{word:?} is a text and stands in a hole of its own"
        )),
        None => {
            let own = variables.keys().map(String::as_str);
            let known = NAMES.iter().map(|(name, _)| *name);
            let known = known.chain(["random", "stamp", "fill", "text"]).chain(own);
            let hint = suggestion(word, known);
            Err(format!("unknown name {}{hint}", shown(word)))
        }
    }
}

fn number(hole: &str, variables: &Variables) -> Result<Part, String> {
    let letters = hole
        .strip_prefix("text(")
        .and_then(|rest| rest.strip_suffix(')'));
    let variable = |word: &str| number_of(word, variables);
    let Some(count) = letters else {
        return Ok(Part::Number(expression::compile(hole, &variable)?));
    };
    let count = expression::compile(count, &variable)?;
    match count {
        Expression::Number(count) if !(0..=LETTERS_MAX).contains(&count) => Err(format!(
            "text({count}): give a number from 0 to {LETTERS_MAX}"
        )),
        count => Ok(Part::Letters(count)),
    }
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
        assert!(error("${3 + stamp}").starts_with("\"stamp\" is a text"));
    }
}
