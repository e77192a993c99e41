//! All that is examined, in the order of the report.

use super::finding::{Finding, Need};
use super::snapshot::Snapshot;
use super::{kernel, memory};

/// Everything but the configuration, which has its own judge.
pub fn examine(snapshot: &Snapshot, need: &Need) -> Vec<Finding> {
    let mut findings = kernel::descriptors(snapshot, need);
    findings.extend(kernel::queues(snapshot, need));
    findings.extend(kernel::conntrack(snapshot, need));
    findings.push(kernel::ports(snapshot));
    findings.extend(memory::kernel_buffers(snapshot, need));
    findings.extend(memory::limits(snapshot, need));
    findings.extend(kernel::threads(snapshot, need));
    findings.extend(kernel::clocks(snapshot));
    findings
}
