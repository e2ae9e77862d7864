//! Parses metrics in the text format of Prometheus, version 0.0.4.
//!
//! A metric that occurs twice keeps its last value, and families that are not declared are
//! untyped. Any other error rejects the whole text, as in Prometheus.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::SystemTime;

use relayer_rest_common::text::for_log;
use relayer_rest_state::{MetricFamily, MetricKind, Sample};
use winnow::Parser as _;
use winnow::ascii::{space0, space1, take_escaped};
use winnow::combinator::{alt, delimited, opt, preceded, separated_pair, terminated};
use winnow::error::{ContextError, ErrMode};
use winnow::token::{any, none_of, rest, take_till, take_while};

/// The maximum number of families.
const MAX_FAMILIES: usize = 1000;

/// The maximum number of samples of all families.
const MAX_SAMPLES: usize = 50_000;

/// The maximum number of labels of a sample.
const MAX_LABELS: usize = 64;

/// The maximum number of labels of all samples.
const MAX_LABELS_IN_ALL: usize = 250_000;

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 16 << 10;

/// An error in a text with metrics.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct MetricsError {
    /// The line, from 1.
    line: usize,
    problem: String,
}

impl Display for MetricsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "not metrics of Prometheus: line {}: {}", self.line, self.problem)
    }
}

/// Parses a text. Its samples have no times.
///
/// # Errors
/// Returns an error if a line is invalid, or if there is too much of something.
pub fn parse(text: &[u8]) -> Result<Vec<MetricFamily>, MetricsError> {
    let mut families = Families::default();
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        families.line(line).map_err(|problem| MetricsError { line: number + 1, problem })?;
    }
    Ok(families.list)
}

/// The families so far.
#[derive(Default)]
struct Families {
    list: Vec<MetricFamily>,
    places: HashMap<Arc<str>, usize>,
    /// The places of samples by the hashes of their names and labels: of the family, and
    /// in it.
    samples: HashMap<u64, (usize, usize)>,
    hasher: RandomState,
    /// The number of samples, and of their labels.
    count: usize,
    labels: usize,
    /// Each text once.
    texts: HashSet<Arc<str>>,
}

type Labels = Vec<(Arc<str>, Arc<str>)>;

/// A line.
#[derive(Debug, Clone, PartialEq)]
enum Line<'a> {
    Help { name: &'a str, help: &'a str },
    Type { name: &'a str, kind: &'a str },
    Sample { name: &'a str, labels: Vec<(&'a str, &'a str)>, value: f64 },
    Nothing,
}

type Input<'a, 'b> = &'b mut &'a str;
type Parsed<T> = Result<T, ErrMode<ContextError>>;

fn line<'a>(input: Input<'a, '_>) -> Parsed<Line<'a>> {
    preceded(space0, alt((help, kind, comment, sample, space0.value(Line::Nothing))))
        .parse_next(input)
}

fn help<'a>(input: Input<'a, '_>) -> Parsed<Line<'a>> {
    let name = preceded(("#", space0, "HELP", space1), metric_name);
    (name, opt(preceded(space1, rest)))
        .map(|(name, help)| Line::Help { name, help: help.unwrap_or_default() })
        .parse_next(input)
}

fn kind<'a>(input: Input<'a, '_>) -> Parsed<Line<'a>> {
    let name = preceded(("#", space0, "TYPE", space1), metric_name);
    let kind = delimited(space1, take_while(1.., |c: char| c.is_ascii_alphanumeric()), space0);
    (name, kind).map(|(name, kind)| Line::Type { name, kind }).parse_next(input)
}

fn comment<'a>(input: Input<'a, '_>) -> Parsed<Line<'a>> {
    let keyword = (space0, alt(("HELP", "TYPE")), space1);
    ("#", winnow::combinator::not(keyword), rest).value(Line::Nothing).parse_next(input)
}

fn sample<'a>(input: Input<'a, '_>) -> Parsed<Line<'a>> {
    let name = metric_name.parse_next(input)?;
    let labels = opt(preceded(space0, labels)).parse_next(input)?.unwrap_or_default();
    let value = preceded(space0, number).parse_next(input)?;
    // A time is ignored: the relayer has none. So is an example of an observation.
    let integer = (opt("-"), take_while(1.., |c: char| c.is_ascii_digit() || c == '.'));
    (opt((space1, integer)), space0, opt(("#", rest))).void().parse_next(input)?;
    Ok(Line::Sample { name, labels, value })
}

fn labels<'a>(input: Input<'a, '_>) -> Parsed<Vec<(&'a str, &'a str)>> {
    let label = || {
        let pair = separated_pair(label_name, (space0, "=", space0), quoted);
        delimited(space0, pair, space0)
    };
    let list = winnow::combinator::separated(0..=MAX_LABELS, label(), ",");
    delimited("{", terminated(list, (opt(","), space0)), "}").parse_next(input)
}

/// Returns the text between quotes, with its escapes.
fn quoted<'a>(input: Input<'a, '_>) -> Parsed<&'a str> {
    delimited('"', take_escaped(none_of(['"', '\\']), '\\', any), '"').parse_next(input)
}

fn metric_name<'a>(input: Input<'a, '_>) -> Parsed<&'a str> {
    name(|c| c == ':').parse_next(input)
}

fn label_name<'a>(input: Input<'a, '_>) -> Parsed<&'a str> {
    name(|_| false).parse_next(input)
}

fn name<'a>(
    more: fn(char) -> bool,
) -> impl winnow::Parser<&'a str, &'a str, ErrMode<ContextError>> {
    take_while(1.., move |c: char| c.is_ascii_alphanumeric() || c == '_' || more(c))
        .verify(|name: &str| !name.starts_with(|c: char| c.is_ascii_digit()))
}

fn number(input: Input<'_, '_>) -> Parsed<f64> {
    take_till(1.., [' ', '\t']).verify_map(|text: &str| text.parse().ok()).parse_next(input)
}

/// Replaces the escapes of a label or a help.
fn unescaped(text: &str) -> String {
    let mut unescaped = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            unescaped.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => unescaped.push('\n'),
            Some(escaped @ ('"' | '\\')) => unescaped.push(escaped),
            // As in Prometheus, other backslashes are characters.
            Some(other) => unescaped.extend(['\\', other]),
            None => unescaped.push('\\'),
        }
    }
    unescaped
}

impl Families {
    fn line(&mut self, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() > MAX_LINE {
            return Err(format!("longer than {MAX_LINE} bytes"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())?;
        let text = text.trim_end_matches('\r');
        let invalid = |_| {
            let start: String = text.chars().take(60).collect();
            format!(
                "expected a sample such as `name{{label=\"value\"}} 1`, found `{}`",
                for_log(&start)
            )
        };
        match line.parse(text).map_err(invalid)? {
            Line::Nothing => {}
            Line::Help { name, help } => {
                let place = self.family(name)?;
                self.list[place].help = unescaped(help.trim_end());
            }
            Line::Type { name, kind } => {
                let place = self.family(name)?;
                self.list[place].kind = match kind {
                    "counter" => MetricKind::Counter,
                    "gauge" => MetricKind::Gauge,
                    "histogram" => MetricKind::Histogram,
                    "summary" => MetricKind::Summary,
                    _ => MetricKind::Untyped,
                };
            }
            Line::Sample { name, labels, value } => self.sample(name, &labels, value)?,
        }
        Ok(())
    }

    /// Returns the place of a family, which is added if it is missing.
    fn family(&mut self, name: &str) -> Result<usize, String> {
        if let Some(place) = self.places.get(name) {
            return Ok(*place);
        }
        if self.list.len() == MAX_FAMILIES {
            return Err(format!("more than {MAX_FAMILIES} families of metrics"));
        }
        let name = self.text(name);
        self.list.push(MetricFamily {
            name: Arc::clone(&name),
            kind: MetricKind::Untyped,
            help: String::new(),
            samples: Vec::new(),
        });
        let place = self.list.len() - 1;
        self.places.insert(name, place);
        Ok(place)
    }

    /// Returns the place of the family that a sample belongs to.
    fn family_of(&mut self, name: &str) -> Result<usize, String> {
        let suffixes: [(&str, &[MetricKind]); 4] = [
            ("_bucket", &[MetricKind::Histogram]),
            ("_sum", &[MetricKind::Histogram, MetricKind::Summary]),
            ("_count", &[MetricKind::Histogram, MetricKind::Summary]),
            ("_total", &[MetricKind::Counter]),
        ];
        for (suffix, kinds) in suffixes {
            if let Some(base) = name.strip_suffix(suffix)
                && let Some(place) = self.places.get(base)
                && kinds.contains(&self.list[*place].kind)
            {
                return Ok(*place);
            }
        }
        self.family(name)
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) -> Result<(), String> {
        let mut names = HashSet::new();
        if let Some((twice, _)) = labels.iter().find(|(name, _)| !names.insert(*name)) {
            return Err(format!("the label {twice} occurs twice"));
        }
        let family = self.family_of(name)?;
        let name = self.text(name);
        let labels: Labels = labels
            .iter()
            .map(|(name, value)| (self.text(name), self.text(&unescaped(value))))
            .collect();
        let key = self.hasher.hash_one((&name, &labels));
        if let Some((family, place)) = self.samples.get(&key) {
            let known = &mut self.list[*family].samples[*place];
            if known.name == name && known.labels == labels {
                known.value = value;
                return Ok(());
            }
        }
        if self.count == MAX_SAMPLES {
            return Err(format!("more than {MAX_SAMPLES} samples"));
        }
        self.count += 1;
        self.labels += labels.len();
        if self.labels > MAX_LABELS_IN_ALL {
            return Err(format!("more than {MAX_LABELS_IN_ALL} labels"));
        }
        let samples = &mut self.list[family].samples;
        self.samples.insert(key, (family, samples.len()));
        samples.push(Sample { name, labels, value, since: SystemTime::UNIX_EPOCH });
        Ok(())
    }

    /// Returns a shared text.
    fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_FAMILIES, MAX_LABELS, MAX_LABELS_IN_ALL, MAX_LINE, MAX_SAMPLES, parse};
    use relayer_rest_state::MetricKind;

    /// Returns the samples of a text, as `family kind name{label=value} value`.
    fn samples(text: &str) -> Vec<String> {
        let families = parse(text.as_bytes()).unwrap();
        families
            .iter()
            .flat_map(|family| {
                family.samples.iter().map(|sample| {
                    let labels: Vec<_> = sample
                        .labels
                        .iter()
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect();
                    let (family, kind) = (&family.name, family.kind.name());
                    let (name, value) = (&sample.name, sample.value);
                    format!("{family} {kind} {name}{{{}}} {value}", labels.join(","))
                })
            })
            .collect()
    }

    fn problem(text: &[u8]) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn metrics_of_a_relayer_are_read() {
        let text = "\
# HELP backlog_size Total number of SendPacket events in the backlog
# TYPE backlog_size gauge
backlog_size{chain=\"ibc-0\",channel=\"channel-0\",counterparty=\"ibc-1\",port=\"transfer\",service_name=\"unknown_service\",otel_scope_name=\"hermes\",otel_scope_version=\"\"} 3
# TYPE tx_latency_submitted histogram
tx_latency_submitted_bucket{chain=\"ibc-0\",le=\"500\"} 1
tx_latency_submitted_bucket{chain=\"ibc-0\",le=\"+Inf\"} 2
tx_latency_submitted_sum{chain=\"ibc-0\"} 905.5
tx_latency_submitted_count{chain=\"ibc-0\"} 2
# TYPE wallet_balance gauge
wallet_balance{account=\"cosmos1\",chain=\"ibc-0\",denom=\"ibc/27A6\"} 1e-7
";
        let families = parse(text.as_bytes()).unwrap();
        let kinds: Vec<_> = families.iter().map(|family| (&*family.name, family.kind)).collect();
        assert_eq!(
            kinds,
            [
                ("backlog_size", MetricKind::Gauge),
                ("tx_latency_submitted", MetricKind::Histogram),
                ("wallet_balance", MetricKind::Gauge)
            ]
        );
        assert_eq!(families[0].help, "Total number of SendPacket events in the backlog");
        assert_eq!(families[0].samples[0].labels.len(), 7);
        assert_eq!(families[1].samples.len(), 4);
        assert_eq!(families[2].samples[0].value.to_bits(), 1e-7_f64.to_bits());
    }

    #[test]
    fn the_whole_format_is_read() {
        for (text, expected) in [
            ("a 1", "a untyped a{} 1"),
            ("  a{ } 1  ", "a untyped a{} 1"),
            ("a{b=\"c\",} +Inf", "a untyped a{b=c} inf"),
            ("a{ b = \"c\" , d=\"e\" }\tNaN 1395066363000", "a untyped a{b=c,d=e} NaN"),
            ("a:b{x=\"}{,= #\"} -3.5e2 -17", "a:b untyped a:b{x=}{,= #} -350"),
            (r#"a{b="\\\"\n\x"} 1"#, "a untyped a{b=\\\"\n\\x} 1"),
            ("#TYPE a counter\na 1\r", "a counter a{} 1"),
            (
                "# TYPE a counter\n# a comment\n#\n\n# EOF\na_total 1 # {} 0.5",
                "a counter a_total{} 1",
            ),
            ("# TYPE a summary\na_count 1", "a summary a_count{} 1"),
            ("# TYPE a gauge\na_count 1", "a_count untyped a_count{} 1"),
            ("# TYPE a new\na 1", "a untyped a{} 1"),
        ] {
            assert_eq!(samples(text), [expected], "{text}");
        }
        assert!(parse(b"").unwrap().is_empty());
        let help = parse(b"# HELP a back\\\\slash\\nline\n# HELP b").unwrap();
        assert_eq!([&*help[0].help, &*help[1].help], ["back\\slash\nline", ""]);
    }

    #[test]
    fn a_sample_that_occurs_twice_has_its_last_value() {
        let text = "# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 2\n# TYPE a gauge\na{x=\"1\"} 3";
        assert_eq!(samples(text), ["a gauge a{x=1} 3", "a gauge a{x=2} 2"]);
    }

    #[test]
    fn invalid_lines_are_rejected_with_their_place() {
        for text in [
            "a",
            "a b",
            "1a 1",
            "a{1b=\"c\"} 1",
            "a{b=c} 1",
            "a{b=\"c} 1",
            "a{b=\"c\"",
            "a 1 x",
            "<html>",
            "# TYPE a",
        ] {
            let found = problem(format!("ok 1\n{text}\n").as_bytes());
            assert!(
                found.starts_with("not metrics of Prometheus: line 2: expected a sample"),
                "{found}"
            );
        }
        assert!(problem(b"a{b=\"1\",b=\"2\"} 1").ends_with("line 1: the label b occurs twice"));
        assert!(problem(b"\n\xff 1").ends_with("line 2: not UTF-8"));
    }

    #[test]
    fn amounts_are_bounded() {
        let many =
            |count: usize, line: fn(usize) -> String| (0..count).map(line).collect::<String>();
        let families = |count| many(count, |number| format!("a{number} 1\n"));
        assert_eq!(parse(families(MAX_FAMILIES).as_bytes()).unwrap().len(), MAX_FAMILIES);
        assert!(problem(families(MAX_FAMILIES + 1).as_bytes()).contains("families"));
        let samples = |count| many(count, |number| format!("a{{b=\"{number}\"}} 1\n"));
        assert_eq!(parse(samples(MAX_SAMPLES).as_bytes()).unwrap()[0].samples.len(), MAX_SAMPLES);
        assert!(problem(samples(MAX_SAMPLES + 1).as_bytes()).contains("samples"));
        let labels = |count| format!("a{{{}}} 1", many(count, |number| format!("b{number}=\"\",")));
        assert!(parse(labels(MAX_LABELS).as_bytes()).is_ok());
        assert!(parse(labels(MAX_LABELS + 1).as_bytes()).is_err());
        let all = |lines| {
            let labels = many(10, |number| format!("b{number}=\"\","));
            let lines: Vec<_> =
                (0..lines).map(|line| format!("a{{{labels}c=\"{line}\"}} 1\n")).collect();
            lines.concat()
        };
        let most = MAX_LABELS_IN_ALL / 11;
        assert!(parse(all(most).as_bytes()).is_ok());
        assert!(problem(all(most + 1).as_bytes()).ends_with("labels"));
        let long = |length| format!("a{{b=\"{}\"}} 1", "x".repeat(length - 9));
        assert!(parse(long(MAX_LINE).as_bytes()).is_ok());
        assert!(problem(long(MAX_LINE + 1).as_bytes()).contains("longer"));
    }
}
