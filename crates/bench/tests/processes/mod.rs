//! Worker processes of the real binary, for every test that runs some.

use bench::engine::Launcher;

pub fn processes() -> Launcher {
    Launcher {
        program: env!("CARGO_BIN_EXE_sockeye-bench").into(),
        args: vec!["worker".into()],
    }
}
