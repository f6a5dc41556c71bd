//! A delivery frontier read back from the broker.

use serde::Deserialize;

use crate::core::id::{Epoch, Seq, SourceId};
use crate::core::seam::RetainedFrontier;

#[derive(Deserialize)]
struct Said {
    gateway: String,
    source: String,
    epoch: String,
    through_seq: u64,
}

/// What [`super::frontier`] wrote; `None` for anything else, and for another
/// gateway's.
pub fn retained_frontier(gateway: &str, payload: &[u8]) -> Option<RetainedFrontier> {
    let said: Said = serde_json::from_slice(payload).ok()?;
    (said.gateway == gateway).then_some(())?;
    let (number, nonce) = said.epoch.split_once('-')?;
    let epoch = Epoch { number: number.parse().ok()?, nonce: u32::from_str_radix(nonce, 16).ok()? };
    let (source, through_seq) = (SourceId::new(&said.source), Seq(said.through_seq));
    Some(RetainedFrontier { source, epoch, through_seq })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::seam::Frontier;
    use crate::core::time::IngestTime;

    #[test]
    fn it_is_read_as_it_was_written() {
        let said = Frontier {
            source: SourceId::new("press-line"),
            epoch: Epoch { number: 3, nonce: 0x0f3a_6c21 },
            through_seq: Seq(1_234),
            complete_before: None,
            pending: 7,
            at: IngestTime::from_unix_ns(0),
        };
        let mut payload = Vec::new();
        super::super::frontier("gw", &said, &mut payload);
        let Frontier { source, epoch, through_seq, .. } = said;
        let expected = RetainedFrontier { source, epoch, through_seq };
        assert_eq!(retained_frontier("gw", &payload), Some(expected));
        assert_eq!(retained_frontier("other", &payload), None);
        assert_eq!(retained_frontier("gw", b"{}"), None);
        assert_eq!(retained_frontier("gw", b"\xff"), None);
    }
}
