//! The columns, and the texts of a report: escaped, and cut.

use std::cmp::Ordering;
use std::time::Duration;

use humantime::format_duration;
use relayer_rest_common::text::{escape_control_within, for_log};

use super::super::status::{connections, live, relayer_state, source};
use super::sample::{MountReport, MountState, Report, SnapshotReport};

/// The maximum size of a cell, in bytes.
const MAX_CELL: usize = 48;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Mount,
    Module,
    State,
    Requests,
    P50,
    P99,
    Hits,
    Errors,
    Queue,
}

impl Column {
    /// The number of columns.
    pub(super) const COUNT: usize = Self::ALL.len();

    /// All columns, in their order.
    pub(super) const ALL: [Self; 9] = [
        Self::Mount,
        Self::Module,
        Self::State,
        Self::Requests,
        Self::P50,
        Self::P99,
        Self::Hits,
        Self::Errors,
        Self::Queue,
    ];

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Mount => "MOUNT",
            Self::Module => "MODULE",
            Self::State => "STATE",
            Self::Requests => "REQ/S",
            Self::P50 => "P50",
            Self::P99 => "P99",
            Self::Hits => "HITS",
            Self::Errors => "ERR/S",
            Self::Queue => "QUEUE",
        }
    }

    /// Returns whether its cells are numbers, which are aligned to the right.
    pub(super) fn is_number(self) -> bool {
        !matches!(self, Self::Mount | Self::Module | Self::State)
    }

    pub(super) fn next(self) -> Self {
        Self::ALL[(self as usize + 1) % Self::COUNT]
    }

    pub(super) fn previous(self) -> Self {
        Self::ALL[(self as usize + Self::COUNT - 1) % Self::COUNT]
    }

    /// Returns the text of a cell.
    pub(super) fn cell(self, mount: &MountReport) -> String {
        match self {
            Self::Mount => cut(&mount.mount),
            Self::Module => cut(&mount.module()),
            Self::State => state(mount.state).to_owned(),
            Self::Requests => optional(mount.requests_per_second, rate),
            Self::P50 => optional(mount.latency_p50_seconds, latency),
            Self::P99 => optional(mount.latency_p99_seconds, latency),
            Self::Hits => {
                optional(mount.cache_hit_ratio, |ratio| format!("{:.0} %", ratio * 100.0))
            }
            Self::Errors => optional(mount.errors_per_second, rate),
            Self::Queue => optional(mount.queue_depth, |depth| depth.to_string()),
        }
    }

    /// Compares two mounts: texts in their order, states from the worst one, and numbers from
    /// the highest one, before missing ones.
    pub(super) fn compare(self, one: &MountReport, other: &MountReport) -> Ordering {
        let number = |value: fn(&MountReport) -> Option<f64>| {
            let value = |mount| value(mount).unwrap_or(f64::NEG_INFINITY);
            value(other).total_cmp(&value(one))
        };
        match self {
            Self::Mount => one.mount.cmp(&other.mount),
            Self::Module => one.module().cmp(&other.module()),
            Self::State => one.state.cmp(&other.state),
            Self::Requests => number(|mount| mount.requests_per_second),
            Self::P50 => number(|mount| mount.latency_p50_seconds),
            Self::P99 => number(|mount| mount.latency_p99_seconds),
            Self::Hits => number(|mount| mount.cache_hit_ratio),
            Self::Errors => number(|mount| mount.errors_per_second),
            Self::Queue => other.queue_depth.cmp(&one.queue_depth),
        }
    }
}

/// Returns the lines above the table.
pub(super) fn head(report: &Report) -> Vec<String> {
    let state = relayer_state(report.not_ready.as_deref(), report.stale_since);
    let Report { version, pid, .. } = report;
    let uptime = report.uptime_seconds.map(|uptime| format!(", up {}", time(uptime)));
    let uptime = uptime.unwrap_or_default();
    let mut lines = vec![format!("relayer-rest {version}, process {pid}{uptime}, {state}")];
    let SnapshotReport { generation, unchanged_seconds } = report.snapshot;
    lines.extend(generation.map(|generation| {
        let changed = unchanged_seconds.map(|age| format!(", changed {} ago", time(age)));
        format!("snapshot: generation {generation}{}", changed.unwrap_or_default())
    }));
    lines.extend(report.sources.iter().map(source));
    lines.extend(report.connections.as_ref().map(connections));
    lines.extend(report.connections.as_ref().and_then(live));
    lines.iter().map(|line| for_log(line)).collect()
}

/// Returns the report as plain lines.
pub(super) fn lines(report: &Report) -> Vec<String> {
    let mut rows = vec![Column::ALL.map(|column| column.title().to_owned())];
    rows.extend(report.mounts.iter().map(|mount| Column::ALL.map(|column| column.cell(mount))));
    let widths = Column::ALL.map(|column| {
        rows.iter().map(|row| row[column as usize].chars().count()).max().unwrap_or_default()
    });
    let line = |row: &[String; Column::COUNT]| {
        let cells = Column::ALL.map(|column| {
            let cell = &row[column as usize];
            let width = widths[column as usize];
            if column.is_number() { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.join("  ").trim_end().to_owned()
    };
    head(report).into_iter().chain([String::new()]).chain(rows.iter().map(line)).collect()
}

/// Returns the text of others for a cell.
fn cut(text: &str) -> String {
    match escape_control_within(text, MAX_CELL) {
        (text, true) => text,
        (start, false) => format!("{start}…"),
    }
}

fn state(state: MountState) -> &'static str {
    match state {
        MountState::Disabled => "disabled",
        MountState::Loading => "loading",
        MountState::CircuitOpen => "circuit open",
        MountState::Quarantined => "quarantined",
        MountState::Serving => "serving",
    }
}

fn optional<T>(value: Option<T>, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), text)
}

fn rate(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        rate if rate < 99.95 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

fn latency(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 0.000_999_5 => format!("{:.0} µs", seconds * 1e6),
        seconds if seconds < 0.099_95 => format!("{:.1} ms", seconds * 1e3),
        seconds if seconds < 0.999_5 => format!("{:.0} ms", seconds * 1e3),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Returns a time in whole seconds.
fn time(seconds: f64) -> String {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    format_duration(Duration::from_secs(time.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{reading, status};
    use super::{Column, MAX_CELL, head, latency, lines, rate};

    #[test]
    fn numbers_have_few_digits_and_a_unit() {
        let rates = [0.0, 0.04, 0.25, 99.94, 99.96, 12_345.6].map(rate);
        assert_eq!(rates, ["0", "0.0", "0.2", "99.9", "100", "12346"]);
        let times = [0.0, 0.000_014_2, 0.000_999_9, 0.015_26, 0.250_4, 0.999_9, 10.0].map(latency);
        assert_eq!(times, ["0 µs", "14 µs", "1.0 ms", "15.3 ms", "250 ms", "1.00 s", "10.00 s"]);
    }

    #[test]
    fn the_plain_table_is_aligned() {
        let mounts = [("/", "api"), ("/ext/health", "health")];
        let metrics = "relayer_rest_snapshot_publications_total 42\nprocess_start_time_seconds 10\nrelayer_rest_queue_depth{mount=\"/\"} 3\n";
        let report = reading(status(7, &mounts), metrics, 0).report(None);
        assert_eq!(
            lines(&report).join("\n"),
            "\
relayer-rest 1.2.3, process 7, up 16m 30s, relayer state known
snapshot: generation 42
source: upstream http://127.0.0.1:3000; no response yet
connections: 1 open, 2 accepted, 3 refused, 0 evicted; 0 B unsent

MOUNT        MODULE               STATE    REQ/S  P50  P99  HITS  ERR/S  QUEUE
/            api@0123456789ab     serving      -    -    -     -      -      3
/ext/health  health@0123456789ab  serving      -    -    -     -      -      -"
        );
    }

    #[test]
    fn texts_of_others_are_escaped_and_cut() {
        let name = format!("\u{1b}[2J\n{}", "x".repeat(1 << 20));
        let mut status = status(7, &[("/\u{202e}", &name)]);
        status.not_ready = Some(format!("\u{9b}1m{name}"));
        let report = reading(status, "", 0).report(None);
        assert_eq!(Column::Mount.cell(&report.mounts[0]), r"/\u{202e}");
        let module = Column::Module.cell(&report.mounts[0]);
        assert!(module.starts_with(r"\u{1b}[2J\nxxx") && module.ends_with("x…"), "{module}");
        assert!(module.len() <= MAX_CELL + "…".len());
        for line in head(&report).iter().chain(&lines(&report)) {
            assert!(line.len() < 10_000 && !line.contains(char::is_control), "{line}");
        }
    }

    #[test]
    fn mounts_are_sorted_from_the_highest_number_and_missing_ones_are_last() {
        let mounts = [("/", "api"), ("/a", "a"), ("/b", "b")];
        let metrics =
            "relayer_rest_queue_depth{mount=\"/a\"} 1\nrelayer_rest_queue_depth{mount=\"/b\"} 3\n";
        let mut mounts = reading(status(7, &mounts), metrics, 0).report(None).mounts;
        let mut sorted = |column: Column| {
            mounts.sort_by(|one, other| column.compare(one, other));
            mounts.iter().map(|mount| mount.mount.clone()).collect::<Vec<_>>()
        };
        assert_eq!(sorted(Column::Queue), ["/b", "/a", "/"]);
        assert_eq!(sorted(Column::Mount), ["/", "/a", "/b"]);
        mounts[1].requests_per_second = Some(0.0);
        mounts[2].requests_per_second = Some(2.5);
        mounts.sort_by(|one, other| Column::Requests.compare(one, other));
        assert_eq!(mounts.iter().map(|mount| &*mount.mount).collect::<Vec<_>>(), ["/b", "/a", "/"]);
    }

    #[test]
    fn columns_follow_each_other_in_a_circle() {
        assert_eq!(Column::Queue.next(), Column::Mount);
        assert_eq!(Column::Mount.previous(), Column::Queue);
        for column in Column::ALL {
            assert_eq!(column.next().previous(), column);
            assert_eq!(Column::ALL[column as usize], column);
        }
    }
}
