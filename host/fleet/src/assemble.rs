//! Assembles a state from its parts.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use relayer_rest_state::{
    ChainId, Component, FleetGeneration, Known, MetricFamily, RelayerDialect, RelayerState,
    Replica, Worker,
};
use serde::de::DeserializeOwned;

use crate::message::Times;
use crate::part::{PartDigest, PartError, PartName, Parts};
use crate::state_part::{
    CHAIN, CHAINS, ChainPart, DIALECT, FAMILY, STATE, StateHead, TELEMETRY, VERSIONS, WORKERS,
    join, pieces, single,
};

/// Assembles states, and decodes only values that differ from those of the state before.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    values: HashMap<PartName, Decoded>,
}

/// A decoded value, with the digests of its parts.
#[derive(Debug, Clone)]
struct Decoded {
    digests: Vec<PartDigest>,
    value: Arc<dyn Any + Send + Sync>,
}

/// A part that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the part {name} {error}")]
pub(crate) struct AssemblyError {
    name: PartName,
    error: PartError,
}

impl Assembler {
    /// Returns the state with these parts. A state that was assembled before stays known, if
    /// this one cannot be assembled.
    pub(crate) fn assemble(
        &mut self,
        generation: FleetGeneration,
        times: Times,
        parts: &Parts,
    ) -> Result<Replica, AssemblyError> {
        let mut assembly = Assembly { before: &self.values, values: HashMap::new(), parts };
        let components: Arc<Vec<Component>> = assembly.value(&single(VERSIONS))?;
        let dialect: Arc<Option<RelayerDialect>> = assembly.value(&single(DIALECT))?;
        let chain_ids: Arc<Known<Vec<ChainId>>> = assembly.value(&single(CHAINS))?;
        let head: Arc<StateHead> = assembly.value(&single(STATE))?;
        let telemetry: Arc<Known<Vec<Arc<str>>>> = assembly.value(&single(TELEMETRY))?;
        let chains = assembly.values::<ChainPart>(CHAIN)?;
        let families = assembly.values::<MetricFamily>(FAMILY)?;
        let workers = assembly.values::<Vec<Worker>>(WORKERS)?;
        let status = head.chains.clone().map(|chains| RelayerState {
            chains,
            workers: workers.iter().flat_map(|workers| workers.iter().cloned()).collect(),
        });
        self.values = assembly.values;
        Ok(Replica {
            generation,
            changed: times.changed,
            components: components.as_ref().clone(),
            dialect: *dialect,
            chain_ids: chain_ids.as_ref().clone(),
            chains: chains.iter().map(|chain| (chain.id.clone(), chain.config.clone())).collect(),
            status,
            family_names: telemetry.as_ref().clone(),
            families: families.iter().map(|family| family.as_ref().clone()).collect(),
            scraped: times.scraped,
        })
    }
}

/// The state that is being assembled.
struct Assembly<'a> {
    before: &'a HashMap<PartName, Decoded>,
    values: HashMap<PartName, Decoded>,
    parts: &'a Parts,
}

impl Assembly<'_> {
    /// Returns a value.
    fn value<T>(&mut self, name: &PartName) -> Result<Arc<T>, AssemblyError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let digests: Vec<_> = pieces(self.parts, name).map(|part| part.digest).collect();
        let known = self.before.get(name).filter(|known| known.digests == digests);
        if let Some(known) = known
            && let Ok(value) = Arc::clone(&known.value).downcast::<T>()
        {
            self.values.insert(name.clone(), known.clone());
            return Ok(value);
        }
        let value = join::<T>(pieces(self.parts, name));
        let value = value.map_err(|error| AssemblyError { name: name.clone(), error })?;
        let value = Arc::new(value);
        let decoded = Decoded { digests, value: Arc::clone(&value) as _ };
        self.values.insert(name.clone(), decoded);
        Ok(value)
    }

    /// Returns all values of a kind of which there are several.
    fn values<T>(&mut self, kind: &str) -> Result<Vec<Arc<T>>, AssemblyError>
    where
        T: DeserializeOwned + Send + Sync + 'static,
    {
        let parts = self.parts;
        let is_first = |name: &&PartName| {
            let mut tokens = name.as_str().split('.');
            tokens.next() == Some(kind) && tokens.count() == 1
        };
        parts.keys().filter(is_first).map(|name| self.value(name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use relayer_rest_state::{
        ChainConfig, ChainKind, Component, FleetGeneration, MetricFamily, MetricKind, Object,
        RelayerDialect, RelayerState, Sample, StatePublisher, Worker,
    };

    use super::Assembler;
    use crate::cut::Cutter;
    use crate::message::Times;

    fn family(name: &str, value: f64) -> MetricFamily {
        let sample = |chain: &str| Sample {
            name: name.into(),
            labels: vec![("chain".into(), chain.into())],
            value,
            since: SystemTime::UNIX_EPOCH,
        };
        MetricFamily {
            name: name.into(),
            kind: MetricKind::Gauge,
            help: "A metric".to_owned(),
            samples: ["a", "b"].map(sample).into(),
        }
    }

    #[test]
    fn a_state_is_the_same_from_its_parts() {
        let writer = StatePublisher::new();
        let version = Component { name: "ibc-relayer".to_owned(), version: "1.13.1".to_owned() };
        writer.set_components(vec![version]);
        writer.set_dialect(RelayerDialect::V1_13);
        let chains = ["a", "b"].map(|id| ChainConfig::new(id, ChainKind::CosmosSdk));
        writer.set_chains(chains.into()).unwrap();
        let object = Object::Wallet { chain_id: "a".into() };
        let workers = (0..100).map(|id| Worker { id, object: object.clone(), data: None });
        writer.set_state(RelayerState { chains: vec!["a".into()], workers: workers.collect() });
        let scraped = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let families = vec![family("backlog_size", 3.0), family("wallet_balance", f64::INFINITY)];
        writer.set_telemetry(families, scraped);
        let cut = writer.reader().snapshot();

        let parts = Cutter::default().cut(&cut);
        let times = Times { changed: scraped, scraped: Some(scraped), confirmed: scraped };
        let generation = FleetGeneration { epoch: 1, number: 1 };
        let replica = Assembler::default().assemble(generation, times, &parts).unwrap();
        let reader = StatePublisher::new();
        reader.replicate(replica, None).unwrap();
        let assembled = reader.reader().snapshot();
        assert_eq!(assembled.components().value(), cut.components().value());
        assert_eq!(assembled.dialect().value(), cut.dialect().value());
        assert_eq!(assembled.chain_ids().value(), cut.chain_ids().value());
        for id in ["a", "b"] {
            let config = |chain: Option<_>| format!("{chain:?}");
            let [one, other] = [&assembled, &cut].map(|snapshot| {
                snapshot.chain(id).map(|chain| chain.config().map(|config| config.value().clone()))
            });
            assert_eq!(config(one), config(other));
        }
        assert_eq!(assembled.status().value(), cut.status().value());
        assert_eq!(assembled.telemetry().names().value(), cut.telemetry().names().value());
        for name in ["backlog_size", "wallet_balance"] {
            let [one, other] = [&assembled, &cut]
                .map(|snapshot| snapshot.telemetry().family(name).unwrap().value().clone());
            assert_eq!(one, other);
        }
        assert_eq!(assembled.telemetry().scraped(), Some(scraped));
    }
}
