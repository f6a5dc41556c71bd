//! Event-time windows on the gateway, with the semantics of Apache Flink.
//!
//! Reading order:
//!
//! 1. [`spec`]: what a configuration asks for. [`result`]: what comes out.
//! 2. [`watermark`]: how far event time has come, over several sources.
//! 3. [`assign`]: a time -> its windows. [`aggregate`]: what a window computes,
//!    with [`sketch`] for percentiles and `line` for what depends on the order.
//! 4. [`operator`]: panes, firings, lateness, cleanup; `pane`: what one keeps;
//!    `row` and `spine`: how a sliding window costs little to fire.
//! 5. [`checkpoint`]: the state of all windows as of an offset in the journal.
//!
//! Besides: [`glob`] chooses series, [`latest`] is for those who want a state and not a
//! history. The agent gives readings, silences and, after a
//! restart, the journal to the operators, and makes entries of what they say.
//!
//! A window is a pure function of what it is given, in order: the same journal
//! yields the same results with the same revision numbers.

pub mod aggregate;
pub mod assign;
pub mod checkpoint;
pub mod entry;
pub mod glob;
pub mod latest;
mod line;
pub mod operator;
mod pane;
pub mod result;
mod row;
pub mod sketch;
pub mod spec;
mod spine;
mod sum;
pub mod watermark;

pub use aggregate::{Accumulator, Sample};
pub use latest::Latest;
pub use operator::{Firing, Input, LateVerdict, Operator, OperatorState, Output, RestoreError};
pub use result::{Coverage, LateReading, LateReason, Number, ResultStatus, WindowResult};
pub use spec::{Aggregate, Kind, LatePolicy, WindowSpec};
pub use watermark::Millis;
