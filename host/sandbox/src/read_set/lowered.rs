//! The reads of the state, in the form in which their results cross to a module.

use std::sync::Arc;

use super::TrackedSnapshot;
use crate::wire;

impl TrackedSnapshot {
    pub(crate) fn lowered_components(&mut self) -> Arc<Vec<wire::Component>> {
        self.components().lowered(|components| wire::components(components))
    }

    pub(crate) fn lowered_chain_ids(&mut self) -> Arc<wire::Known<Vec<Arc<str>>>> {
        self.chain_ids().lowered(|ids| wire::known(ids, |ids| wire::chain_ids(ids)))
    }

    pub(crate) fn lowered_chain(
        &mut self,
        id: &str,
    ) -> wire::Known<Option<Arc<wire::ChainConfig>>> {
        let chain = self.chain(id);
        wire::known(&chain, |chain| {
            chain.map(|chain| chain.lowered(|chain| wire::ChainConfig::from(chain)))
        })
    }

    pub(crate) fn lowered_state(&mut self) -> Arc<wire::Known<wire::RelayerState>> {
        self.status().lowered(|status| wire::known(status, wire::relayer_state))
    }

    pub(crate) fn lowered_changed(&mut self) -> u64 {
        wire::timestamp(self.changed())
    }

    pub(crate) fn lowered_unconfirmed_since(&mut self) -> Option<u64> {
        self.unconfirmed_since().map(wire::timestamp)
    }

    pub(crate) fn lowered_sources(&mut self) -> Arc<Vec<wire::Source>> {
        self.sources().lowered(|sources| wire::sources(sources))
    }

    pub(crate) fn lowered_metric_families(&mut self) -> Arc<wire::Known<Vec<Arc<str>>>> {
        self.metric_families().lowered(|names| wire::known(names, Clone::clone))
    }

    pub(crate) fn lowered_metric_family(
        &mut self,
        name: &str,
    ) -> wire::Known<Option<Arc<wire::MetricFamily>>> {
        let family = self.metric_family(name);
        wire::known(&family, |family| {
            family.map(|family| family.lowered(|family| wire::MetricFamily::from(family)))
        })
    }

    pub(crate) fn lowered_scraped(&mut self) -> wire::Known<u64> {
        wire::known(&self.scraped(), |time| wire::timestamp(*time))
    }
}
