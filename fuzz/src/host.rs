//! Answers of the daemons that keep the clock.

use tidegate::host::{chrony, ptp};

/// An answer of chronyd as a packet, or of ptp4l as the text of `pmc`.
pub fn time_daemons(bytes: &[u8]) {
    let sequence = bytes.get(16..20).and_then(|bytes| bytes.try_into().ok());
    let sequence = u32::from_be_bytes(sequence.unwrap_or_default());
    if let Ok(report) = chrony::parse(bytes, sequence) {
        assert!(report.freq_ppm.is_finite() && report.skew_ppm.is_finite());
        let longer = [bytes, b"more"].concat();
        let again = chrony::parse(&longer, sequence).expect("the same packet");
        assert_eq!(format!("{again:?}"), format!("{report:?}"));
        assert!(chrony::parse(bytes, !sequence).is_err(), "another's answer");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(report) = ptp::parse(text) {
        let again = ptp::parse(&format!("odd\n{text}\nodd odd\n")).expect("the same answer");
        assert_eq!(format!("{again:?}"), format!("{report:?}"));
    }
}
