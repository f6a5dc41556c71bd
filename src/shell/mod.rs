//! The thin shell around the core: the loop that carries out its effects, the
//! wiring, the telemetry.

mod channels;
pub mod desk;
pub mod driver;
pub mod ingest;
pub mod listen;
pub mod lock;
pub mod log_line;
pub mod notices;
pub mod offline;
pub mod quarantine;
pub mod reload;
pub mod roster;
pub mod run;
pub mod site;
pub mod startup;
pub mod telemetry;
pub mod text;
pub mod throttle;
mod watchdog;
mod wiring;

pub use crate::http::status::Report;
