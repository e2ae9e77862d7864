//! `relayer-rest top`: shows the requests of a running server, live.
//!
//! | file | job |
//! |---|---|
//! | `top/sample.rs` | rates from two readings of the counters |
//! | `top/text.rs` | columns, cells and the lines above the table, escaped and cut |
//! | `top/view.rs` | the live view: its keys, and its drawing |

mod sample;
#[cfg(test)]
mod tests;
mod text;
mod view;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use humantime::{format_duration, parse_duration};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use relayer_rest_server::control::ControlClient;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{self, Receiver};
use tokio::time::sleep;

use super::control::ControlArgs;
use super::{CommandOutcome, Failure, block_on, print, print_json};
use sample::{Reading, Report};
use view::{Next, View};

/// The range of intervals: each reading takes the server some work.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_hours(1));

#[derive(Args)]
pub(super) struct TopArgs {
    /// Print one sample as a table, and end
    #[arg(long)]
    once: bool,
    /// Print the sample as JSON
    #[arg(long, requires = "once")]
    json: bool,
    /// Time between two readings, from which rates are computed
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Duration,
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &TopArgs) -> Result<CommandOutcome, Failure> {
    if !args.once && !io::stdout().is_terminal() {
        return Err("stdout is not a terminal; use --once to print one sample".into());
    }
    let client = args.control.client()?;
    if args.once {
        let report = block_on(sample(&client, args.interval))??;
        if args.json {
            print_json(&report)?;
        } else {
            print(&text::lines(&report))?;
        }
    } else {
        block_on(watch(client, args.interval))??;
    }
    Ok(CommandOutcome::Done)
}

/// Parses a time between readings.
fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).map_err(|error| error.to_string())?;
    let (min, max) = INTERVALS;
    if (min..=max).contains(&interval) {
        Ok(interval)
    } else {
        Err(format!("not from {} to {}", format_duration(min), format_duration(max)))
    }
}

/// Reads the state of a server.
async fn read(client: &ControlClient) -> Result<Reading, Failure> {
    let status = client.status().await?;
    let metrics = client.metrics().await?;
    Ok(Reading::new(status, &metrics, Instant::now(), SystemTime::now())?)
}

/// Returns the rates of a server in an interval from now on.
async fn sample(client: &ControlClient, interval: Duration) -> Result<Report, Failure> {
    let before = read(client).await?;
    sleep(interval).await;
    Ok(read(client).await?.report(Some(&before)))
}

/// Shows the state of a server until the user quits, or the process gets a signal to end.
async fn watch(client: ControlClient, interval: Duration) -> Result<(), Failure> {
    let mut view = View::new(read(&client).await?);
    // They are caught before the terminal changes.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut screen = Screen::open()?;
    let mut events = events()?;
    let mut readings = readings(client, interval);
    loop {
        screen.0.draw(|frame| view.draw(frame))?;
        let next = tokio::select! {
            Some(reading) = readings.recv() => {
                view.update(reading, SystemTime::now());
                Next::Draw
            }
            Some(event) = events.recv() => view.on_event(&event?),
            () = received(&mut interrupt) => Next::Quit,
            () = received(&mut terminate) => Next::Quit,
            () = received(&mut hangup) => Next::Quit,
        };
        if next == Next::Quit {
            return Ok(());
        }
    }
}

async fn received(signal: &mut Signal) {
    signal.recv().await;
}

/// Reads the state of a server at each interval, beside the keys: a server that hangs must not
/// keep the user from quitting.
fn readings(client: ControlClient, interval: Duration) -> Receiver<Result<Reading, String>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            sleep(interval).await;
            let reading = read(&client).await.map_err(|error| error.to_string());
            if sender.send(reading).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads the keys and the changes of the terminal's size, on a thread that ends with the
/// process: reading blocks.
fn events() -> io::Result<Receiver<io::Result<Event>>> {
    let (sender, receiver) = mpsc::channel(1);
    let forward = move || {
        loop {
            let event = event::read();
            let is_last = event.is_err();
            if sender.blocking_send(event).is_err() || is_last {
                return;
            }
        }
    };
    thread::Builder::new().name("keys".to_owned()).spawn(forward)?;
    Ok(receiver)
}

/// The terminal, which is restored when this is dropped, and before the message of a panic.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        // It may have switched the terminal before it failed.
        ratatui::try_init().map(Self).inspect_err(|_| drop(ratatui::try_restore()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do for a terminal that is gone.
        drop(self.0.show_cursor());
        drop(ratatui::try_restore());
    }
}
