//! What ptp4l says about the grandmaster that the clock follows, judged by
//! IEEE 1588's `clockClass` and `clockAccuracy`.

/// ptp4l's answers to `TIME_STATUS_NP`, `PARENT_DATA_SET`,
/// `TIME_PROPERTIES_DATA_SET` and `CURRENT_DATA_SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtpReport {
    /// Whether a grandmaster is there (`gmPresent`).
    pub has_grandmaster: bool,
    /// Offset from it, in nanoseconds.
    pub master_offset_ns: i64,
    /// `meanPathDelay`, in nanoseconds.
    pub path_delay_ns: i64,
    /// `gm.ClockClass`.
    pub clock_class: u8,
    /// `gm.ClockAccuracy`, the enumeration of IEEE 1588.
    pub clock_accuracy: u8,
    /// Whether UTC − TAI is known; without it the clock may be 37 s off.
    pub is_utc_offset_valid: bool,
    /// Whether the timescale is PTP (TAI) at all, not arbitrary.
    pub is_ptp_timescale: bool,
}

/// The report, judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtpVerdict {
    /// Whether there is a grandmaster in good order that gives UTC.
    pub is_synchronized: bool,
    /// Whether the grandmaster is in holdover: within its specification, or beyond it with a
    /// stated accuracy.
    pub is_holdover: bool,
    /// Bound on |clock − UTC| in nanoseconds.
    pub error_ns: Option<u64>,
}

/// Error that the way from the PTP hardware clock to the system clock may add.
const PHC_TO_SYSTEM_NS: u64 = 10_000;

impl PtpReport {
    /// Judges it.
    pub fn judge(&self) -> PtpVerdict {
        let is_utc = self.has_grandmaster && self.is_ptp_timescale && self.is_utc_offset_valid;
        let accuracy = accuracy_ns(self.clock_accuracy);
        let error_ns = is_utc.then_some(accuracy).flatten().map(|accuracy_ns| {
            let path_ns = self.path_delay_ns.unsigned_abs() / 2;
            let own_ns = self.master_offset_ns.unsigned_abs().saturating_add(path_ns);
            own_ns.saturating_add(accuracy_ns).saturating_add(PHC_TO_SYSTEM_NS)
        });
        PtpVerdict {
            is_synchronized: is_utc && self.clock_class == 6,
            is_holdover: is_utc && matches!(self.clock_class, 7 | 52 | 187),
            error_ns,
        }
    }
}

/// `clockAccuracy` of IEEE 1588-2019, table 5, as a bound in nanoseconds;
/// `None` for "worse than 10 s", unknown and reserved values.
fn accuracy_ns(code: u8) -> Option<u64> {
    let bounds: [u64; 17] = [
        25,
        100,
        250,
        1_000,
        2_500,
        10_000,
        25_000,
        100_000,
        250_000,
        1_000_000,
        2_500_000,
        10_000_000,
        25_000_000,
        100_000_000,
        250_000_000,
        1_000_000_000,
        10_000_000_000,
    ];
    let at = usize::from(code.checked_sub(0x20)?);
    bounds.get(at).copied()
}
