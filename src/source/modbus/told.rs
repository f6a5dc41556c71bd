//! What is worth saying of a register.
//!
//! A value is said whenever there is one; what moved too little the agent drops, as
//! for every source ([`crate::core::values::deadband`]). That there is none is said
//! when that begins, when the reason changes, and then once a minute: a device that
//! is off for a night is no flood, and nobody takes silence for health.

use std::sync::Arc;
use std::time::Duration;

use super::codec::Decoded;
use crate::config::modbus::Register;
use crate::core::reading::{Flags, Quality, Reading, Series, Value};
use crate::core::time::Uptime;

/// Between two readings that say the same trouble of one register.
const REPEAT: Duration = Duration::from_secs(60);

/// One register, and what was said of it last.
#[derive(Debug)]
pub(super) struct Told {
    series: Arc<Series>,
    /// What is wrong, and when that was said.
    trouble: Option<(String, Uptime)>,
}

impl Told {
    /// Of a register of the source with this entity.
    pub(super) fn new(register: &Register, entity: Option<&str>) -> Self {
        let entity = register.entity.as_deref().or(entity).unwrap_or_default();
        let series = Series {
            entity: entity.into(),
            property: register.property.as_str().into(),
            unit: register.unit.as_deref().map(Box::from),
        };
        Self { series: Arc::new(series), trouble: None }
    }

    /// What is wrong with it.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|(what, _)| what.as_str())
    }

    /// The reading that says what was read, if it is to be said.
    pub(super) fn say(&mut self, decoded: Decoded, now: Uptime) -> Option<Reading> {
        let Decoded { value, quality, detail } = decoded;
        if quality == Quality::Good {
            self.trouble = None;
            return Some(self.reading(value, quality, None));
        }
        let what = detail.unwrap_or_default();
        let is_known = self.trouble.as_ref().is_some_and(|(known, said)| {
            *known == what && u128::from(now.since_ns(*said)) < REPEAT.as_nanos()
        });
        if is_known {
            return None;
        }
        self.trouble = Some((what.clone(), now));
        Some(self.reading(value, quality, Some(what.into())))
    }

    fn reading(&self, value: Value, quality: Quality, detail: Option<Arc<str>>) -> Reading {
        Reading {
            series: Arc::clone(&self.series),
            value,
            quality,
            quality_detail: detail,
            device_time: None,
            id: None,
            flags: Flags::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::modbus::{RegisterKind, Table};

    fn told() -> Told {
        let plain = Register::plain(Table::Input, 0, RegisterKind::U16);
        Told::new(&Register { property: "p".to_owned(), ..plain }, Some("e"))
    }

    fn good(number: i64) -> Decoded {
        Decoded { value: Value::I64(number), quality: Quality::Good, detail: None }
    }

    fn second(s: u64) -> Uptime {
        Uptime::from_ns(s * 1_000_000_000)
    }

    #[test]
    fn the_same_value_is_said_again() {
        let mut told = told();
        assert!(told.say(good(10), second(0)).is_some());
        assert!(told.say(good(10), second(1)).is_some());
    }

    #[test]
    fn trouble_is_said_when_it_begins_changes_and_once_a_minute() {
        let mut told = told();
        let mut bad = |what: &str, s| told.say(Decoded::bad(what.to_owned()), second(s));
        let first = bad("gone", 0).unwrap();
        assert_eq!(first.quality, Quality::Bad);
        assert_eq!(first.quality_detail.as_deref(), Some("gone"));
        assert!(matches!(first.value, Value::F64(number) if number.is_nan()));
        assert_eq!(bad("gone", 59), None);
        assert!(bad("gone", 60).is_some());
        assert_eq!(bad("gone", 61), None);
        assert!(bad("busy", 62).is_some());
        assert_eq!(told.trouble(), Some("busy"));
    }

    #[test]
    fn the_first_value_after_trouble_is_always_said() {
        let mut told = told();
        assert!(told.say(good(10), second(0)).is_some());
        assert!(told.say(Decoded::bad("gone".to_owned()), second(1)).is_some());
        assert!(told.say(good(10), second(2)).is_some());
        assert_eq!(told.trouble(), None);
    }
}
