//! Lines that are drawn again in place, for people at a terminal; nothing for anybody else.

use std::io::{IsTerminal as _, Write as _};

use rustix::termios::tcgetwinsize;

/// A block of lines at the end of the terminal.
pub(crate) struct Live {
    drawn: usize,
    terminal: bool,
}

impl Live {
    /// On stderr, if that is a terminal.
    pub(crate) fn new() -> Live {
        Live { drawn: 0, terminal: std::io::stderr().is_terminal() }
    }

    /// Whether anybody sees it.
    pub(crate) fn is_seen(&self) -> bool {
        self.terminal
    }

    /// Lines and columns there are.
    pub(crate) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(std::io::stderr()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        size.map_or((24, 80), |size| (size.ws_row.into(), size.ws_col.into()))
    }

    /// Draws these lines over those that are there. A line that does not fit is cut: one that wraps would leave a trace.
    pub(crate) fn draw(&mut self, lines: &[String]) {
        if !self.terminal {
            return;
        }
        let (_, columns) = self.size();
        let mut text = self.up();
        for line in lines {
            let cut: String = line.chars().take(columns.saturating_sub(1)).collect();
            text += &format!("{cut}\n");
        }
        self.drawn = lines.len();
        show(&text);
    }

    /// Takes them away.
    pub(crate) fn clear(&mut self) {
        if self.terminal && self.drawn > 0 {
            show(&self.up());
            self.drawn = 0;
        }
    }

    fn up(&self) -> String {
        match self.drawn {
            0 => "\x1b[J".to_owned(),
            n => format!("\x1b[{n}F\x1b[J"),
        }
    }
}

fn show(text: &str) {
    let mut to = std::io::stderr().lock();
    // A terminal that is gone sees nothing.
    drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
}

/// `done` of `all` as a bar of this many letters.
pub(crate) fn bar(done: u64, all: u64, wide: usize) -> String {
    let full = (done * wide as u64).checked_div(all).and_then(|full| usize::try_from(full).ok()).unwrap_or(0).min(wide);
    format!("{}{}", "█".repeat(full), "░".repeat(wide - full))
}
