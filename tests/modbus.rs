//! Modbus devices against scripted peers, to the byte; MB-01 to MB-10 of the field cases.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

#[path = "modbus/agent.rs"]
mod agent;
#[path = "modbus/counterpart.rs"]
mod counterpart;
#[path = "modbus/faults.rs"]
mod faults;
#[path = "modbus/late.rs"]
mod late;
#[path = "modbus/reading.rs"]
mod reading;
#[path = "modbus/rig.rs"]
mod rig;
#[path = "modbus/serial.rs"]
mod serial;
#[path = "modbus/silent.rs"]
mod silent;
#[path = "modbus/slave.rs"]
mod slave;
#[path = "modbus/values.rs"]
mod values;
