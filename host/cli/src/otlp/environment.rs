//! The variables of the environment, as in the specification of OpenTelemetry.
//!
//! The library reads those of traces itself. It ignores some that it cannot use; they are
//! errors here.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use relayer_rest_common::text::truncate;
use tracing::warn;
use url::{Position, Url};

/// The interval between two exports of metrics, and the time for one.
const INTERVAL: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The exporters that the environment enables.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) traces: Option<Endpoint>,
    pub(super) metrics: Option<Target>,
}

/// The receiver of a signal.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    /// The time for one message.
    pub(super) timeout: Duration,
}

/// The receiver of metrics.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) headers: HeaderMap,
    pub(super) interval: Duration,
    pub(super) is_compressed: bool,
}

/// A variable of the environment that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {problem}; {remedy}")]
pub(crate) struct OtlpError {
    pub(super) variable: String,
    pub(super) problem: String,
    pub(super) remedy: &'static str,
}

/// A kind of telemetry.
#[derive(Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

/// Reads variables; a parameter, for tests.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Environment {
    /// Reads the environment of the process.
    ///
    /// # Errors
    /// Returns an error if a variable cannot be used.
    pub(super) fn read() -> Result<Self, OtlpError> {
        Self::from(|name| env::var(name).ok())
    }

    fn from(variables: impl Fn(&str) -> Option<String>) -> Result<Self, OtlpError> {
        let variables = Variables(&variables);
        if variables
            .get("OTEL_SDK_DISABLED")
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
        {
            return Ok(Self { traces: None, metrics: None });
        }
        let traces = variables.endpoint(Signal::Traces)?;
        let metrics = match variables.endpoint(Signal::Metrics)? {
            Some(endpoint) => Some(variables.target(endpoint)?),
            None => None,
        };
        Ok(Self { traces, metrics })
    }
}

/// Writes the URL without its query, which may have a token.
impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url[..Position::AfterPath])
    }
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
        }
    }
}

impl Variables<'_> {
    /// Returns the value of a variable. An empty one counts as unset.
    fn get(&self, name: &str) -> Option<String> {
        let Self(variables) = self;
        variables(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    /// Returns a property of an exporter, and the name of its variable: the one of the signal,
    /// or else the one of all signals.
    fn exporter(&self, signal: Signal, property: &str) -> Option<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{property}", signal.name());
        let common = format!("OTEL_EXPORTER_OTLP_{property}");
        [own, common].into_iter().find_map(|name| {
            let value = self.get(&name)?;
            Some((name, value))
        })
    }

    /// Returns the endpoint of a signal, if it is enabled.
    fn endpoint(&self, signal: Signal) -> Result<Option<Endpoint>, OtlpError> {
        let name = format!("OTEL_{}_EXPORTER", signal.name());
        match self.get(&name).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => {
                let problem = format!("{:?} is not supported", truncate(other));
                return Err(OtlpError { variable: name, problem, remedy: "use otlp or none" });
            }
        }
        let Some((name, value)) = self.exporter(signal, "ENDPOINT") else { return Ok(None) };
        let endpoint = Url::parse(&value).ok().filter(|url| url.scheme() == "http");
        let Some(mut endpoint) = endpoint else {
            return Err(OtlpError {
                variable: name,
                problem: "not a URL of http".to_owned(),
                remedy: "use one such as http://127.0.0.1:4318, of a collector that forwards with TLS",
            });
        };
        if !endpoint.username().is_empty() || endpoint.password().is_some() {
            return Err(OtlpError {
                variable: name,
                problem: "it has a user name or a password".to_owned(),
                remedy: "set OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20… instead",
            });
        }
        self.check_protocol(signal)?;
        // The endpoint of all signals has a path for each of them.
        if !name.contains(signal.name())
            && let Ok(mut path) = endpoint.path_segments_mut()
        {
            path.pop_if_empty().extend(signal.path().split('/'));
        }
        let timeout = match self.exporter(signal, "TIMEOUT") {
            Some((variable, value)) => millis(variable, &value)?,
            None => TIMEOUT,
        };
        Ok(Some(Endpoint { url: endpoint, timeout }))
    }

    fn check_protocol(&self, signal: Signal) -> Result<(), OtlpError> {
        match self.exporter(signal, "PROTOCOL") {
            Some((variable, protocol)) if protocol != "http/protobuf" => Err(OtlpError {
                variable,
                problem: format!("{:?} is not supported", truncate(&protocol)),
                remedy: "use http/protobuf, which collectors receive on port 4318",
            }),
            _ => Ok(()),
        }
    }

    fn target(&self, endpoint: Endpoint) -> Result<Target, OtlpError> {
        let preference = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        if self.get(preference).is_some_and(|value| !value.eq_ignore_ascii_case("cumulative")) {
            warn!(variable = preference, "ignored: metrics are cumulative");
        }
        let mut headers = HeaderMap::new();
        if let Some((variable, list)) = self.exporter(Signal::Metrics, "HEADERS") {
            for entry in list.split(',').filter(|entry| !entry.trim().is_empty()) {
                let (name, value) = header(entry).ok_or_else(|| OtlpError {
                    variable: variable.clone(),
                    problem: "not a list of headers".to_owned(),
                    remedy: "write NAME=VALUE, with a comma between two and values in percent-encoding",
                })?;
                headers.insert(name, value);
            }
        }
        let interval = "OTEL_METRIC_EXPORT_INTERVAL";
        let interval = match self.get(interval) {
            Some(value) => millis(interval.to_owned(), &value)?,
            None => INTERVAL,
        };
        let is_compressed = match self.exporter(Signal::Metrics, "COMPRESSION") {
            Some((_, value)) if value == "gzip" => true,
            None => false,
            Some((_, value)) if value == "none" => false,
            Some((variable, value)) => {
                let problem = format!("{:?} is not supported", truncate(&value));
                return Err(OtlpError { variable, problem, remedy: "use gzip or none" });
            }
        };
        Ok(Target { endpoint, headers, interval, is_compressed })
    }
}

fn header(entry: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = entry.split_once('=')?;
    let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some((name.trim().parse().ok()?, value))
}

fn millis(variable: String, value: &str) -> Result<Duration, OtlpError> {
    match value.parse() {
        Ok(millis) if millis > 0 => Ok(Duration::from_millis(millis)),
        _ => Err(OtlpError {
            variable,
            problem: format!("{:?} is not a time", truncate(value)),
            remedy: "write a number of milliseconds above 0",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Environment, OtlpError};
    use std::time::Duration;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, OtlpError> {
        Environment::from(|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    /// Returns the endpoints of traces and metrics.
    fn endpoints(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let environment = read(variables).unwrap();
        let traces = environment.traces.map(|endpoint| endpoint.url.to_string());
        [traces, environment.metrics.map(|target| target.endpoint.url.to_string())]
    }

    #[test]
    fn an_endpoint_enables_both_signals_and_one_of_a_signal_is_used_as_it_is() {
        const ALL: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h:4318/x/");
        let some = |url: &str| Some(url.to_owned());
        assert_eq!(endpoints(&[]), [None, None]);
        assert_eq!(endpoints(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")]), [None, None]);
        let [traces, metrics] = ["http://h:4318/x/v1/traces", "http://h:4318/x/v1/metrics"];
        assert_eq!(endpoints(&[ALL]), [some(traces), some(metrics)]);
        let own = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/a?b");
        assert_eq!(endpoints(&[ALL, own]), [some(traces), some("http://m/a?b")]);
        assert_eq!(endpoints(&[own]), [None, some("http://m/a?b")]);
        assert_eq!(endpoints(&[ALL, ("OTEL_TRACES_EXPORTER", "none")]), [None, some(metrics)]);
        assert_eq!(endpoints(&[ALL, ("OTEL_SDK_DISABLED", "true")]), [None, None]);
    }

    #[test]
    fn the_exporter_of_metrics_has_the_properties_of_its_variables() {
        let target = |variables: &[(&str, &str)]| {
            let endpoint = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://h/x?token=secret");
            read(&[&[endpoint], variables].concat()).unwrap().metrics.unwrap()
        };
        let default = target(&[]);
        assert_eq!(default.endpoint.to_string(), "http://h/x");
        assert_eq!((default.endpoint.timeout.as_secs(), default.interval.as_secs()), (10, 60));
        assert!(default.headers.is_empty() && !default.is_compressed);
        let target = target(&[
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
            (
                "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
                "x-key = a%20b+c==, authorization=Basic%20eA==,",
            ),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "5"),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1500"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ]);
        assert_eq!(target.endpoint.timeout, Duration::from_millis(1500));
        assert_eq!(target.interval, Duration::from_millis(250));
        assert!(target.is_compressed);
        assert_eq!(target.headers.len(), 2);
        assert_eq!(target.headers["x-key"], "a b+c==");
        assert_eq!(target.headers["authorization"], "Basic eA==");
        assert!(!format!("{target:?}").contains("a b+c"));
    }

    #[test]
    fn variables_that_cannot_be_used_are_errors() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://h");
        for (variable, value, remedy) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "h:4318", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://h", "http://127.0.0.1:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://user:pass@h", "authorization=Basic%20"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json", "http/protobuf"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp or none"),
            ("OTEL_METRICS_EXPORTER", "prometheus", "otlp or none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a", "NAME=VALUE"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "NAME=VALUE"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=%0a", "NAME=VALUE"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "milliseconds"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0", "milliseconds"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "br", "gzip or none"),
        ] {
            let error = read(&[(variable, value), endpoint]).unwrap_err();
            assert_eq!(error.variable, variable);
            assert!(error.remedy.contains(remedy), "{error}");
        }
    }
}
