//! Owns the screen while the dashboard is shown: a thread draws it and reads keys, so that the
//! engine only notes figures. Standard error is drawn on; results go to standard output as ever.

use super::dashboard::Dashboard;
use super::{About, Observer, Progress};
use anyhow::{Context, Result, bail};
use outcome::Second;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};
use std::io::{IsTerminal, Stderr, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two pictures; keys are seen at once.
const FRAME: Duration = Duration::from_millis(250);

/// The dashboard on its screen.
#[derive(Debug)]
pub struct Screen {
    shared: Arc<Shared>,
    drawing: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    dashboard: Mutex<Dashboard>,
    /// Asked for with a key.
    end: AtomicBool,
    /// The run is over.
    is_over: AtomicBool,
}

impl Screen {
    pub fn open(about: About) -> Result<Self> {
        if !stderr().is_terminal() {
            bail!("cannot show the dashboard: standard error is no terminal (leave --tui out)");
        }
        let shared = Arc::new(Shared {
            dashboard: Mutex::new(Dashboard::new(about)),
            ..Shared::default()
        });
        let (terminal, raw) = enter().context("cannot take over the terminal")?;
        let own = Arc::clone(&shared);
        let drawing = thread::spawn(move || own.show(terminal, raw));
        Ok(Screen {
            shared,
            drawing: Some(drawing),
        })
    }
}

impl Observer for Screen {
    fn connecting(&mut self, progress: Progress) {
        self.shared.lock().connecting(progress);
    }

    fn finish_connecting(&mut self) {
        self.shared.lock().connecting(Progress::default());
    }

    fn second(&mut self, second: &Second) {
        self.shared.lock().second(second);
    }

    fn note(&mut self, text: &str) {
        self.shared.lock().note(text);
    }

    fn wants_end(&mut self) -> bool {
        self.shared.end.load(Ordering::Relaxed)
    }

    fn finish(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(drawing) = self.drawing.take() {
            // It has already left the screen if it panicked.
            let _ = drawing.join();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    /// A poisoned dashboard is still the best there is to show.
    fn lock(&self) -> MutexGuard<'_, Dashboard> {
        self.dashboard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, mut terminal: Terminal<CrosstermBackend<Stderr>>, _raw: Raw) {
        while !self.is_over.load(Ordering::Relaxed) {
            let drawn = terminal.draw(|frame| self.lock().draw(frame));
            // The terminal is gone: the measurement goes on without it.
            if drawn.is_err() || self.read_keys().is_err() {
                return;
            }
        }
    }

    fn read_keys(&self) -> std::io::Result<()> {
        if event::poll(FRAME)?
            && let Event::Key(key) = event::read()?
            && is_end(key)
        {
            self.end.store(true, Ordering::Relaxed);
            self.lock().is_ending = true;
        }
        Ok(())
    }
}

fn is_end(key: KeyEvent) -> bool {
    let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (is_ctrl_c || key.code == KeyCode::Char('q'))
}

fn enter() -> Result<(Terminal<CrosstermBackend<Stderr>>, Raw)> {
    enable_raw_mode()?;
    let raw = Raw;
    execute!(stderr(), EnterAlternateScreen, cursor::Hide)?;
    let terminal = Terminal::new(CrosstermBackend::new(stderr()))?;
    Ok((terminal, raw))
}

/// Gives the terminal back when dropped, also by a panic.
struct Raw;

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing more can be done for a terminal that refuses.
        let _ = execute!(stderr(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_and_ctrl_c_end_and_nothing_else() {
        let key = |code, modifiers| is_end(KeyEvent::new(code, modifiers));
        assert!(key(KeyCode::Char('q'), KeyModifiers::NONE));
        assert!(key(KeyCode::Char('c'), KeyModifiers::CONTROL));
        assert!(!key(KeyCode::Char('c'), KeyModifiers::NONE));
        assert!(!key(KeyCode::Esc, KeyModifiers::NONE));
    }
}
