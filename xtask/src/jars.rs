//! Kafka for tests: its jars, brought by Maven in the versions and with the checksums that xtask/kafka names.

use crate::repository;
use crate::steps::Step;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Maven itself brings whichever version of it is the newest.
const COPY: &str = "mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy-dependencies";

/// Puts the jars into `folder`, and nothing else. `launcher` runs a Java class of theirs.
pub fn kafka(folder: &Path, launcher: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    println!(
        "install: Kafka: from Maven Central into {}, 43 MB, half a minute",
        folder.display()
    );
    if folder.exists() {
        // Jars of another version would come before those of this one.
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let list = repository::root().join("xtask/kafka/jars.sha256");
    let jars = folder.display();
    Step::new("maven", COPY)
        .args(&[
            "--file".to_owned(),
            "xtask/kafka/pom.xml".to_owned(),
            "-DincludeScope=runtime".to_owned(),
            format!("-DoutputDirectory={jars}"),
        ])
        .run()?;
    let check = format!(
        "cd '{jars}' && sha256sum --check --strict --quiet '{}'",
        list.display()
    );
    Step::new("checksums", "sh -c").args(&[check]).run()?;
    launcher(&format!("#!/bin/sh\nexec java -cp '{jars}/*' \"$@\"\n"))
}
