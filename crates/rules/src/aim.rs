//! The sockets that a target means, as a group of the hub. Its target was checked where it came in.

use hub::{Context, Group};
use types::Target;

pub(crate) fn with<R>(
    cx: &mut Context<'_>,
    target: &Target,
    use_it: impl FnOnce(Group<'_, '_>) -> R,
) -> R {
    // To the hub, nobody's name is everybody.
    debug_assert!(target.all || target.has_names(), "{target:?}");
    let rooms: Vec<&str> = target.groups().collect();
    let [users, except] = [&target.users, &target.except].map(|names| borrowed(names));
    let nodes = target.without.iter();
    let without: Vec<u16> = nodes.filter_map(|node| (*node).try_into().ok()).collect();
    let mut of = cx.of(&target.namespace).to(&rooms).to_users(&users);
    of = of.except(&except).without(&without);
    use_it(if target.local { of.local() } else { of })
}

pub(crate) fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
