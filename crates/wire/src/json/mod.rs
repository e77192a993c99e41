//! JSON as raw text: syntax is checked without building a tree, so that arguments travel as bytes.
//! Values are never interpreted here beyond strings; numbers keep the digits they came with.

mod split;
mod syntax;
mod text;

pub use crate::bounds::DEPTH_MAX;
pub use split::{Elements, Members, elements, first, member, members, read_members};
pub use syntax::{Error, read_elements, skip_space, skip_value, validate};
pub use text::{quote, unquote, unquote_name};

pub(crate) use syntax::skip_string;
