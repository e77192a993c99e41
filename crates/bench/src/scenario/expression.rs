//! Owns the arithmetic in holes: whole numbers, `+ - * / %`, parentheses, names and `random(a, b)`.

use super::problem::suggestion;
use super::template::{Dice, Scope, Variable, Variables};

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

const NAMES: [(&str, Name); 4] = [
    ("user", Name::User),
    ("users", Name::Users),
    ("iteration", Name::Iteration),
    ("seq", Name::Seq),
];

impl Expression {
    /// Division by zero is zero: a run must not end over a message's text.
    pub fn value(&self, scope: &Scope, dice: &mut Dice) -> i64 {
        match self {
            Expression::Number(number) => *number,
            Expression::Name(name) => name.value(scope),
            Expression::Random(bounds) => {
                let (low, high) = (bounds[0].value(scope, dice), bounds[1].value(scope, dice));
                let span = high.saturating_sub(low).max(0) as u64 + 1;
                low.saturating_add((dice.roll() % span) as i64)
            }
            Expression::Binary(operator, sides) => {
                let (a, b) = (sides[0].value(scope, dice), sides[1].value(scope, dice));
                match operator {
                    '+' => a.wrapping_add(b),
                    '-' => a.wrapping_sub(b),
                    '*' => a.wrapping_mul(b),
                    '/' => a.checked_div(b).unwrap_or(0),
                    _ => a.checked_rem(b).unwrap_or(0),
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

pub fn compile(text: &str, variables: &Variables) -> Result<Expression, String> {
    let mut parser = Parser {
        text,
        rest: text.trim_start(),
        variables,
    };
    let expression = parser.sum()?;
    match parser.rest {
        "" => Ok(expression),
        rest => Err(format!(
            "cannot read {text:?}: {rest:?} is not expected there"
        )),
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    variables: &'a Variables,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.take_any(&['+', '-']) {
            left = Expression::Binary(operator, Box::new([left, self.product()?]));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.take_any(&['*', '/', '%']) {
            left = Expression::Binary(operator, Box::new([left, self.atom()?]));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.take_any(&['(']).is_some() {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(format!(
                "cannot read {:?}: a number or a name is missing",
                self.text
            ));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let number = word.replace('_', "").parse();
            return number
                .map(Expression::Number)
                .map_err(|_| format!("{word:?} is no whole number"));
        }
        if word == "random" {
            self.expect('(')?;
            let low = self.sum()?;
            self.expect(',')?;
            let high = self.sum()?;
            self.expect(')')?;
            return Ok(Expression::Random(Box::new([low, high])));
        }
        self.name(word)
    }

    fn name(&self, word: &'a str) -> Result<Expression, String> {
        if let Some((_, name)) = NAMES.iter().find(|(name, _)| *name == word) {
            return Ok(Expression::Name(*name));
        }
        match self.variables.get(word) {
            Some(Variable::Number(number)) => Ok(Expression::Number(*number)),
            Some(Variable::Text(_)) => Err(format!("variable {word:?} is text, not a number")),
            None => {
                let own = self.variables.keys().map(String::as_str);
                let known = NAMES.iter().map(|(name, _)| *name);
                let known = known.chain(["random", "stamp", "fill", "text"]).chain(own);
                Err(format!("unknown name {word:?}{}", suggestion(word, known)))
            }
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
            None => Err(format!(
                "cannot read {:?}: {wanted:?} is missing",
                self.text
            )),
        }
    }
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
        let mut variables = Variables::new();
        variables.insert("room-size".into(), Variable::Number(5));
        compile(text, &variables).map(|e| e.value(&scope, &mut Dice::seeded(3)))
    }

    #[test]
    fn products_bind_tighter_and_names_have_values() {
        assert_eq!(value("1 + 2 * 3"), Ok(7));
        assert_eq!(value("(1 + 2) * 3"), Ok(9));
        assert_eq!(value("user / room-size"), Ok(3));
        assert_eq!(value("user % 10 + iteration * seq"), Ok(17));
        assert_eq!(value("users / 0"), Ok(0));
        assert!((3..=4).contains(&value("random(3, 4)").unwrap()));
    }

    #[test]
    fn errors_say_what_is_missing() {
        assert_eq!(
            value("1 +").unwrap_err(),
            "cannot read \"1 +\": a number or a name is missing"
        );
        assert_eq!(
            value("random(1").unwrap_err(),
            "cannot read \"random(1\": ',' is missing"
        );
        assert_eq!(
            value("1 2").unwrap_err(),
            "cannot read \"1 2\": \"2\" is not expected there"
        );
    }
}
