//! The layers of the settings: options override the environment, which overrides the file,
//! which overrides the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use relayer_rest_common::toml_text::{Position, Step, closest, dotted};
use relayer_rest_common::{files, stable_file};
use relayer_rest_oci::is_reference;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::place::NONE;
use super::{Config, ConfigError, ConfigProblem, utf8};
use crate::unix_socket::UNIX;

/// The prefix of the environment's variables.
const PREFIX: &str = "RELAYER_REST_";

/// The variable that names the file of the settings.
const FILE_VARIABLE: &str = "RELAYER_REST_CONFIG";

/// The keys whose values are paths, relative to the folder of the file.
const PATHS: [&str; 15] = [
    "access-log.file",
    "admin.token-file",
    "capsules.folder",
    "code-cache",
    "commands.token-file",
    "control",
    "fleet.ca",
    "fleet.certificate",
    "fleet.credentials",
    "fleet.key",
    "module.file",
    "registries.cache",
    "registries.docker-config",
    "relayer.config",
    "relayer.state",
];

/// The sections that a reload applies. Changes of others take effect at the next start.
const RELOADED: [&str; 5] = ["commands", "extension", "module", "registries", "swap"];

/// The layers above the defaults.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    file: Option<PathBuf>,
    /// The values above the file; later ones override earlier ones.
    values: Vec<LayerValue>,
    unknown: Vec<UnknownVariable>,
}

#[derive(Debug, Clone)]
struct LayerValue {
    key: &'static str,
    value: Value,
    origin: Origin,
}

/// The origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// A section of the relayer's file.
    Relayer(PathBuf, &'static str),
    /// A line of the file.
    File(PathBuf, Position),
    /// A variable of the environment.
    Environment(String),
    /// An option of the command line, or a function of a program that embeds the host.
    Option(&'static str),
}

/// A variable of the environment that is not a setting, although its name begins like one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownVariable {
    /// Its name.
    pub name: String,
    /// The name that was probably meant.
    pub meant: Option<String>,
}

/// The settings, and the origin of each that is not a default.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The settings.
    pub config: Config,
    origins: BTreeMap<String, Origin>,
    /// The values of settings that are not given, from the relayer's file.
    derived: BTreeMap<&'static str, (Json, Origin)>,
}

/// A setting, its value and its origin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// The key, with its section: `http.connections`.
    pub key: String,
    /// The value, without passwords; null if there is none.
    pub value: Json,
    /// The origin: `default`, the relayer's file, `FILE:LINE`, a variable or an option.
    pub origin: Origin,
}

impl Layers {
    /// Creates the layer of this file, if there is one.
    #[must_use]
    pub fn new(file: Option<PathBuf>) -> Self {
        Self { file, ..Self::default() }
    }

    /// Creates the layers of the environment: `RELAYER_REST_CONFIG` names the file, unless it
    /// is given, and variables such as `RELAYER_REST_HTTP_CONNECTIONS` override its settings.
    /// Empty variables count as unset.
    ///
    /// # Errors
    /// Returns an error for a value that is invalid.
    pub fn with_environment(
        file: Option<PathBuf>,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, ConfigError> {
        let keys: BTreeMap<_, _> = keys().iter().map(|key| (variable(key), key)).collect();
        let mut layers = Self::new(file);
        let mut given: Vec<_> = variables
            .into_iter()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
            .collect();
        given.sort();
        for (name, value) in given {
            if name == FILE_VARIABLE {
                layers.file.get_or_insert_with(|| value.into());
            } else if let Some(key) = keys.get(&name) {
                let origin = Origin::Environment(name);
                let Some(value) = value.to_str() else {
                    let message = "not UTF-8".to_owned();
                    return Err(ConfigError::Value { origin, message });
                };
                layers.set(key, value, origin)?;
            } else if !is_of_kubernetes(&name) {
                let known = keys.keys().map(String::as_str);
                let meant = closest(&name, known).map(str::to_owned);
                layers.unknown.push(UnknownVariable { name, meant });
            }
        }
        Ok(layers)
    }

    /// Returns the layers above the file.
    #[must_use]
    pub fn without_file(self) -> Self {
        Self { file: None, ..self }
    }

    /// Sets a value above all layers so far. The text is the value itself, or in the notation
    /// of TOML.
    ///
    /// # Errors
    /// Returns an error if the value is invalid.
    ///
    /// # Panics
    /// Panics if the key is not that of a setting.
    pub fn set(&mut self, key: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let known = keys().iter().find(|known| *known == key);
        let key = known.expect("the key of a setting");
        let as_text = Value::String(text.to_owned());
        let as_toml = format!("{key} = {text}").parse::<Table>().ok();
        let as_toml = as_toml.as_ref().and_then(|table| get(table, key));
        let value = match (check(key, &as_text), as_toml) {
            (Ok(()), _) => as_text,
            (Err(of_text), Some(value)) => {
                // A number as a duration has a wrong text, a text as a number a wrong type.
                let message = of_text.to_string();
                let is_text = !["invalid type", "expected a list, not a string"]
                    .iter()
                    .any(|wrong_type| message.contains(wrong_type));
                match check(key, value) {
                    Ok(()) => value.clone(),
                    Err(of_value) => {
                        return Err(invalid(origin, if is_text { of_text } else { of_value }));
                    }
                }
            }
            (Err(of_text), None) => return Err(invalid(origin, of_text)),
        };
        self.values.push(LayerValue { key, value, origin });
        Ok(())
    }

    /// Returns the variables of the environment that are not settings.
    #[must_use]
    pub fn unknown_variables(&self) -> &[UnknownVariable] {
        &self.unknown
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the file, which may be a pipe, and returns the settings of all layers.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn read(&self) -> Result<Settings, ConfigError> {
        self.read_by(|file| files::read_any(file, files::MAX_TEXT))
    }

    /// Reads the file again, which must be a regular file, and may be written at this time.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is invalid.
    pub fn reread(&self) -> Result<Settings, ConfigError> {
        self.read_by(|file| stable_file::read(file, files::MAX_TEXT))
    }

    fn read_by(
        &self,
        read: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Settings, ConfigError> {
        match &self.file {
            None => self.settings(Path::new(""), ""),
            Some(file) => {
                let bytes = read(file)
                    .map_err(|source| ConfigError::Unreadable { file: file.clone(), source })?;
                let text = utf8(&bytes)
                    .map_err(|problem| ConfigError::Invalid { file: file.clone(), problem })?;
                self.settings(file, text)
            }
        }
    }

    /// Returns the settings with the text of the file.
    fn settings(&self, file: &Path, text: &str) -> Result<Settings, ConfigError> {
        let invalid = |problem| ConfigError::Invalid { file: file.to_owned(), problem };
        Config::parse(text).map_err(invalid)?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            invalid(ConfigProblem::Text {
                position: Position { line: 1, column: 1 },
                key: String::new(),
                message: error.message().to_owned(),
            })
        })?;
        let mut origins = BTreeMap::new();
        for (steps, _) in leaves(&json(&table)) {
            let position = Position::locate(text, &steps);
            origins.insert(dotted(&steps), Origin::File(file.to_owned(), position));
        }
        resolve(&mut table, file.parent().unwrap_or(Path::new("")));
        for LayerValue { key, value, origin } in &self.values {
            let digest = origins.get("module.sha256");
            if *key == "module.file" && matches!(digest, Some(Origin::File(..))) {
                // It is the digest of the module in the file.
                if let Some(Value::Table(module)) = table.get_mut("module") {
                    module.remove("sha256");
                }
                origins.remove("module.sha256");
            }
            origins.retain(|below, _| !is_within(below, key));
            origins.insert((*key).to_owned(), origin.clone());
            put(&mut table, key, value.clone());
        }
        let config = Config::deserialize(table).map_err(|error| {
            // Each layer is valid for itself.
            let origin = self.values.last().map_or(Origin::Default, |value| value.origin.clone());
            ConfigError::Value { origin, message: error.message().to_owned() }
        })?;
        let settings = Settings { config, origins, derived: BTreeMap::new() };
        match settings.config.unreachable_listener() {
            None => Ok(settings),
            Some(place) => Err(settings.unreachable(&format!("listen[{place}].proxy-protocol"))),
        }
    }
}

impl Settings {
    /// Returns each setting with its value and its origin, in the order of the sections.
    #[must_use]
    pub fn list(&self) -> Vec<Setting> {
        let setting = |(steps, value): (Vec<Step>, &Json)| {
            let key = dotted(&steps);
            let (value, origin) = match self.derived.get(&*key) {
                Some((value, origin)) => (value.clone(), origin.clone()),
                None => (value.clone(), self.origin(&key).clone()),
            };
            Setting { key, value, origin }
        };
        leaves(&json(&self.config)).into_iter().map(setting).collect()
    }

    /// Records the value of a setting that is not given, for [`Settings::list`].
    pub fn derive(&mut self, key: &'static str, value: &impl Serialize, origin: Origin) {
        if *self.origin(key) == Origin::Default {
            self.derived.insert(key, (json(value), origin));
        }
    }

    /// Returns the origin of a setting.
    #[must_use]
    pub fn origin(&self, key: &str) -> &Origin {
        // An option may set a list of tables, whose keys are settings each.
        let given = self.origins.iter().find(|(given, _)| is_within(key, given));
        given.map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Returns the error for the PROXY protocol without trusted proxies.
    fn unreachable(&self, key: &str) -> ConfigError {
        let key = key.to_owned();
        let message =
            "no proxy can connect; name their networks in trusted-proxies of [http]".to_owned();
        match self.origin(&key).clone() {
            Origin::File(file, position) => {
                let problem = ConfigProblem::Text { position, key, message };
                ConfigError::Invalid { file, problem }
            }
            origin => ConfigError::Value { origin, message: format!("{key}: {message}") },
        }
    }

    /// Returns the keys that have a value, which may be a default, with the origin of each.
    pub fn given(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.origins.iter().map(|(key, origin)| (key.as_str(), origin))
    }

    /// Returns the settings after a reload with new ones, and the sections whose changes take
    /// effect at the next start.
    #[must_use]
    pub fn reloaded(&self, new: Self) -> (Self, Vec<String>) {
        let [before, after] = [json(&self.config), json(&new.config)];
        let is_reloaded = |key: &str| RELOADED.iter().any(|section| is_within(key, section));
        let sections = before.as_object().into_iter().flat_map(|sections| sections.keys());
        let changed = sections
            .filter(|section| !is_reloaded(section) && before[*section] != after[*section])
            .cloned()
            .collect();
        let origins = self.origins.iter().filter(|(key, _)| !is_reloaded(key));
        let origins = origins.chain(new.origins.iter().filter(|(key, _)| is_reloaded(key)));
        let origins = origins.map(|(key, origin)| (key.clone(), origin.clone())).collect();
        let Config { module, extension, commands, swap, registries, .. } = new.config;
        let config =
            Config { module, extension, commands, swap, registries, ..self.config.clone() };
        (Self { config, origins, derived: self.derived.clone() }, changed)
    }
}

impl Setting {
    /// Returns the section of the key, such as `module.limits` or `extension[0]`, and its name;
    /// no section for a key at the top.
    #[must_use]
    pub fn section(&self) -> (Option<&str>, &str) {
        match self.key.rsplit_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, &self.key),
        }
    }

    /// Returns the value in the notation of TOML, if there is one.
    #[must_use]
    pub fn toml(&self) -> Option<String> {
        Value::try_from(&self.value).ok().map(|value| value.to_string())
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Relayer(file, section) => write!(f, "{} [{section}]", file.display()),
            Self::File(file, position) => write!(f, "{}:{}", file.display(), position.line),
            Self::Environment(name) => f.write_str(name),
            Self::Option(name) => f.write_str(name),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns the keys of all settings.
fn keys() -> &'static [String] {
    static KEYS: LazyLock<Vec<String>> = LazyLock::new(|| {
        let defaults = json(&Config::default());
        let keys = leaves(&defaults).into_iter().map(|(steps, _)| dotted(&steps));
        // A table without entries has no leaves.
        keys.chain(["registries.signers".to_owned()]).collect()
    });
    &KEYS
}

/// Returns the variable of a setting: `RELAYER_REST_HTTP_CONNECTIONS` for `http.connections`.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace(['.', '-'], "_").to_uppercase())
}

/// Returns whether Kubernetes sets a variable of this name in each container next to a service
/// that is called `relayer-rest`.
fn is_of_kubernetes(name: &str) -> bool {
    let name = name.strip_prefix(PREFIX).unwrap_or_default();
    let is_of = |word: &str| name.split('_').any(|part| part == word);
    name.contains("SERVICE_HOST") || name.contains("SERVICE_PORT") || is_of("PORT")
}

/// Returns the reason why a setting cannot have this value.
fn check(key: &str, value: &Value) -> Result<(), ConfigProblem> {
    Config::parse(&format!("{key} = {value}")).map(drop)
}

fn invalid(origin: Origin, problem: ConfigProblem) -> ConfigError {
    let message = match problem {
        ConfigProblem::Text { message, .. } => message,
        ConfigProblem::Limit { error, .. } => {
            format!("{} is out of range; expected {}", error.value, error.range)
        }
        ConfigProblem::Mount { error, .. } => error.to_string(),
    };
    ConfigError::Value { origin, message }
}

/// Makes the paths relative to the current folder instead of the file's one.
fn resolve(table: &mut Table, folder: &Path) {
    let joined = |path: &str| folder.join(path).display().to_string();
    let join = |value: &mut Value| match value {
        Value::String(text) if text != NONE && !is_reference(text) => *text = joined(text),
        _ => {}
    };
    let join_if_unix = |value: &mut Value| {
        if let Some(path) = value.as_str().and_then(|text| text.strip_prefix(UNIX)) {
            *value = Value::String(format!("{UNIX}{}", joined(path)));
        }
    };
    for key in PATHS {
        if let Some(value) = get_mut(table, key) {
            join(value);
        }
    }
    if let Some(Value::Table(signers)) = get_mut(table, "registries.signers") {
        signers.iter_mut().for_each(|(_, key)| join(key));
    }
    if let Some(address) = get_mut(table, "admin.listen") {
        join_if_unix(address);
    }
    match table.get_mut("listen") {
        Some(Value::Array(listeners)) => listeners.iter_mut().for_each(|listener| {
            let Value::Table(section) = listener else { return join_if_unix(listener) };
            section.get_mut("address").map(join_if_unix);
            section.get_mut("client-ca").map(join);
            let certificates = section.get_mut("tls").and_then(Value::as_array_mut);
            for certificate in certificates.into_iter().flatten() {
                let files = ["certificate", "key"];
                let Some(table) = certificate.as_table_mut() else { continue };
                for key in files {
                    table.get_mut(key).map(join);
                }
            }
        }),
        Some(address) => join_if_unix(address),
        None => {}
    }
    if let Some(Value::Array(extensions)) = table.get_mut("extension") {
        for extension in extensions {
            if let Some(module) = extension.get_mut("module") {
                join(module);
            }
        }
    }
}

fn json(settings: &impl Serialize) -> Json {
    serde_json::to_value(settings).expect("keys are texts")
}

/// Returns the values that are not tables, with the steps to each; those of a table come
/// before those of the tables in it, as in a file.
fn leaves(value: &Json) -> Vec<(Vec<Step>, &Json)> {
    let within = |step: Step, value| {
        leaves(value).into_iter().map(move |(mut steps, leaf)| {
            steps.insert(0, step.clone());
            (steps, leaf)
        })
    };
    match value {
        Json::Object(table) => {
            let (tables, values): (Vec<_>, Vec<_>) =
                table.iter().partition(|(_, value)| is_table(value));
            let entries = values.into_iter().chain(tables);
            entries.flat_map(|(key, value)| within(Step::Key(key.clone()), value)).collect()
        }
        Json::Array(list) if is_table(value) => {
            let entries = list.iter().enumerate();
            entries.flat_map(|(place, value)| within(Step::Index(place), value)).collect()
        }
        _ => vec![(Vec::new(), value)],
    }
}

/// Returns whether a value is a table or a list of tables.
fn is_table(value: &Json) -> bool {
    let list = value.as_array().and_then(|list| list.first());
    value.is_object() || list.is_some_and(Json::is_object)
}

/// Returns whether a key is this one or below it.
fn is_within(key: &str, parent: &str) -> bool {
    key.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((section, key)) => get(table.get(section)?.as_table()?, key),
    }
}

fn get_mut<'a>(table: &'a mut Table, key: &str) -> Option<&'a mut Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((section, key)) => get_mut(table.get_mut(section)?.as_table_mut()?, key),
    }
}

fn put(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(table.insert(key.to_owned(), value)),
        Some((section, key)) => {
            let section = table.entry(section).or_insert_with(|| Table::new().into());
            if let Value::Table(section) = section {
                put(section, key, value);
            }
        }
    }
}
