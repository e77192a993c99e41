//! Arguments in the place of those that were not recorded: of the same types, and nearly the same sizes.

use wire::json;

/// More is not made for one event.
const FILL_BYTES_MAX: usize = 1 << 20;
/// Few clients at once say more than this.
pub(super) const LARGE: usize = 64 << 10;

/// An event that a client is to say. Its text is made when it is said: a small file can ask for more than fits into memory.
#[derive(Debug)]
pub(super) enum Args {
    /// As it was.
    Whole(String),
    /// It was cut when it was recorded, and had so many bytes.
    Long(usize),
    /// Of these types and sizes, and with this mark.
    Shaped(String, Option<String>),
}

impl Args {
    /// Whether its text has more than [`LARGE`] bytes.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Whole(args) => args.len() > LARGE,
            Self::Long(bytes) => *bytes > LARGE,
            Self::Shaped(shapes, _) => {
                let mut sizes = shapes.split(", ").map(|shape| of(shape).1);
                let all = sizes.try_fold(0_usize, usize::checked_add);
                all.is_none_or(|all| all > LARGE)
            }
        }
    }

    pub(super) fn text(&self, attachments: usize) -> String {
        match self {
            Self::Whole(args) => args.clone(),
            Self::Long(bytes) => long(*bytes, attachments),
            Self::Shaped(shapes, mark) => fill(shapes, mark.as_deref(), attachments),
        }
    }
}

/// Types of arguments, as a line of a redacted recording has them, without sizes.
pub(super) fn kinds_of_shapes(shapes: &str) -> String {
    let names = shapes.split(", ").filter(|shape| !shape.is_empty());
    let names = names.map(|shape| shape.split('(').next().unwrap_or_default());
    let names: Vec<&str> = names.filter(|name| *name != "attachment").collect();
    names.join(", ")
}

/// The same of arguments.
pub(super) fn kinds(args: &str) -> String {
    let names: Vec<&str> = json::Elements::bare(args).map(kind).collect();
    match names.len() {
        0..=SHAPES_MAX => names.join(", "),
        _ => format!("{}, …", names[..SHAPES_MAX].join(", ")),
    }
}

/// So many are told by a line.
const SHAPES_MAX: usize = 8;

fn kind(raw: &str) -> &'static str {
    match raw.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'{') if raw.starts_with("{\"_placeholder\"") => "binary",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

/// The name and the size of a type.
fn of(shape: &str) -> (&str, usize) {
    let (name, size) = shape.split_once('(').unwrap_or((shape, ""));
    (name, size.trim_end_matches(')').parse().unwrap_or_default())
}

/// Arguments of these types and sizes. The first one, if it is a text, is its mark, so that equal names stay equal.
fn fill(shapes: &str, mark: Option<&str>, attachments: usize) -> String {
    let (mut args, mut named): (Vec<String>, usize) = (Vec::new(), 0);
    let mut room = FILL_BYTES_MAX;
    for shape in shapes.split(", ").filter(|shape| !shape.is_empty()) {
        if args.len() == SHAPES_MAX {
            break;
        }
        let (name, size) = of(shape);
        let size = size.min(room);
        room -= size;
        args.push(match name {
            "string" => text(size, mark.filter(|_| args.is_empty())),
            "object" if size >= 8 => format!("{{\"x\":\"{}\"}}", "x".repeat(size - 8)),
            "object" => "{}".to_owned(),
            "array" if size >= 4 => format!("[\"{}\"]", "x".repeat(size - 4)),
            "array" => "[]".to_owned(),
            "boolean" => "true".to_owned(),
            "null" => "null".to_owned(),
            "number" => "0".to_owned(),
            "binary" if named < attachments => {
                named += 1;
                placeholder(named - 1)
            }
            _ => continue,
        });
    }
    // Those that stand inside of objects.
    args.extend((named..attachments).map(placeholder));
    args.join(",")
}

/// An argument that was cut when it was recorded.
fn long(bytes: usize, attachments: usize) -> String {
    let mut args = vec![text(bytes.min(FILL_BYTES_MAX), None)];
    args.extend((0..attachments).map(placeholder));
    args.join(",")
}

fn placeholder(number: usize) -> String {
    format!("{{\"_placeholder\":true,\"num\":{number}}}")
}

/// A mark has sixteen letters, and is known by eight.
fn text(size: usize, mark: Option<&str>) -> String {
    let is_mark =
        |mark: &&str| mark.len() == 16 && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mark = mark.filter(is_mark).unwrap_or_default();
    let mark = &mark[..mark.len().min(size.max(8))];
    format!("\"{mark}{}\"", "x".repeat(size.saturating_sub(mark.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillers_are_json_of_the_same_types_and_sizes() {
        let shapes =
            "string(20), object(14), array(5), number, boolean, null, binary, attachment(7)";
        let args = fill(shapes, Some("0123456789abcdef"), 1);
        let sizes: Vec<usize> = json::Elements::bare(&args).map(str::len).collect();
        assert_eq!(sizes[..3], [22, 14, 5]);
        assert_eq!(kinds(&args), kinds_of_shapes(shapes));
        let list = format!("[{args}]");
        let list: Vec<serde_json::Value> = serde_json::from_str(&list).expect("JSON");
        assert_eq!(list[0], "0123456789abcdefxxxx");
        assert_eq!(
            fill("string(3)", Some("0123456789abcdef"), 0),
            "\"01234567\""
        );
        assert_eq!(fill("", None, 0), "");
        assert_eq!(kinds("1,2,3,4,5,6,7,8,9").matches("number").count(), 8);
    }

    #[test]
    fn a_strangers_shapes_do_no_harm() {
        let args = fill(
            "string(99999999999), object(1), binary, evil\"(3)",
            Some("\"]}"),
            0,
        );
        assert!(args.len() <= FILL_BYTES_MAX + 10, "{}", args.len());
        let list: Vec<serde_json::Value> =
            serde_json::from_str(&format!("[{args}]")).expect("JSON");
        assert_eq!(list.len(), 2);
        let large = Args::Shaped("string(99999999999), object(1)".to_owned(), None);
        assert!(large.is_large() && large.text(0).len() <= FILL_BYTES_MAX + 10);
        assert!(!Args::Shaped("string(9), null".to_owned(), None).is_large());
        for shape in ["string(999999)", "object(999999)", "array(999999), null"] {
            let args = fill(&vec![shape; 5_000].join(", "), None, 10);
            assert!(args.len() <= FILL_BYTES_MAX + 1_000, "{}", args.len());
        }
    }
}
