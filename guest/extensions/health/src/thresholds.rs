//! The checks of the relayer's telemetry, with the thresholds of a request.

use std::time::Duration;

use relayer_rest_sdk::contract::{NotReady, Sample};
use relayer_rest_sdk::{Host, relayer_metric};

use crate::checks::{Check, Failure};
use crate::query::{MAX_BACKLOG, MAX_BACKLOG_AGE, MIN_BALANCE, Query};

/// The thresholds of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Thresholds {
    max_backlog_age: Option<Duration>,
    max_backlog: Option<f64>,
    min_balances: Vec<MinBalance>,
}

/// The minimum balance of wallets.
#[derive(Debug, PartialEq)]
struct MinBalance {
    amount: f64,
    /// The token; any if empty.
    denom: String,
}

/// The samples that violate a threshold, worst first.
type Violations = Vec<(f64, String)>;

impl Thresholds {
    /// Parses the thresholds. Of a repeated maximum, the lowest counts.
    ///
    /// # Errors
    /// Returns the reason why a value is invalid.
    pub(crate) fn new(query: &Query<'_>) -> Result<Self, String> {
        let mut thresholds = Self::default();
        for (name, value) in &query.thresholds {
            let invalid = |expected| format!("{name}={value}: expected {expected}, such as {name}");
            match *name {
                MAX_BACKLOG_AGE => {
                    let age =
                        humantime::parse_duration(value).map_err(|_| invalid("a time") + "=10m")?;
                    let max = thresholds.max_backlog_age.get_or_insert(age);
                    *max = age.min(*max);
                }
                MAX_BACKLOG => {
                    let count: u32 =
                        value.parse().map_err(|_| invalid("a number of packets") + "=100")?;
                    let max = thresholds.max_backlog.get_or_insert(count.into());
                    *max = f64::from(count).min(*max);
                }
                _ => {
                    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.');
                    let (amount, denom) = value.split_at(end.unwrap_or(value.len()));
                    let amount = amount.parse().map_err(|_| invalid("an amount") + "=100uatom")?;
                    thresholds.min_balances.push(MinBalance { amount, denom: denom.to_owned() });
                }
            }
        }
        Ok(thresholds)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the telemetry against the thresholds.
    pub(crate) fn checks<H: Host>(&self, host: &H) -> Vec<Check> {
        let age = self
            .max_backlog_age
            .map(|max| Check::new(MAX_BACKLOG_AGE, found(backlog_age(host, max))));
        let size = self.max_backlog.map(|max| {
            let size = samples(host, "backlog_size", |sample| {
                let is_beyond = sample.value > max;
                is_beyond.then(|| {
                    let text = format!("{} has {} pending packets", path(sample), sample.value);
                    (sample.value, text)
                })
            });
            Check::new(MAX_BACKLOG, found(size))
        });
        let balances = self.min_balances.iter().map(|min| {
            let name = format!("{MIN_BALANCE}/{}{}", min.amount, min.denom);
            Check::new(name, found(low_balances(host, min)))
        });
        age.into_iter().chain(size).chain(balances).collect()
    }
}

/// Returns the channels whose oldest pending packet has been pending for longer.
fn backlog_age<H: Host>(host: &H, max: Duration) -> Result<Violations, Failure> {
    let now = host.scraped().map_err(not_ready)?;
    samples(host, "backlog_oldest_sequence", |sample| {
        // A sequence of 0 means that no packet is pending.
        if sample.value == 0.0 {
            return None;
        }
        let age = Duration::from_nanos(now.saturating_sub(sample.since));
        (age > max).then(|| {
            let age_text = humantime::format_duration(Duration::from_secs(age.as_secs()));
            let packet = sample.value;
            let text = format!("{}: packet {packet} has been pending for {age_text}", path(sample));
            (age.as_secs_f64(), text)
        })
    })
}

/// Returns the wallets with a lower balance. A token that no wallet has is a failure, too.
fn low_balances<H: Host>(host: &H, min: &MinBalance) -> Result<Violations, Failure> {
    let mut has_wallet = false;
    let low = samples(host, "wallet_balance", |sample| {
        let denom = sample.label("denom");
        if !min.denom.is_empty() && denom != min.denom {
            return None;
        }
        has_wallet = true;
        // A balance that is not a number is not enough.
        let is_enough = sample.value >= min.amount;
        (!is_enough).then(|| {
            let (chain, account) = (sample.label("chain"), sample.label("account"));
            (-sample.value, format!("{account} on {chain} has {}{denom}", sample.value))
        })
    })?;
    if has_wallet {
        return Ok(low);
    }
    Err(Failure::Threshold(match &*min.denom {
        "" => "the relayer reports no balance of a wallet".to_owned(),
        denom => format!("the relayer reports no balance in {denom}"),
    }))
}

/// Returns the violations among the samples of a family. A family without samples has
/// none: the relayer exports a family only after its first value.
fn samples<H: Host>(
    host: &H,
    family: &str,
    check: impl FnMut(&Sample) -> Option<(f64, String)>,
) -> Result<Violations, Failure> {
    let family = relayer_metric(host, family).map_err(not_ready)?;
    let mut violations: Violations =
        family.iter().flat_map(|family| &family.samples).filter_map(check).collect();
    violations.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    Ok(violations)
}

/// Returns the result of a check: the worst violation, and the number of the others.
fn found(violations: Result<Violations, Failure>) -> Result<(), Failure> {
    let violations = violations?;
    let Some(((_, worst), others)) = violations.split_first() else { return Ok(()) };
    Err(Failure::Threshold(match others.len() {
        0 => worst.clone(),
        1 => format!("{worst}; and 1 more"),
        more => format!("{worst}; and {more} more"),
    }))
}

/// Returns the channel of a sample of the backlog: `ibc-0 channel-0/transfer to ibc-1`.
fn path(sample: &Sample) -> String {
    let label = |name| sample.label(name);
    format!(
        "{} {}/{} to {}",
        label("chain"),
        label("channel"),
        label("port"),
        label("counterparty")
    )
}

fn not_ready(reason: NotReady) -> Failure {
    Failure::NotReady(reason.message)
}

#[cfg(test)]
mod tests {
    use crate::handle;
    use relayer_rest_sdk::testing::FakeHost;
    use relayer_rest_sdk::{Request, Response};

    const MINUTE: u64 = 60_000_000_000;

    /// Returns a host whose channels have had these oldest packets for these minutes.
    fn backlog(channels: &[(&str, f64, u64)]) -> FakeHost {
        let mut host = FakeHost::new();
        let scraped = host.scraped;
        for (channel, sequence, minutes) in channels {
            let labels = [
                ("chain", "ibc-0"),
                ("channel", *channel),
                ("counterparty", "ibc-1"),
                ("port", "transfer"),
            ];
            host.scraped = scraped - minutes * MINUTE;
            host = host.with_metric("backlog_oldest_sequence", &labels, *sequence);
            host = host.with_metric("backlog_size", &labels, *sequence * 2.0);
        }
        host.scraped = scraped;
        host
    }

    fn wallets(balances: &[(&str, &str, f64)]) -> FakeHost {
        balances.iter().fold(FakeHost::new(), |host, (account, denom, balance)| {
            let labels = [("account", *account), ("chain", "ibc-0"), ("denom", *denom)];
            host.with_metric("wallet_balance", &labels, *balance)
        })
    }

    fn readyz(host: &FakeHost, query: &str) -> Response {
        handle(host, &Request::get(&format!("/readyz?{query}")))
    }

    #[track_caller]
    fn passes(host: &FakeHost, query: &str) {
        let response = readyz(host, query);
        assert_eq!((response.status, response.text_body()), (200, "ok"));
    }

    /// Checks that one check fails with this line.
    #[track_caller]
    fn fails(host: &FakeHost, query: &str, line: &str) {
        let response = readyz(host, query);
        let failed: Vec<_> =
            response.text_body().lines().filter(|line| line.starts_with("[-]")).collect();
        assert_eq!((response.status, &*failed), (503, &[line][..]));
    }

    #[test]
    fn the_oldest_packet_has_an_age() {
        let host =
            backlog(&[("channel-0", 7.0, 9), ("channel-1", 8.0, 12), ("channel-2", 0.0, 60)]);
        passes(&host, "max-backlog-age=12m");
        fails(
            &host,
            "max-backlog-age=10m",
            "[-]max-backlog-age failed: ibc-0 channel-1/transfer to ibc-1: packet 8 has been pending for 12m",
        );
        fails(
            &host,
            "max-backlog-age=1h&max-backlog-age=8min",
            "[-]max-backlog-age failed: ibc-0 channel-1/transfer to ibc-1: packet 8 has been pending for 12m; and 1 more",
        );
    }

    #[test]
    fn the_backlog_has_a_size() {
        let host = backlog(&[("channel-0", 5.0, 1), ("channel-1", 50.0, 1)]);
        passes(&host, "max-backlog=100");
        fails(
            &host,
            "max-backlog=99",
            "[-]max-backlog failed: ibc-0 channel-1/transfer to ibc-1 has 100 pending packets",
        );
    }

    #[test]
    fn balances_have_a_minimum_for_each_token() {
        let host = wallets(&[("rich", "uatom", 100.5), ("poor", "uosmo", 3.0)]);
        passes(&host, "min-balance=3");
        passes(&host, "min-balance=100uatom&min-balance=2.5uosmo");
        fails(
            &host,
            "min-balance=100uatom&min-balance=4uosmo",
            "[-]min-balance/4uosmo failed: poor on ibc-0 has 3uosmo",
        );
        fails(
            &host,
            "min-balance=1000",
            "[-]min-balance/1000 failed: poor on ibc-0 has 3uosmo; and 1 more",
        );
        fails(
            &host,
            "min-balance=1uusd",
            "[-]min-balance/1uusd failed: the relayer reports no balance in uusd",
        );
        let broken = wallets(&[("odd", "uatom", f64::NAN)]);
        fails(&broken, "min-balance=1", "[-]min-balance/1 failed: odd on ibc-0 has NaNuatom");
    }

    #[test]
    fn telemetry_that_is_not_known_fails_only_its_checks() {
        let host = FakeHost::new();
        passes(&host, "");
        fails(
            &host,
            "max-backlog-age=10m",
            "[-]max-backlog-age failed: not known: the relayer's telemetry is not read",
        );
    }

    #[test]
    fn invalid_thresholds_are_rejected_with_an_example() {
        for (query, message) in [
            (
                "max-backlog-age=10",
                "max-backlog-age=10: expected a time, such as max-backlog-age=10m",
            ),
            (
                "max-backlog=-1",
                "max-backlog=-1: expected a number of packets, such as max-backlog=100",
            ),
            (
                "min-balance=uatom",
                "min-balance=uatom: expected an amount, such as min-balance=100uatom",
            ),
            (
                "min-balance=1.2.3",
                "min-balance=1.2.3: expected an amount, such as min-balance=100uatom",
            ),
        ] {
            let response = readyz(&FakeHost::new(), query);
            let expected = format!("invalid parameter: {message}\nreadyz check failed\n");
            assert_eq!((response.status, response.text_body()), (400, &*expected));
        }
    }
}
