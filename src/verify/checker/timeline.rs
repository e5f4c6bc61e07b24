//! "The newest version by a moment", kept in little memory.
//!
//! A timeline answers one question: which version was certainly there before
//! time t? Points may be dropped to save memory, which can only make the answer
//! older. A check built on it can therefore miss a violation that lies between
//! two thinned points, but can never report one that did not happen.

use std::collections::VecDeque;
use std::sync::Arc;

use super::history::{SessionId, Version};

/// How much a timeline keeps.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Points older than this before the newest are merged into one. Must exceed
    /// the longest staleness bound plus the longest operation.
    pub horizon_us: u64,
    /// At more points than this, the older half is thinned.
    pub points_max: usize,
    /// Violations kept with their details; all are counted.
    pub examples_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            horizon_us: 120_000_000,
            points_max: 4_096,
            examples_max: 20,
        }
    }
}

/// An operation that established a version: the evidence of a violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Earlier {
    /// Who wrote or read.
    pub session: SessionId,
    /// The version written or seen.
    pub version: Version,
    /// When it was asked for.
    pub start_us: u64,
    /// When it was acknowledged, or the row had arrived.
    pub end_us: u64,
    /// Where it was read; `None` for a write.
    pub server: Option<Arc<str>>,
}

/// Points of strictly increasing version and non-decreasing end.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    points: VecDeque<Earlier>,
}

impl Timeline {
    /// Adds a point unless its version was already known.
    ///
    /// Points must come in the order in which they ended.
    pub(super) fn push(&mut self, point: Earlier, limits: &Limits) {
        if let Some(last) = self.points.back() {
            if point.version <= last.version {
                return;
            }
            debug_assert!(last.end_us <= point.end_us, "fed in the order of ends");
        }
        self.prune(point.end_us.saturating_sub(limits.horizon_us));
        self.points.push_back(point);
        if self.points.len() > limits.points_max {
            self.thin(limits);
        }
    }

    /// The newest version of an operation that ended strictly before `t_us`.
    pub(super) fn before(&self, t_us: u64) -> Option<&Earlier> {
        let count = self.points.partition_point(|point| point.end_us < t_us);
        count.checked_sub(1).and_then(|last| self.points.get(last))
    }

    /// Merges what lies before the horizon into its newest point.
    fn prune(&mut self, horizon_start_us: u64) {
        while self.points.len() > 1 && self.points[1].end_us < horizon_start_us {
            self.points.pop_front();
        }
    }

    /// Lowers the resolution of the older half, to points that lie apart by a
    /// fraction of the horizon: at most a quarter of the points is left of it.
    fn thin(&mut self, limits: &Limits) {
        let older = self.points.len() / 2;
        let quarter = u64::try_from(limits.points_max / 4).unwrap_or(u64::MAX);
        let spacing_us = limits.horizon_us / quarter.max(1);
        let mut index = 0;
        let mut kept_us = None;
        self.points.retain(|point| {
            index += 1;
            let apart = kept_us.is_none_or(|kept_us| kept_us + spacing_us <= point.end_us);
            let keep = index > older || apart;
            if keep {
                kept_us = Some(point.end_us);
            }
            keep
        });
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.points.len()
    }
}
