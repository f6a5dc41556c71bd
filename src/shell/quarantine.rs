//! The quarantine as people and scripts see it: the same beside a running agent
//! and without one.

use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::core::reading::Record;
use crate::core::time::IngestTime;
use crate::store::StoreError;
use crate::store::quarantine::{Content, Filter, Refusals, Refused};
use crate::store::set_aside::{self, SetAside};
use crate::wire::json;

/// Characters of a content that a list shows.
const HEAD_CHARS: usize = 80;

/// Before the name of a segment that was set aside.
const SEGMENT: &str = "segment:";

/// What is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    /// Version of this form: 1.
    pub v: u32,
    /// The gateway's id.
    pub gateway: String,
    /// Bytes of refused inputs kept, those not listed included.
    pub kept_bytes: u64,
    /// Refused inputs dropped to stay within the bounds, ever.
    pub dropped: u64,
    /// Refused inputs, the newest first.
    pub items: Vec<Item>,
    /// Segments that were set aside whole, by name.
    pub segments: Vec<Segment>,
}

/// One refused input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its number, from 1; never given twice.
    pub id: u64,
    /// The source it came from.
    pub source: String,
    /// A short word: `syntax`, `too_long`, `time`, `refused_by_broker` …
    pub kind: String,
    /// When it came, by the gateway's clock then.
    pub at: String,
    /// What is wrong.
    pub reason: String,
    /// How many bytes came.
    pub length: u64,
    /// How many of them are kept.
    pub kept_bytes: u64,
    /// Its beginning.
    pub head: String,
}

/// One segment that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// `segment:` and its name.
    pub id: String,
    /// When it was last changed, by the gateway's clock then.
    pub at: String,
    /// What is wrong with it.
    pub reason: String,
    /// What it takes on disk, in bytes.
    pub bytes: u64,
    /// Where it is.
    pub path: String,
}

/// One refused input with its kept content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// What a list says of it.
    #[serde(flatten)]
    pub item: Item,
    /// The line as text, where it is text.
    pub text: Option<String>,
    /// The bytes in hexadecimal, where it is none.
    pub hex: Option<String>,
    /// The reading, as the uplink would send it; `seq` is 0 when it never got one.
    pub reading: Option<serde_json::Value>,
}

/// What became of one that was released or discarded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Which.
    pub id: String,
    /// `accepted`, `refused`, `full`, `discarded`, `absent` or `impossible`.
    pub outcome: String,
    /// Readings accepted.
    pub readings: u64,
    /// Why it was not taken, or what was discarded.
    pub detail: String,
}

impl Done {
    /// An outcome in a word and a sentence.
    pub fn new(id: &str, outcome: &str, readings: u64, detail: impl Into<String>) -> Self {
        Self { id: id.to_owned(), outcome: outcome.to_owned(), readings, detail: detail.into() }
    }

    /// Whether what was asked for has been done.
    pub fn is_good(&self) -> bool {
        matches!(self.outcome.as_str(), "accepted" | "discarded")
    }
}

/// Which are meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chosen {
    /// Numbers of refused inputs, and `segment:NAME`.
    pub ids: Vec<String>,
}

/// Lists what is in quarantine; segments only where nothing is filtered out.
///
/// # Errors
/// It cannot be read.
pub fn list(
    refusals: &mut Refusals,
    data_dir: &Path,
    gateway: &str,
    filter: &Filter,
    limit: usize,
) -> Result<Listing, StoreError> {
    let items =
        refusals.list(filter, limit, |refused, content| item(&refused, &content, gateway))?;
    let totals = refusals.totals()?;
    let takes_segments =
        filter.source.is_none() && filter.kind.as_deref().is_none_or(|kind| kind == "segment");
    let aside = if takes_segments { set_aside::list(data_dir)? } else { Vec::new() };
    Ok(Listing {
        v: 1,
        gateway: gateway.to_owned(),
        kept_bytes: totals.bytes,
        dropped: totals.dropped,
        items,
        segments: aside.iter().map(segment).collect(),
    })
}

/// Shows one whole.
///
/// # Errors
/// It cannot be read.
pub fn show(refusals: &mut Refusals, gateway: &str, id: u64) -> Result<Option<Whole>, StoreError> {
    let Some((refused, content)) = refusals.show(id)? else { return Ok(None) };
    let item = item(&refused, &content, gateway);
    let mut whole = Whole { item, text: None, hex: None, reading: None };
    match content {
        Content::Reading(record) => {
            whole.reading = serde_json::from_str(&line(&record, gateway)).ok();
        }
        Content::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => whole.text = Some(text),
            Err(error) => whole.hex = Some(hex(error.as_bytes())),
        },
    }
    Ok(Some(whole))
}

/// Deletes one for good.
///
/// # Errors
/// It cannot be deleted.
pub fn discard(refusals: &mut Refusals, data_dir: &Path, id: &str) -> Result<Done, StoreError> {
    if let Some(name) = id.strip_prefix(SEGMENT) {
        let aside = set_aside::list(data_dir)?.into_iter().find(|one| one.name == name);
        let Some(aside) = aside else { return Ok(absent(id)) };
        set_aside::discard(&aside)?;
        let what = format!("{} bytes: {}", aside.bytes, aside.reason);
        return Ok(Done::new(id, "discarded", 0, what));
    }
    let Ok(number) = id.parse() else { return Ok(no_id(id)) };
    Ok(match refusals.discard(number)? {
        Some(Refused { source, kind, reason, .. }) => {
            Done::new(id, "discarded", 0, format!("{kind} from {source}: {reason}"))
        }
        None => absent(id),
    })
}

/// The answer for a segment: it cannot be released as a whole, because some of its readings
/// have been delivered and it is not known which.
pub fn unreleasable(id: &str, data_dir: &Path) -> Option<Done> {
    let name = id.strip_prefix(SEGMENT)?;
    let path = data_dir.join("quarantine").join(name);
    let why = format!(
        "its readings may have been delivered before; what can be read of it comes out with \
         `tidegate journal export --journal {}`",
        path.display()
    );
    Some(Done::new(id, "impossible", 0, why))
}

/// Where an input stood, as the reason of its first refusal begins: `line 3: `, or
/// `FILE, byte 120: `. Nothing where it does not say.
pub fn place(reason: &str) -> &str {
    let is_place = |text: &str| {
        let digits = ["line ", "byte "].iter().find_map(|word| Some(text.rsplit_once(word)?.1));
        digits.is_some_and(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    let ends = reason.match_indices(": ").map(|(at, _)| at);
    let end = ends.into_iter().find(|at| is_place(&reason[..*at]));
    end.map_or("", |end| &reason[..end + 2])
}

/// The answer where no input has that number.
pub fn absent(id: &str) -> Done {
    Done::new(id, "absent", 0, "there is nothing of that number in quarantine")
}

/// The answer where the id is no number.
pub fn no_id(id: &str) -> Done {
    Done::new(id, "absent", 0, "this is no id: use a number, or segment:NAME, as `list` has them")
}

fn item(refused: &Refused, content: &Content, gateway: &str) -> Item {
    let head = match content {
        Content::Reading(record) => line(record, gateway),
        Content::Bytes(bytes) => {
            String::from_utf8_lossy(&bytes[..bytes.len().min(4 * HEAD_CHARS)]).into_owned()
        }
    };
    Item {
        id: refused.id,
        source: refused.source.clone(),
        kind: refused.kind.clone(),
        at: IngestTime::from_unix_ns(refused.at_unix_ns).to_string(),
        reason: refused.reason.clone(),
        length: refused.length,
        kept_bytes: refused.kept_bytes,
        head: head.chars().take(HEAD_CHARS).collect(),
    }
}

fn segment(aside: &SetAside) -> Segment {
    Segment {
        id: format!("{SEGMENT}{}", aside.name),
        at: IngestTime::from_unix_ns(aside.at_unix_ns).to_string(),
        reason: aside.reason.clone(),
        bytes: aside.bytes,
        path: aside.path.display().to_string(),
    }
}

fn line(record: &Record, gateway: &str) -> String {
    let mut out = Vec::new();
    json::reading(gateway, record, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
