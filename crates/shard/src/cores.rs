//! Which core each shard is bound to, if any.
//!
//! A core is taken only from a process that has exactly one for each shard. With more cores than shards, other processes have the same
//! choice: a CPU quota (`docker --cpus 2`, `limits.cpu`) leaves every core allowed, and all gateways of a machine would take the first two.

/// The core of each shard, in the order of shards; nothing if the system places them better.
#[cfg(target_os = "linux")]
pub(crate) fn for_shards(shards: usize) -> Option<Vec<usize>> {
    let allowed = rustix::thread::sched_getaffinity(None).ok()?;
    chosen(shards, |core| allowed.is_set(core))
}

/// Elsewhere the system places threads as it likes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn for_shards(_shards: usize) -> Option<Vec<usize>> {
    None
}

/// Binds this thread to a core.
#[cfg(target_os = "linux")]
pub(crate) fn bind(core: usize) {
    let mut one = rustix::thread::CpuSet::new();
    one.set(core);
    // An optimisation; a container may forbid it.
    let _ = rustix::thread::sched_setaffinity(None, &one);
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn bind(_core: usize) {}

/// A container's cores are rarely the machine's first.
#[cfg(target_os = "linux")]
fn chosen(shards: usize, is_allowed: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    let allowed: Vec<usize> = all.filter(|core| is_allowed(*core)).collect();
    (shards > 1 && allowed.len() == shards).then_some(allowed)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn shards_are_bound_only_if_each_allowed_core_has_one() {
        let four = |core: usize| (8..12).contains(&core);
        assert_eq!(chosen(4, four), Some(vec![8, 9, 10, 11]));
        // A quota of two cores on a machine of sixteen: every other process there has the same mask.
        assert_eq!(chosen(2, |core| core < 16), None);
        for shards in [1, 3, 5, 256] {
            assert_eq!(chosen(shards, four), None, "{shards} shards");
        }
        assert_eq!(chosen(1, |core| core == 7), None);
        assert_eq!(chosen(2, |_| false), None);
        assert_eq!(
            chosen(3, |core| core % 5 == 1 && core < 15),
            Some(vec![1, 6, 11])
        );
    }
}
