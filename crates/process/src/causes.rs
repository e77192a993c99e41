//! An error with what lies below it: "error sending request" alone helps nobody.

use std::error::Error;

pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(below) = cause {
        text.push_str(": ");
        text.push_str(&below.to_string());
        cause = below.source();
    }
    text
}
