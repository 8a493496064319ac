//! Colours and characters.

use std::env;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Look of the screen. Colours are those that the terminal's user has chosen, on an unchanged
/// background, so they can be read on light and dark ones. Each state has a character of its own as
/// well, for screens without colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenLook {
    /// Whether there are colours.
    pub is_coloured: bool,
    /// Whether the terminal has more characters than those of ASCII.
    pub is_unicode: bool,
}

/// Role of something that is drawn in a way of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Time in which a thread had a CPU.
    Running,
    /// Time in which it waited for one.
    Runnable,
    /// Time in which it waited for something else.
    Blocked,
    /// Time in which it was stopped.
    Stopped,
    /// Time in which no thread polled the span.
    Unpolled,
    /// Time in an unknown state.
    Unknown,
    /// Heading of columns.
    Heading,
    /// Less important text.
    Aside,
    /// Text that must be seen.
    Alarm,
    /// Selected row.
    Selected,
}

impl Role {
    /// Returns the role of the part of the time with this name.
    #[must_use]
    pub fn from_part(name: &str) -> Self {
        match name {
            "running" => Self::Running,
            "runnable" => Self::Runnable,
            "blocked" => Self::Blocked,
            "stopped" => Self::Stopped,
            "unpolled" => Self::Unpolled,
            _ => Self::Unknown,
        }
    }
}

impl ScreenLook {
    /// Shows that a row is selected. Drawn cells stay as they are: a reversed bar would mean
    /// something else.
    pub fn select(self, buffer: &mut Buffer, row: Rect) {
        let style = self.style(Role::Selected);
        for x in row.left()..row.right() {
            let cell = buffer.cell_mut((x, row.y)).filter(|cell| !is_drawn(cell));
            if let Some(cell) = cell {
                cell.set_style(style);
            }
        }
    }

    /// Returns the look of text alone.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            is_coloured: false,
            is_unicode: is_unicode(),
        }
    }

    /// Returns the look for a terminal, with colours where they are wanted.
    #[must_use]
    pub fn for_terminal(is_coloured: bool) -> Self {
        Self {
            is_coloured,
            ..Self::plain()
        }
    }

    /// Returns the style of a role.
    #[must_use]
    pub fn style(self, role: Role) -> Style {
        let plain = match role {
            Role::Heading => Style::new().add_modifier(Modifier::BOLD),
            Role::Alarm | Role::Selected => Style::new().add_modifier(Modifier::REVERSED),
            // Not a grey: some have chosen that of their background for it.
            Role::Blocked | Role::Aside if self.is_coloured => {
                Style::new().add_modifier(Modifier::DIM)
            }
            _ => Style::new(),
        };
        let colour = match role {
            Role::Running => Color::Cyan,
            Role::Runnable | Role::Alarm => Color::Red,
            Role::Stopped => Color::Magenta,
            Role::Unpolled => Color::Yellow,
            Role::Blocked | Role::Aside | Role::Unknown | Role::Heading | Role::Selected => {
                return plain;
            }
        };
        if self.is_coloured {
            plain.fg(colour)
        } else {
            plain
        }
    }

    /// Returns the character of a part of the time.
    #[must_use]
    pub fn part(self, role: Role) -> char {
        let (unicode, ascii) = match role {
            Role::Running => ('█', '#'),
            Role::Runnable => ('▒', '+'),
            Role::Blocked => ('·', '.'),
            Role::Stopped => ('×', 'x'),
            Role::Unpolled => ('-', '-'),
            _ => ('?', '?'),
        };
        if self.is_unicode { unicode } else { ascii }
    }

    /// Returns the character for this many eighths.
    #[must_use]
    pub fn eighths(self, eighths: usize) -> char {
        const UNICODE: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '_', '.', ',', '-', '=', '+', '*', '#'];
        let characters = if self.is_unicode { UNICODE } else { ASCII };
        characters.get(eighths.min(8)).copied().unwrap_or(' ')
    }
}

/// Tells whether the locale is one of UTF-8, as the C library decides it.
pub fn is_unicode() -> bool {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let locale = set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"));
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Tells whether a cell is drawn rather than written.
fn is_drawn(cell: &Cell) -> bool {
    let is_block = |character: char| ('\u{2580}'..='\u{259f}').contains(&character);
    let is_dim = cell.modifier.contains(Modifier::DIM);
    is_dim || cell.fg != Color::Reset || cell.symbol().chars().any(is_block)
}
