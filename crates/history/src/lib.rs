//! What rooms said, in stores that applications can read. One trait ([`Store`]), one queue before it ([`Intake`]), one suite of tests for
//! all stores.
//!
//! A store keeps events of rooms, each at a [`Position`] that it is given when it is stored. Positions of a namespace grow and are never
//! given twice, so a reader that goes on behind the last one it has misses nothing.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod ask;
mod bounds;
#[cfg(feature = "disk")]
mod disk;
#[cfg(feature = "disk")]
mod disk_fault;
#[cfg(feature = "disk")]
mod disk_keys;
#[cfg(feature = "redis")]
mod door;
mod event;
mod fault;
mod figures;
mod intake;
mod memory;
mod plan;
mod position;
#[cfg(feature = "postgres")]
mod postgres;
mod receipts;
#[cfg(feature = "redis")]
mod redis;
mod store;
mod sync;

pub use ask::{Ask, Forget, Page, Shed, Trimmed, Usage, Way};
#[cfg(feature = "disk")]
pub use disk::Disk;
#[cfg(feature = "redis")]
pub use door::Door;
pub use event::{Batch, Event, Kept};
pub use fault::{Fault, Kind};
pub use figures::Figures;
pub use intake::{Intake, Waiter};
pub use memory::Memory;
pub use plan::{Keep, Plan};
pub use position::{NoPosition, Position};
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
pub use receipts::{Receipt, Receipts, Stored};
#[cfg(feature = "redis")]
pub use redis::{ACL, Redis};
pub use store::{Answer, Store};
pub use sync::Sync;
