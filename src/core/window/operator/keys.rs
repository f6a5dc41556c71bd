//! The series of a lane under dense numbers, and which of them is due when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::core::reading::Series;
use crate::core::window::pane::Panes;

/// Series without panes are kept for their next reading until they are more than half of
/// all series and this many.
const EMPTY_SPARE: usize = 1_024;
const CACHE_MIN: usize = 64;

/// One series of a lane.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) series: Arc<Series>,
    pub(super) panes: Panes,
    /// Its entries in [`Due`].
    fires: Option<i64>,
    drops: Option<i64>,
    /// Counts the series that this place has held.
    generation: u32,
}

/// Where a series was found last, by the address of its allocation. Keeping the
/// `Arc` keeps the address from being used again.
#[derive(Debug)]
struct Cached {
    series: Arc<Series>,
    id: u32,
    generation: u32,
}

/// Every series with a number. Looking one up costs one comparison of addresses
/// as long as the source interns its series.
#[derive(Debug, Default)]
pub(super) struct Keys {
    keys: Vec<Key>,
    free: Vec<u32>,
    by_series: BTreeMap<Arc<Series>, u32>,
    cache: Vec<Option<Cached>>,
}

impl Keys {
    pub(super) fn get(&self, id: u32) -> &Key {
        &self.keys[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Key {
        &mut self.keys[id as usize]
    }

    /// The number of a series, a new one with `empty` panes where it has none.
    pub(super) fn id(&mut self, series: &Arc<Series>, empty: impl FnOnce() -> Panes) -> u32 {
        let place = self.place(series);
        if let Some(Some(cached)) = self.cache.get(place)
            && Arc::ptr_eq(&cached.series, series)
            && self.keys[cached.id as usize].generation == cached.generation
        {
            return cached.id;
        }
        let id =
            self.by_series.get(series).copied().unwrap_or_else(|| self.insert(series, empty()));
        let (place, generation) = (self.place(series), self.keys[id as usize].generation);
        self.cache[place] = Some(Cached { series: Arc::clone(series), id, generation });
        id
    }

    /// The number of a series that has one.
    pub(super) fn find(&self, series: &Series) -> Option<u32> {
        self.by_series.get(series).copied()
    }

    /// Adds a series that is not there yet.
    pub(super) fn insert(&mut self, series: &Arc<Series>, panes: Panes) -> u32 {
        let key = |generation, panes| Key {
            series: Arc::clone(series),
            panes,
            fires: None,
            drops: None,
            generation,
        };
        let id = match self.free.pop() {
            Some(id) => {
                let generation = self.keys[id as usize].generation;
                self.keys[id as usize] = key(generation, panes);
                id
            }
            None => {
                self.keys.push(key(0, panes));
                (self.keys.len() - 1) as u32
            }
        };
        self.by_series.insert(Arc::clone(series), id);
        let wanted = (2 * self.by_series.len()).next_power_of_two().max(CACHE_MIN);
        if self.cache.len() < wanted {
            self.cache.clear();
            self.cache.resize_with(wanted, || None);
        }
        id
    }

    /// Numbers and series, ordered by series.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Key)> {
        self.by_series.values().map(|id| (*id, self.get(*id)))
    }

    pub(super) fn len(&self) -> usize {
        self.by_series.len()
    }

    /// Removes the series without panes when there are many.
    pub(super) fn sweep(&mut self, empty: &mut usize) {
        if *empty <= EMPTY_SPARE + self.by_series.len() / 2 {
            return;
        }
        *empty = 0;
        let (keys, free) = (&mut self.keys, &mut self.free);
        self.by_series.retain(|_, id| {
            let key = &mut keys[*id as usize];
            let is_empty = key.panes.is_empty();
            if is_empty {
                key.generation = key.generation.wrapping_add(1);
                free.push(*id);
            }
            !is_empty
        });
        self.cache.iter_mut().for_each(|slot| *slot = None);
    }

    fn place(&self, series: &Arc<Series>) -> usize {
        let address = Arc::as_ptr(series) as usize as u64;
        let mixed = (address >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & self.cache.len().wrapping_sub(1)
    }
}

/// Which series has a window to fire or to drop next, by the window's end. Each
/// stands in it at most twice. An entry may be early (a session that has grown
/// since); it is never late.
#[derive(Debug, Default)]
pub(super) struct Due {
    fires: BTreeSet<(i64, u32)>,
    drops: BTreeSet<(i64, u32)>,
}

/// One series of a [`Due::take`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) id: u32,
    pub(super) fires: bool,
    pub(super) drops: bool,
}

impl Due {
    /// A window of that end is to be fired; the earliest counts.
    pub(super) fn fire_at(&mut self, id: u32, key: &mut Key, end: Option<i64>) {
        lower(&mut self.fires, &mut key.fires, end, id);
    }

    /// A window of that end is to be dropped; the earliest counts.
    pub(super) fn drop_at(&mut self, id: u32, key: &mut Key, end: Option<i64>) {
        lower(&mut self.drops, &mut key.drops, end, id);
    }

    /// The series of the earliest window end of which one is due, ordered by
    /// series. `fires` and `drops` say up to which ends.
    pub(super) fn take(
        &mut self,
        keys: &mut Keys,
        fires: i64,
        drops: i64,
        due: &mut Vec<Timer>,
    ) -> Option<i64> {
        due.clear();
        let until = |set: &BTreeSet<(i64, u32)>, end| {
            set.first().map(|(first, _)| *first).filter(|first| *first <= end)
        };
        let (fire, drop) = (until(&self.fires, fires), until(&self.drops, drops));
        let end = match (fire, drop) {
            (Some(fire), Some(drop)) => fire.min(drop),
            (fire, drop) => fire.or(drop)?,
        };
        if fire == Some(end) {
            while let Some(id) = pop(&mut self.fires, end) {
                keys.get_mut(id).fires = None;
                due.push(Timer { id, fires: true, drops: false });
            }
        }
        // Both sets give ascending numbers: the two rows are merged below.
        let fired = due.len();
        if drop == Some(end) {
            while let Some(id) = pop(&mut self.drops, end) {
                keys.get_mut(id).drops = None;
                match due[..fired].binary_search_by_key(&id, |timer| timer.id) {
                    Ok(index) => due[index].drops = true,
                    Err(_) => due.push(Timer { id, fires: false, drops: true }),
                }
            }
        }
        due.sort_unstable_by(|a, b| keys.get(a.id).series.cmp(&keys.get(b.id).series));
        Some(end)
    }

    pub(super) fn len(&self) -> usize {
        self.fires.len() + self.drops.len()
    }
}

fn lower(set: &mut BTreeSet<(i64, u32)>, held: &mut Option<i64>, end: Option<i64>, id: u32) {
    let Some(end) = end else { return };
    if let Some(held) = *held {
        if held <= end {
            return;
        }
        set.remove(&(held, id));
    }
    set.insert((end, id));
    *held = Some(end);
}

fn pop(set: &mut BTreeSet<(i64, u32)>, end: i64) -> Option<u32> {
    let (first, id) = set.first().copied()?;
    if first != end {
        return None;
    }
    set.pop_first();
    Some(id)
}
