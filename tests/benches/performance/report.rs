//! The figures, as a table and as JSON.

use std::fmt::Display;

use serde_json::{Value, json};

/// The target of a figure.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// The figure is only informative.
    None,
}

/// All figures of a run.
#[derive(Default)]
pub(crate) struct Report {
    figures: Vec<Value>,
}

impl Report {
    /// Adds a figure: a ratio, and the two values that it relates. Prints it at once,
    /// since a run takes some minutes.
    pub(crate) fn add(
        &mut self,
        what: impl Display,
        (measured, baseline): (impl Display, impl Display),
        ratio: f64,
        target: Target,
    ) {
        if self.figures.is_empty() {
            println!("| measurement | measured | baseline | ratio | target | |");
            println!("|---|---|---|---|---|---|");
        }
        let (wanted, holds) = match target {
            Target::AtLeast(least) => (format!("at least {least}"), Some(ratio >= least)),
            Target::AtMost(most) => (format!("at most {most}"), Some(ratio <= most)),
            Target::None => (String::new(), None),
        };
        let verdict = match holds {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "",
        };
        println!("| {what} | {measured} | {baseline} | {ratio:.2} | {wanted} | {verdict} |");
        self.figures.push(json!({
            "what": what.to_string(),
            "measured": measured.to_string(),
            "baseline": baseline.to_string(),
            "ratio": ratio,
            "target": wanted,
            "holds": holds,
        }));
    }

    /// Returns the figures as JSON, with the machine that they were measured on.
    pub(crate) fn json(self) -> Value {
        json!({ "machine": machine(), "figures": self.figures })
    }
}

/// Returns the processor's name and the number of cores.
pub(crate) fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{count} cores of {}", name.unwrap_or("an unknown processor"))
}
