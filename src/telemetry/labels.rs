//! Labels and buckets of the metrics.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
};
use std::{fmt::Debug, hash::Hash};

pub type Count<L> = Family<L, Counter>;
pub type Level<L> = Family<L, Gauge>;
pub type Durations<L> = Family<L, Histogram, Buckets>;

/// Upper bounds of the histogram buckets: from 0.5 ms, as most reviews take, to 10 s. Longer
/// durations, such as those of slow reconciles, are counted in `+Inf` only.
#[derive(Clone, Debug)]
pub struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new([
            0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
        ])
    }
}

/// The traits that a set of metric labels has.
pub trait LabelSet: Clone + Debug + Eq + Hash + EncodeLabelSet + Send + Sync + 'static {}

impl<L: Clone + Debug + Eq + Hash + EncodeLabelSet + Send + Sync + 'static> LabelSet for L {}

/// Defines a struct for each set of labels of a metric.
macro_rules! label_sets {
    ($($name:ident($($label:ident),+);)+) => {$(
        #[derive(Clone, Debug, Hash, PartialEq, Eq, prometheus_client::encoding::EncodeLabelSet)]
        pub struct $name {
            $(pub $label: &'static str,)+
        }
    )+};
}
pub(crate) use label_sets;

label_sets! {
    Acted(component, action, reason, outcome);
    Certificate(certificate);
    Component(component);
    Fate(fate);
    Outcome(outcome);
    Path(path);
    Reason(reason);
    Reconciled(component, outcome);
    Resource(resource);
    Reviewed(path, verdict);
    Task(task);
}
