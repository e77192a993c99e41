//! Owns the scenarios that come with the binary.

macro_rules! built_in {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../scenarios/", $name, ".toml")))),*]
    };
}

const BUILT_IN: [(&str, &str); 16] = built_in! {
    "staircase" "chat-public" "chat-10k" "million-idle" "push-ack" "push-churn" "ticker" "storm"
    "nodes-rooms" "nodes-crowd" "nodes-chat" "nodes-paced" "nodes-steady" "nodes-joins" "worker-paced" "rooms-paced"
};

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
    fn scenarios_of_the_documents_are_sound() {
        let benchmarks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benchmarks");
        let mut read = 0;
        for folder in ["compare", "costs", "suite", "tester", "workers"] {
            for file in std::fs::read_dir(format!("{benchmarks}/{folder}")).unwrap() {
                let path = file.unwrap().path();
                if path.file_stem().is_some_and(|stem| stem != "safe") {
                    let scenario = Scenario::load(path.to_str().unwrap());
                    read += usize::from(scenario.unwrap().users() > 0);
                }
            }
        }
        assert!(read >= 20, "{read}");
    }

    #[test]
    fn every_built_in_scenario_is_sound_and_has_its_name() {
        for name in names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(scenario.name, name);
            assert!(!scenario.about.is_empty() && scenario.users() > 0, "{name}");
        }
    }
}
