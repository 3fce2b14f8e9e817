//! What the person at the terminal sees while something takes its time.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often a line is written where the cursor cannot go back, as in a CI log.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// A stopwatch that prints one line per finished step.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    started: Instant,
}

impl Default for Steps {
    fn default() -> Self {
        Self::start()
    }
}

impl Steps {
    /// Starts the watch.
    #[must_use]
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
        }
    }

    /// Prints a line with the time since the start.
    pub fn say(&self, text: &str) {
        println!("{:6.1} s  {text}", self.started.elapsed().as_secs_f64());
    }
}

/// One line that changes while a long step goes on; without a terminal, a line now and then.
#[derive(Debug)]
pub struct Ticker {
    terminal: bool,
    started: Instant,
    last: Option<Instant>,
}

impl Default for Ticker {
    fn default() -> Self {
        Self::start()
    }
}

impl Ticker {
    /// Starts the clock that the lines show.
    #[must_use]
    pub fn start() -> Self {
        Self {
            terminal: std::io::stdout().is_terminal(),
            started: Instant::now(),
            last: None,
        }
    }

    /// Shows how far it is, if it is time for that.
    pub fn show(&mut self, text: &str) {
        let every = if self.terminal {
            Duration::from_millis(200)
        } else {
            LINE_EVERY
        };
        if self.last.is_some_and(|last| last.elapsed() < every) {
            return;
        }
        self.last = Some(Instant::now());
        let seconds = self.started.elapsed().as_secs();
        if self.terminal {
            print!("\r\x1b[K  {}:{:02}  {text}", seconds / 60, seconds % 60);
            let _ = std::io::stdout().flush();
        } else {
            println!("  {}:{:02}  {text}", seconds / 60, seconds % 60);
        }
    }

    /// Ends the changing line, so that what follows starts on its own.
    pub fn end(&self) {
        if self.terminal && self.last.is_some() {
            println!();
        }
    }
}
