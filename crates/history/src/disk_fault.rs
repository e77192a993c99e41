//! What goes wrong with the folder of a store, for people.

use crate::fault::{Fault, Kind};
use std::path::Path;

pub(crate) fn fault(error: &fjall::Error, folder: &Path) -> Fault {
    let place = folder.display();
    match error {
        fjall::Error::Locked => {
            let text = format!(
                "another process has the history in {place}: each gateway needs a folder of its own"
            );
            Fault::new(Kind::Away, text)
        }
        fjall::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => Fault::new(
            Kind::Full,
            format!("the disk of the history in {place} is full: make room"),
        ),
        fjall::Error::Io(error) => Fault::new(
            Kind::Away,
            format!("cannot use the history in {place}: {error}"),
        ),
        fjall::Error::Poisoned => Fault::new(
            Kind::Away,
            format!("the history in {place} could not be written, and is opened anew"),
        ),
        error => Fault::new(
            Kind::Torn,
            format!(
                "cannot read the history in {place}: {error}; move the folder away, or put a copy in its place"
            ),
        ),
    }
}
