//! Owns the scenarios that come with the binary.

const BUILT_IN: [(&str, &str); 7] = [
    ("staircase", include_str!("../../scenarios/staircase.toml")),
    ("chat-10k", include_str!("../../scenarios/chat-10k.toml")),
    (
        "million-idle",
        include_str!("../../scenarios/million-idle.toml"),
    ),
    ("push-ack", include_str!("../../scenarios/push-ack.toml")),
    (
        "push-churn",
        include_str!("../../scenarios/push-churn.toml"),
    ),
    ("ticker", include_str!("../../scenarios/ticker.toml")),
    ("storm", include_str!("../../scenarios/storm.toml")),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

pub fn text(name: &str) -> Option<&'static str> {
    BUILT_IN
        .iter()
        .find_map(|(own, text)| (*own == name).then_some(*text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn every_built_in_scenario_is_sound_and_has_its_name() {
        for name in names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(scenario.name, name);
            assert!(!scenario.about.is_empty() && scenario.users() > 0, "{name}");
        }
    }
}
