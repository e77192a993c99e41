//! Owns the arithmetic in holes: whole numbers, `+ - * / %`, parentheses, names and `random(a, b)`.

use fastrand::Rng;

/// Bytes of one hole: reading brackets inside each other takes stack.
const BYTES_MAX: usize = 1_000;

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

/// The number that a variable stands for, or why the word stands for none.
pub type Variable<'a> = &'a dyn Fn(&str) -> Result<i64, String>;

#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Number(i64),
    Name(Name),
    /// From the first to the second, both included.
    Random(Box<[Expression; 2]>),
    Binary(char, Box<[Expression; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    User,
    Users,
    Iteration,
    Seq,
}

pub const NAMES: [(&str, Name); 4] = [
    ("user", Name::User),
    ("users", Name::Users),
    ("iteration", Name::Iteration),
    ("seq", Name::Seq),
];

impl Expression {
    /// Division by zero is zero, and what is too large is the largest there is: a run must not end
    /// over a message's text. Mistakes that do not depend on names were refused when it was read.
    pub fn value(&self, scope: &Scope, dice: &mut Rng) -> i64 {
        match self {
            Expression::Number(number) => *number,
            Expression::Name(name) => name.value(scope),
            Expression::Random(bounds) => {
                let (low, high) = (bounds[0].value(scope, dice), bounds[1].value(scope, dice));
                dice.i64(low..=high.max(low))
            }
            Expression::Binary(operator, sides) => {
                let (a, b) = (sides[0].value(scope, dice), sides[1].value(scope, dice));
                match operator {
                    '+' => a.saturating_add(b),
                    '-' => a.saturating_sub(b),
                    '*' => a.saturating_mul(b),
                    '/' if b != 0 => a.saturating_div(b),
                    '%' if b != 0 => a.wrapping_rem(b),
                    _ => 0,
                }
            }
        }
    }
}

impl Name {
    fn value(self, scope: &Scope) -> i64 {
        let value = match self {
            Name::User => scope.user,
            Name::Users => scope.users,
            Name::Iteration => scope.iteration,
            Name::Seq => scope.seq,
        };
        value as i64
    }
}

pub fn compile(text: &str, variable: Variable<'_>) -> Result<Expression, String> {
    let mut parser = Parser {
        text,
        rest: text.trim_start(),
        variable,
    };
    if text.len() > BYTES_MAX {
        return Err(parser.unreadable(&format!("it is longer than {BYTES_MAX} bytes")));
    }
    let expression = parser.sum()?;
    match parser.rest {
        "" => Ok(expression),
        rest => Err(parser.unreadable(&format!("{} is not expected there", shown(rest)))),
    }
}

/// Quoted, and cut where it is too long for a message.
pub fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 60;
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    variable: Variable<'a>,
}

impl<'a> Parser<'a> {
    fn unreadable(&self, why: &str) -> String {
        format!("cannot read {}: {why}", shown(self.text))
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take_any(&['+', '-']) {
            let right = self.product()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.take_any(&['*', '/', '%']) {
            let right = self.atom()?;
            left = self.binary(operator, left, right)?;
        }
        Ok(left)
    }

    /// Numbers are computed at once, which finds impossible ones.
    fn binary(
        &self,
        operator: char,
        left: Expression,
        right: Expression,
    ) -> Result<Expression, String> {
        if matches!(operator, '/' | '%') && right == Expression::Number(0) {
            let why =
                format!("what stands behind {operator:?} is always 0, divide by another number");
            return Err(self.unreadable(&why));
        }
        let (&Expression::Number(a), &Expression::Number(b)) = (&left, &right) else {
            return Ok(Expression::Binary(operator, Box::new([left, right])));
        };
        let value = match operator {
            '+' => a.checked_add(b),
            '-' => a.checked_sub(b),
            '*' => a.checked_mul(b),
            '/' => a.checked_div(b),
            _ => Some(a.wrapping_rem(b)),
        };
        value.map(Expression::Number).ok_or_else(|| {
            let why = format!("{a} {operator} {b} is too large, {} is the most", i64::MAX);
            self.unreadable(&why)
        })
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.take_any(&['(']).is_some() {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(self.unreadable("a number or a name is missing"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return number(word).map(Expression::Number);
        }
        if word == "random" {
            return self.random();
        }
        self.name(word)
    }

    fn random(&mut self) -> Result<Expression, String> {
        self.expect('(')?;
        let low = self.sum()?;
        self.expect(',')?;
        let high = self.sum()?;
        self.expect(')')?;
        match (&low, &high) {
            (Expression::Number(a), Expression::Number(b)) if a > b => Err(format!(
                "random({a}, {b}): the first number is above the second, write random({b}, {a})"
            )),
            _ => Ok(Expression::Random(Box::new([low, high]))),
        }
    }

    fn name(&self, word: &str) -> Result<Expression, String> {
        match NAMES.iter().find(|(name, _)| *name == word) {
            Some((_, name)) => Ok(Expression::Name(*name)),
            None => (self.variable)(word).map(Expression::Number),
        }
    }

    fn word(&mut self) -> &'a str {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        // A minus belongs to a name like `room-size`, but not to `user-1` with a number in front.
        let digits = self.rest.starts_with(|c: char| c.is_ascii_digit());
        let end = self
            .rest
            .find(|c: char| !is_part(c) || (digits && c == '-'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        word
    }

    fn take_any(&mut self, wanted: &[char]) -> Option<char> {
        let first = self.rest.chars().next().filter(|c| wanted.contains(c))?;
        self.rest = self.rest[1..].trim_start();
        Some(first)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.take_any(&[wanted]) {
            Some(_) => Ok(()),
            None => Err(self.unreadable(&format!("{wanted:?} is missing"))),
        }
    }
}

fn number(word: &str) -> Result<i64, String> {
    let digits = word.replace('_', "");
    digits
        .parse()
        .map_err(|_| match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => format!(
                "{} is too large: {} is the largest number",
                shown(word),
                i64::MAX
            ),
            false => format!("{} is no whole number", shown(word)),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, String> {
        let scope = Scope {
            user: 17,
            users: 100,
            iteration: 2,
            seq: 5,
        };
        let variable = |word: &str| match word {
            "room-size" => Ok(5),
            _ => Err(format!("unknown name {word:?}")),
        };
        compile(text, &variable).map(|e| e.value(&scope, &mut Rng::with_seed(3)))
    }

    #[test]
    fn products_bind_tighter_and_names_have_values() {
        assert_eq!(value("1 + 2 * 3"), Ok(7));
        assert_eq!(value("(1 + 2) * 3"), Ok(9));
        assert_eq!(value("user / room-size"), Ok(3));
        assert_eq!(value("user % 10 + iteration * seq"), Ok(17));
        assert_eq!(value("users / (user - 17)"), Ok(0));
        assert_eq!(value("users % (user - 17)"), Ok(0));
        assert!((3..=4).contains(&value("random(3, 4)").unwrap()));
    }

    #[test]
    fn what_is_wrong_for_every_user_is_refused_and_the_rest_saturates() {
        let table = "1/0 => always 0
            user / 0 => cannot read \"user / 0\": what stands behind '/' is always 0
            user % (room-size - 5) => '%' is always 0
            9223372036854775807 + 1 => 9223372036854775807 + 1 is too large
            4_000_000_000 * 4_000_000_000 => is too large
            99999999999999999999 => \"99999999999999999999\" is too large
            random(5, 1) => write random(1, 5)
            3 + stamp => unknown name \"stamp\"";
        for (text, told) in table.lines().filter_map(|line| line.split_once(" => ")) {
            let error = value(text.trim()).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        assert_eq!(value("user * 9223372036854775807"), Ok(i64::MAX));
        assert_eq!(value("0 - user * 9223372036854775807 - 2"), Ok(i64::MIN));
        assert_eq!(value("(0 - 9223372036854775807 - 1) % (0 - 1)"), Ok(0));
        assert_eq!(value("random(user, 1)"), Ok(17), "the lower bound");
    }

    #[test]
    fn what_would_fill_the_stack_is_refused() {
        let nested = |depth: usize| "(".repeat(depth) + "user" + &")".repeat(depth);
        assert_eq!(value(&nested(498)), Ok(17));
        for text in [nested(50_000), "user+".repeat(50_000)] {
            let error = value(&text).unwrap_err();
            assert!(error.ends_with("longer than 1000 bytes"), "{error}");
            assert!(error.len() < 200, "{error}");
        }
    }
}
