//! Owns the pages of the documents: what stands between their markers, and the plots beside them,
//! is made from result files by one command and typed by nobody.
//!
//! A page asks for the file `name.json` with `<!-- bench:begin name -->` … `<!-- bench:end -->`;
//! `overview` asks for one row of every scenario result given.

use super::figures;
use super::plot::{Plot, Use};
use super::table::Table;
use anyhow::{Context, Result, bail};
use outcome::verdict::{self, Level};
use outcome::{Figure, Outcome, ResultFile, Suite};
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- bench:begin ";
const END: &str = "<!-- bench:end -->";
const OVERVIEW: &str = "overview";
/// Folder of the drawings, within that of the pages.
const PLOTS: &str = "plots";
/// Two stand beside each other on a page.
const PLOT_WIDTH: u32 = 470;
/// Sections that a page of documents has; the whole report is one command away.
const SECTIONS: [&str; 7] = [
    "Summary",
    "Latency",
    "Course of the run",
    "Server processes",
    "Ratios",
    "Side by side",
    "Cost",
];
/// Plots that a page has of one result.
const PLOTS_SHOWN: [&str; 2] = ["latency", "cpu"];

/// What stands between a page's markers, with its drawings by file name.
struct Part {
    name: String,
    text: String,
    drawings: Vec<(String, String)>,
    /// A page need not ask for it.
    is_doubtful: bool,
}

/// Fills every page in `folder` that asks for one of the results, and writes their plots.
pub fn fill(results: &[PathBuf], folder: &Path) -> Result<()> {
    let mut parts = Vec::new();
    let (mut overview, mut left_out) = (Vec::new(), Vec::new());
    for path in results {
        let content = outcome::load(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let part = part(&name, &content);
        match &content {
            ResultFile::Run(_) if part.is_doubtful => left_out.push(format!("`{name}`")),
            ResultFile::Run(run) => overview.push(overview_row(run)),
            ResultFile::Comparison(_) | ResultFile::Suite(_) => {}
        }
        parts.push(part);
    }
    // Without any, the page keeps what it has.
    if !overview.is_empty() || !left_out.is_empty() {
        parts.push(overview_part(overview, &left_out));
    }
    let pages = pages(folder)?;
    let mut unasked = Vec::new();
    for part in parts {
        match fill_all(&pages, &part)? {
            0 if part.name == OVERVIEW || part.is_doubtful => {}
            0 => unasked.push(part.name),
            _ => write_drawings(folder, &part.drawings)?,
        }
    }
    if let Some(first) = unasked.first() {
        let (folder, all) = (folder.display(), unasked.join(", "));
        bail!("no page in {folder} asks for {all}: add `{BEGIN}{first} -->` and `{END}` to one");
    }
    Ok(())
}

fn overview_part(rows: Vec<Vec<String>>, left_out: &[String]) -> Part {
    let mut header = figures::summary_header("scenario");
    header.insert(1, "scale".into());
    header.push("verdict".into());
    let mut text = Table::of(header, rows).to_string();
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        text += &format!(
            "\nLeft out, because the verdict of the run is doubtful: {names}. Their files are in `benchmarks/results`.\n"
        );
    }
    Part {
        name: OVERVIEW.into(),
        text,
        drawings: Vec::new(),
        is_doubtful: false,
    }
}

/// Without latencies of runs that are doubtful. CPU and memory are the server's own, however busy the generator was.
fn without_doubts(suite: &Suite) -> Suite {
    let mut suite = suite.clone();
    for case in &mut suite.cases {
        if matches!(case.figure, Figure::P99Ms) {
            for server in &mut case.servers {
                server
                    .runs
                    .retain(|run| verdict::verdict(run).level != Level::Doubtful);
            }
        }
    }
    suite
}

fn part(name: &str, file: &ResultFile) -> Part {
    let source = format!("`benchmarks/results/{name}.json`");
    let mut document = match file {
        ResultFile::Suite(suite) => {
            let suite = ResultFile::Suite(without_doubts(suite));
            super::document(&suite, &source)
        }
        _ => super::document(file, &source),
    };
    let is_suite = matches!(file, ResultFile::Suite(_));
    if document.verdict.level == Level::Doubtful && !is_suite {
        return Part {
            name: name.to_owned(),
            text: format!(
                "Left out, because the verdict of the run is doubtful. It is in {source}."
            ),
            drawings: Vec::new(),
            is_doubtful: true,
        };
    }
    let sections = &mut document.sections;
    sections.retain(|section| SECTIONS.contains(&section.title.as_str()));
    let is_shown = |plot: &Plot| PLOTS_SHOWN.contains(&plot.id);
    let file_name = |plot: &Plot| format!("{name}-{}.svg", plot.id);
    let address = |plot: &Plot| is_shown(plot).then(|| format!("{PLOTS}/{}", file_name(plot)));
    let shown = document.plots().filter(|plot| is_shown(plot));
    let drawings = shown.map(|plot| (file_name(plot), plot.svg(PLOT_WIDTH, Use::File)));
    Part {
        name: name.to_owned(),
        text: document.markdown(3, &address),
        drawings: drawings.collect(),
        is_doubtful: false,
    }
}

fn overview_row(run: &Outcome) -> Vec<String> {
    let mut row = figures::whole_row(&run.scenario, run);
    row.insert(1, run.scale.to_string());
    row.push(verdict::verdict(run).level.word().into());
    row
}

fn pages(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder);
    let entries = entries.with_context(|| format!("cannot list pages in {}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let mut pages = paths.collect::<Result<Vec<_>>>()?;
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    Ok(pages)
}

/// Fills one part wherever it is asked for; returns in how many pages.
fn fill_all(pages: &[PathBuf], part: &Part) -> Result<usize> {
    let mut filled = 0;
    for page in pages {
        let shown = page.display();
        let text = fs::read_to_string(page).with_context(|| format!("cannot read page {shown}"))?;
        let new = replace_between(&text, &part.name, &part.text);
        if let Some(new) = new.with_context(|| format!("cannot fill {shown}"))? {
            fs::write(page, new).with_context(|| format!("cannot write {shown}"))?;
            filled += 1;
        }
    }
    Ok(filled)
}

/// `None` when the page does not ask for `name`.
fn replace_between(text: &str, name: &str, generated: &str) -> Result<Option<String>> {
    let begin = format!("{BEGIN}{name} -->");
    let Some((before, rest)) = text.split_once(&begin) else {
        return Ok(None);
    };
    let Some((old, after)) = rest.split_once(END) else {
        bail!("`{begin}` has no `{END}`");
    };
    if old.contains(BEGIN) {
        bail!("`{begin}` has no `{END}` of its own");
    }
    let generated = generated.trim();
    Ok(Some(format!(
        "{before}{begin}\n\n{generated}\n\n{END}{after}"
    )))
}

fn write_drawings(folder: &Path, drawings: &[(String, String)]) -> Result<()> {
    let folder = folder.join(PLOTS);
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make folder {}", folder.display()))?;
    for (name, svg) in drawings {
        let path = folder.join(name);
        fs::write(&path, svg.trim_end().to_string() + "\n")
            .with_context(|| format!("cannot write plot {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_markers_changes() {
        let page = "above\n<!-- bench:begin a -->\nold\n<!-- bench:end -->\nbelow\n";
        let filled = replace_between(page, "a", "new").unwrap();
        let expected = "above\n<!-- bench:begin a -->\n\nnew\n\n<!-- bench:end -->\nbelow\n";
        assert_eq!(filled.as_deref(), Some(expected));
        assert_eq!(replace_between(page, "b", "new").unwrap(), None);
    }

    #[test]
    fn a_block_without_end_swallows_no_other() {
        let page = "<!-- bench:begin a -->\n<!-- bench:begin b -->\n<!-- bench:end -->";
        assert!(replace_between(page, "a", "new").is_err());
        assert!(replace_between("<!-- bench:begin a -->", "a", "new").is_err());
    }

    /// A folder with one page and one result called `ticker`.
    fn folder(page: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("benchmarks.md"), page).unwrap();
        let result = folder.path().join("ticker.json");
        let file = ResultFile::Run(Box::new(crate::report::report_tests::outcome()));
        outcome::save(&file, &result).unwrap();
        (folder, result)
    }

    #[test]
    fn a_page_gets_tables_and_drawings_of_what_it_asks_for() {
        let asked = ["overview", "ticker"].map(|name| format!("{BEGIN}{name} -->\n{END}\n"));
        let (folder, result) = folder(&asked.concat());
        fill(&[result], folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("benchmarks.md")).unwrap();
        let row = "| ticker   |     1 |       1,000 |    500 |   1.14 |   1.00 |   7.77 | 13.0 MiB | 10 % |      0 |    PASS |";
        assert!(page.contains(row), "{page}");
        assert!(
            page.contains("#### Latency\n") && page.contains("`benchmarks/results/ticker.json`")
        );
        for id in PLOTS_SHOWN {
            let address = format!("plots/ticker-{id}.svg");
            assert!(page.contains(&format!("]({address})")), "{page}");
            let drawing = fs::read_to_string(folder.path().join(&address)).unwrap();
            assert!(
                drawing.starts_with("<svg ") && drawing.contains("<style>"),
                "{drawing}"
            );
        }
    }

    #[test]
    fn a_doubtful_run_is_named_and_not_shown() {
        let asked = ["overview", "ticker"].map(|name| format!("{BEGIN}{name} -->\n{END}\n"));
        let (folder, result) = folder(&asked.concat());
        let mut run = crate::report::report_tests::outcome();
        run.phases[1].generator_waited = 0.5;
        outcome::save(&ResultFile::Run(Box::new(run)), &result).unwrap();
        fill(&[result], folder.path()).unwrap();
        let page = fs::read_to_string(folder.path().join("benchmarks.md")).unwrap();
        assert!(
            page.contains("verdict of the run is doubtful: `ticker`."),
            "{page}"
        );
        assert!(
            page.contains("It is in `benchmarks/results/ticker.json`."),
            "{page}"
        );
        assert!(
            !page.contains("DOUBTFUL") && !page.contains(".svg"),
            "{page}"
        );
    }

    #[test]
    fn an_overview_of_nothing_replaces_nothing() {
        let page = format!("{BEGIN}overview -->\nrows\n{END}\n");
        let (folder, _) = folder(&page);
        fill(&[], folder.path()).unwrap();
        let kept = fs::read_to_string(folder.path().join("benchmarks.md")).unwrap();
        assert_eq!(kept, page);
    }

    #[test]
    fn a_result_that_no_page_asks_for_is_named() {
        let (folder, result) = folder("nothing here\n");
        let refusal = fill(&[result], folder.path()).unwrap_err().to_string();
        assert!(
            refusal.contains("asks for ticker: add `<!-- bench:begin ticker -->`"),
            "{refusal}"
        );
        assert!(!folder.path().join(PLOTS).exists());
    }
}
