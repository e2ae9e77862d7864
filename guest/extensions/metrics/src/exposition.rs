//! Prometheus' text format, version 0.0.4.

use std::fmt::{self, Display, Formatter, Write};

use relayer_rest_sdk::contract::{MetricFamily, MetricKind};

/// The content type of the format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The names and values of labels.
pub(crate) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// The text of metrics, one family after the other.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// A time in nanoseconds, written in seconds with microseconds. Prometheus parses it as a
/// double, which has no more digits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seconds(pub(crate) u64);

/// A label's value, escaped for its quotes.
struct Escaped<'a>(&'a str);

impl Exposition {
    /// Writes a family of one gauge without labels.
    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.gauges(name, help, [([], value)]);
    }

    /// Writes a family of gauges, or nothing without samples. No two samples may
    /// have the same labels.
    ///
    /// The help is not escaped: it must not contain a backslash or a line end.
    pub(crate) fn gauges<'a, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'a, N>, impl Display)>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_some() {
            self.write(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n"));
        }
        for (labels, value) in samples {
            self.0.push_str(name);
            self.labels(labels);
            self.write(format_args!(" {value}\n"));
        }
    }

    /// Writes a family as the relayer exports it.
    pub(crate) fn family(&mut self, family: &MetricFamily) {
        let MetricFamily { name, kind, help, samples } = family;
        if !help.is_empty() {
            let help = help.replace('\\', "\\\\").replace('\n', "\\n");
            self.write(format_args!("# HELP {name} {help}\n"));
        }
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Summary => "summary",
            MetricKind::Untyped => "untyped",
        };
        self.write(format_args!("# TYPE {name} {kind}\n"));
        for sample in samples {
            self.0.push_str(&sample.name);
            self.labels(sample.labels.iter().map(|label| (&*label.name, &*label.value)));
            self.write(format_args!(" {}\n", Value(sample.value)));
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// Writes the labels that have a value: to Prometheus, an empty label is missing.
    fn labels<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut before = '{';
        for (name, value) in labels.into_iter().filter(|(_, value)| !value.is_empty()) {
            self.write(format_args!("{before}{name}=\"{}\"", Escaped(value)));
            before = ',';
        }
        if before == ',' {
            self.0.push('}');
        }
    }

    fn write(&mut self, arguments: fmt::Arguments<'_>) {
        self.0.write_fmt(arguments).expect("writing to memory succeeds");
    }
}

/// A value in the notation of the format.
struct Value(f64);

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => Display::fmt(&value, f),
        }
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let microseconds = self.0 / 1_000;
        write!(f, "{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000)
    }
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['\\', '"', '\n']) {
            let plain = part.trim_end_matches(['\\', '"', '\n']);
            f.write_str(plain)?;
            f.write_str(match &part[plain.len()..] {
                "\\" => "\\\\",
                "\"" => "\\\"",
                "\n" => "\\n",
                _ => "",
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Exposition, Labels, Seconds};
    use relayer_rest_sdk::contract::{Label, MetricFamily, MetricKind, Sample};

    #[track_caller]
    fn check<const N: usize>(samples: &[(Labels<'_, N>, u64)], expected: &str) {
        let mut text = Exposition::default();
        text.gauges("a_b", "What it is.", samples.iter().copied());
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn a_family_has_one_head() {
        check(
            &[([("a", "1"), ("b", "2")], 3), ([("a", ""), ("b", "2")], 4), ([("a", ""); 2], 5)],
            "# HELP a_b What it is.\n# TYPE a_b gauge\na_b{a=\"1\",b=\"2\"} 3\na_b{b=\"2\"} 4\na_b 5\n",
        );
        check::<0>(&[], "");
    }

    #[test]
    fn families_of_the_relayer_are_written_as_they_were() {
        let sample = |name: &str, labels: &[(&str, &str)], value| Sample {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(name, value)| Label { name: (*name).into(), value: (*value).into() })
                .collect(),
            value,
            since: 0,
        };
        let samples = vec![
            sample("h_bucket", &[("chain", "a\"b"), ("le", "+Inf")], 3.0),
            sample("h_sum", &[("chain", "a\"b")], 0.25),
            sample("h_count", &[("chain", "")], f64::NAN),
            sample("h_count", &[], f64::INFINITY),
        ];
        let (name, help) = ("h".to_owned(), "a\\b\nc".to_owned());
        let mut text = Exposition::default();
        text.family(&MetricFamily { name, kind: MetricKind::Histogram, help, samples });
        let expected = "# HELP h a\\\\b\\nc\n# TYPE h histogram\n\
                        h_bucket{chain=\"a\\\"b\",le=\"+Inf\"} 3\nh_sum{chain=\"a\\\"b\"} 0.25\n\
                        h_count NaN\nh_count +Inf\n";
        assert_eq!(text.into_text(), expected);
    }

    #[test]
    fn label_values_are_escaped() {
        for (value, escaped) in [
            (r"\", r"\\"),
            ("\"", r#"\""#),
            ("\n", r"\n"),
            ("\\\\n\n\"\"x", r#"\\\\n\n\"\"x"#),
            ("ü\t\r\0{},=#", "ü\t\r\0{},=#"),
            ("a\n# TYPE b counter\nb 1", r"a\n# TYPE b counter\nb 1"),
        ] {
            let head = "# HELP a_b What it is.\n# TYPE a_b gauge\n";
            check(&[([("a", value)], 1)], &format!("{head}a_b{{a=\"{escaped}\"}} 1\n"));
        }
    }

    #[test]
    fn timestamps_have_microseconds() {
        for (nanoseconds, expected) in [
            (0, "0.000000"),
            (1_999, "0.000001"),
            (1_767_225_600_012_345_678, "1767225600.012345"),
            (u64::MAX, "18446744073.709551"),
        ] {
            assert_eq!(Seconds(nanoseconds).to_string(), expected);
        }
    }
}
