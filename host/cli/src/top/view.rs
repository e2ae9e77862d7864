//! The live view: its keys, and its drawing.

use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use relayer_rest_common::text::for_log;

use super::sample::{MountReport, MountState, Reading, Report};
use super::text::{Column, head};

/// The keys, below the table.
const KEYS: &str = "q quit  \u{2190} \u{2192} s sort  \u{2191} \u{2193} scroll";

/// A live view of a server.
pub(super) struct View {
    reading: Reading,
    report: Report,
    failure: Option<ReadFailure>,
    sort: Column,
    /// The number of mounts above the first row.
    scrolled: usize,
}

/// The reason why the shown state is not the present one.
struct ReadFailure {
    message: String,
    /// The time of the first of the failures in a row.
    since: SystemTime,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Draw,
    Quit,
}

impl View {
    /// Creates a view of the first reading.
    pub(super) fn new(reading: Reading) -> Self {
        let report = reading.report(None);
        Self { reading, report, failure: None, sort: Column::Mount, scrolled: 0 }
    }

    /// Shows another reading, or keeps the last one and shows why there is not another.
    pub(super) fn update(&mut self, reading: Result<Reading, String>, now: SystemTime) {
        match reading {
            Ok(reading) => {
                self.report = reading.report(Some(&self.reading));
                self.reading = reading;
                self.failure = None;
            }
            Err(message) => {
                let since = self.failure.as_ref().map_or(now, |failure| failure.since);
                self.failure = Some(ReadFailure { message, since });
            }
        }
    }

    /// Handles a key, or another event of the terminal.
    pub(super) fn on_event(&mut self, event: &Event) -> Next {
        if let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event {
            match code {
                KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
                KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => {
                    return Next::Quit;
                }
                KeyCode::Char('s') | KeyCode::Right => self.sort = self.sort.next(),
                KeyCode::Left => self.sort = self.sort.previous(),
                KeyCode::Down => self.scrolled = self.scrolled.saturating_add(1),
                KeyCode::Up => self.scrolled = self.scrolled.saturating_sub(1),
                _ => {}
            }
        }
        Next::Draw
    }

    /// Draws the view in any size of the terminal.
    pub(super) fn draw(&mut self, frame: &mut Frame) {
        let head = self.head();
        let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
        // In a low terminal, the table with its titles is more useful than the whole head.
        let rows = [Constraint::Max(height), Constraint::Min(3), Constraint::Max(1)];
        let [above, middle, below] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(head), above);
        let mut mounts: Vec<_> = self.report.mounts.iter().collect();
        // The sort is stable: equal mounts stay in the order of the server.
        mounts.sort_by(|one, other| self.sort.compare(one, other));
        let shown = usize::from(middle.height.saturating_sub(1));
        self.scrolled = self.scrolled.min(mounts.len().saturating_sub(shown));
        frame.render_widget(self.table(&mounts[self.scrolled..]), middle);
        frame.render_widget(Line::from(KEYS).style(Modifier::DIM), below);
    }

    fn head(&self) -> Vec<Line<'static>> {
        let failure = self.failure.as_ref().map(|ReadFailure { message, since }| {
            let since = format_rfc3339_seconds(*since);
            let line = format!("UNREACHABLE since {since}: {}", for_log(message));
            Line::from(line).style(Style::new().fg(Color::Red).add_modifier(Modifier::BOLD))
        });
        let state = head(&self.report).into_iter().map(Line::from);
        failure.into_iter().chain(state).chain([Line::default()]).collect()
    }

    fn table(&self, mounts: &[&MountReport]) -> Table<'static> {
        let titles = Column::ALL.map(|column| line(column, column.title().to_owned()));
        let rows: Vec<_> = mounts
            .iter()
            .map(|mount| (style(mount.state), Column::ALL.map(|c| line(c, c.cell(mount)))))
            .collect();
        let widths = Column::ALL.map(|column| {
            let cells = rows.iter().map(|(_, cells)| &cells[column as usize]);
            let width = cells.chain([&titles[column as usize]]).map(Line::width).max();
            Constraint::Max(width.and_then(|width| u16::try_from(width).ok()).unwrap_or(u16::MAX))
        });
        let titles = Column::ALL.into_iter().zip(titles).map(|(column, title)| {
            let is_sorted = column == self.sort;
            let modifier = if is_sorted { Modifier::REVERSED } else { Modifier::BOLD };
            Cell::from(title).style(modifier)
        });
        let header = Row::new(titles.collect::<Vec<_>>());
        let rows = rows.into_iter().map(|(style, cells)| Row::new(cells).style(style));
        Table::new(rows, widths).header(header).column_spacing(2)
    }
}

/// Returns the text of a cell, aligned.
fn line(column: Column, text: String) -> Line<'static> {
    let is_number = column.is_number();
    Line::from(text).alignment(if is_number { Alignment::Right } else { Alignment::Left })
}

fn style(state: MountState) -> Style {
    match state {
        MountState::Disabled | MountState::CircuitOpen => Style::new().fg(Color::Red),
        MountState::Loading | MountState::Quarantined => Style::new().fg(Color::Yellow),
        MountState::Serving => Style::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

    use super::super::tests::{reading, status};
    use super::{Column, Next, View};

    /// Returns the lines of a terminal of this size, without trailing spaces.
    fn drawn(view: &mut View, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            line.trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    fn press(view: &mut View, code: KeyCode) -> Next {
        view.on_event(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    #[test]
    fn the_view_has_a_head_a_table_and_the_keys() {
        let metrics = "process_start_time_seconds 10\nrelayer_rest_queue_depth{mount=\"/\"} 3\n";
        let mounts = [("/", "api"), ("/ext/health", "health")];
        let mut view = View::new(reading(status(7, &mounts), metrics, 0));
        assert_eq!(
            drawn(&mut view, 90, 10),
            [
                "relayer-rest 1.2.3, process 7, up 16m 30s, relayer state known",
                "source: upstream http://127.0.0.1:3000; no response yet",
                "connections: 1 open, 2 accepted, 3 refused, 0 evicted; 0 B unsent",
                "",
                "MOUNT        MODULE               STATE    REQ/S  P50  P99  HITS  ERR/S  QUEUE",
                "/            api@0123456789ab     serving      -    -    -     -      -      3",
                "/ext/health  health@0123456789ab  serving      -    -    -     -      -      -",
                "",
                "",
                "q quit  ← → s sort  ↑ ↓ scroll",
            ]
        );
    }

    #[test]
    fn an_unreachable_server_is_shown_with_the_first_failure() {
        let read = |seconds| reading(status(7, &[("/", "api")]), "", seconds);
        let mut view = View::new(read(0));
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        view.update(Err("gone\n".to_owned()), at(1));
        view.update(Err("still \u{1b}gone".to_owned()), at(2));
        let lines = drawn(&mut view, 90, 10);
        assert_eq!(lines[0], r"UNREACHABLE since 1970-01-01T00:00:01Z: still \u{1b}gone");
        assert!(lines[1].starts_with("relayer-rest 1.2.3"), "{lines:?}");
        view.update(Ok(read(3)), at(3));
        assert!(drawn(&mut view, 90, 10)[0].starts_with("relayer-rest 1.2.3"));
        assert_eq!(view.report.interval_seconds, Some(3.0));
        view.update(Err("gone".to_owned()), at(4));
        assert!(drawn(&mut view, 90, 10)[0].contains("00:00:04Z"));
    }

    #[test]
    fn keys_sort_scroll_and_quit() {
        let mounts = [("/", "z"), ("/a", "y"), ("/b", "x")];
        let mut view = View::new(reading(status(7, &mounts), "", 0));
        let first = |view: &mut View, height| {
            let lines = drawn(view, 90, height);
            let title = lines.iter().position(|line| line.starts_with("MOUNT")).unwrap();
            lines[title + 1].split(' ').next().unwrap().to_owned()
        };
        assert_eq!(first(&mut view, 20), "/");
        assert_eq!(press(&mut view, KeyCode::Right), Next::Draw);
        assert_eq!((view.sort, first(&mut view, 20)), (Column::Module, "/b".to_owned()));
        press(&mut view, KeyCode::Left);
        assert_eq!(first(&mut view, 20), "/");
        for _ in 0..Column::COUNT {
            press(&mut view, KeyCode::Char('s'));
        }
        assert_eq!(view.sort, Column::Mount);
        // All rows fit: there is nothing to scroll to.
        press(&mut view, KeyCode::Down);
        assert_eq!(first(&mut view, 20), "/");
        for expected in ["/a", "/a"] {
            press(&mut view, KeyCode::Down);
            assert_eq!(first(&mut view, 4), expected);
        }
        press(&mut view, KeyCode::Up);
        assert_eq!(first(&mut view, 4), "/");
        for code in [KeyCode::Char('q'), KeyCode::Esc] {
            assert_eq!(press(&mut view, code), Next::Quit);
        }
        assert_eq!(press(&mut view, KeyCode::Char('c')), Next::Draw);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(view.on_event(&Event::Key(interrupt)), Next::Quit);
        assert_eq!(view.on_event(&Event::Resize(0, 0)), Next::Draw);
    }

    #[test]
    fn any_size_and_any_text_can_be_drawn() {
        let name = format!("\u{1b}]0;x\u{7}\u{202e}宽{}", "é".repeat(1000));
        let mut status = status(7, &[("/\u{9b}2J", &name), ("", ""), ("/\r\n\t", "\0")]);
        status.sources[0].location = "\u{1b}[2J".repeat(1000);
        status.not_ready = Some(name);
        let mut view = View::new(reading(status, "", 0));
        view.update(Err("\u{1b}[31m".repeat(1000)), UNIX_EPOCH);
        for (width, height) in
            [(0, 0), (0, 9), (9, 0), (1, 1), (2, 3), (7, 40), (200, 2), (80, 24), (500, 100)]
        {
            for _ in 0..Column::COUNT {
                press(&mut view, KeyCode::Char('s'));
                press(&mut view, KeyCode::Down);
                for line in drawn(&mut view, width, height) {
                    assert!(!line.contains(char::is_control), "{line:?}");
                    assert!(!line.contains('\u{202e}'), "{line:?}");
                }
            }
        }
    }
}
