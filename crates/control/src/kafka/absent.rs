//! In place of the bridge, in a build without the client: there is none.

use super::{Carry, Figures, Settings};
use rules::kafka::Recorder;
use std::sync::Arc;
use std::time::Duration;

/// Nobody can make one.
#[derive(Debug)]
pub enum Bridge {}

impl Bridge {
    /// There is no client.
    pub fn start(_: &Settings) -> Result<Arc<Self>, String> {
        Err(super::MISSING.to_owned())
    }

    /// The way of records out.
    pub fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        match *self {}
    }

    /// Begins to read commands.
    pub fn open(&self, _: &Settings, _: &Carry) -> Result<(), String> {
        match *self {}
    }

    /// Stops to read commands.
    pub fn stop_reading(&self) {
        match *self {}
    }

    /// Writes what waits.
    #[expect(clippy::unused_async, reason = "as the bridge has it")]
    pub async fn close(&self, _: Duration) {
        match *self {}
    }

    /// Answers a shard's question about a record; `false`: it is about something else.
    pub fn ask(&self, _: &[u8], _: impl FnOnce(Option<Box<[u8]>>) + Send + 'static) {
        match *self {}
    }

    pub(crate) fn figures(&self) -> Figures {
        match *self {}
    }
}
