//! A hash table of small values under integers that this process gave out itself.
//!
//! Linear probing over one array: a hit is one multiplication and, nearly always, one cache line, and the place of an
//! entry can be kept between two looks. General-purpose tables probe groups of control bytes first, which costs more than
//! the rest of a decision on a limit.

const LEAST_PLACES: usize = 4;

/// Values by key. No key is 0.
#[derive(Debug)]
pub(crate) struct Keyed<V> {
    /// Empty, or a power of two of places of which at most three quarters are taken.
    places: Vec<(u64, V)>,
    len: usize,
}

/// A cheap hash for keys that nobody outside can choose.
#[inline(always)]
pub(crate) fn hash(key: u64) -> u64 {
    let product = u128::from(key) * 0x9E37_79B9_7F4A_7C15;
    (product >> 64) as u64 ^ product as u64
}

impl<V: Default> Keyed<V> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many places there are, taken or not.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// Where `key` is. The place stays its own until something is inserted or removed.
    #[inline(always)]
    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        let mut at = self.home(key);
        loop {
            match self.places.get(at)?.0 {
                found if found == key => return Some(at),
                0 => return None,
                _ => at = self.next(at),
            }
        }
    }

    pub(crate) fn get(&self, key: u64) -> Option<&V> {
        self.find(key).map(|at| &self.places[at].1)
    }

    /// The place and the value of `key`, if they are where they would be without collisions.
    #[inline(always)]
    pub(crate) fn lookup(&self, key: u64) -> Option<(usize, &V)> {
        let at = self.home(key);
        self.places.get(at).filter(|(found, _)| *found == key).map(|(_, value)| (at, value))
    }

    /// The key and the value at a place, if it is taken.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> Option<(u64, &V)> {
        self.places.get(at).filter(|(key, _)| *key != 0).map(|(key, value)| (*key, value))
    }

    /// The value at a place that [`find`](Self::find) gave.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, at: usize) -> &mut V {
        &mut self.places[at].1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.places.iter().filter(|(key, _)| *key != 0).map(|(key, value)| (*key, value))
    }

    /// The value under `key`, a default one if there was none.
    pub(crate) fn entry(&mut self, key: u64) -> &mut V {
        if let Some(at) = self.find(key) {
            return self.at_mut(at);
        }
        debug_assert_ne!(key, 0, "0 marks an empty place");
        if (self.len + 1) * 4 > self.places.len() * 3 {
            self.resize((self.places.len() * 2).max(LEAST_PLACES));
        }
        self.len += 1;
        let at = self.free_place(key);
        self.places[at].0 = key;
        self.at_mut(at)
    }

    /// Empties a place. Entries that had to stand behind it move up, perhaps into it.
    pub(crate) fn remove_at(&mut self, mut at: usize) {
        self.places[at] = (0, V::default());
        self.len -= 1;
        let mut next = self.next(at);
        while self.places[next].0 != 0 {
            // An entry may move up if the free place lies between its home and where it is.
            let from_home = next.wrapping_sub(self.home(self.places[next].0)) & (self.places.len() - 1);
            let from_free = next.wrapping_sub(at) & (self.places.len() - 1);
            if from_home >= from_free {
                self.places.swap(at, next);
                at = next;
            }
            next = self.next(next);
        }
    }

    /// Gives memory back when few of many places are taken.
    pub(crate) fn shrink(&mut self) {
        let needed = ((self.len + 1) * 2).next_power_of_two();
        if self.len == 0 {
            self.places = Vec::new();
        } else if needed * 4 <= self.places.len() {
            self.resize(needed);
        }
    }

    fn resize(&mut self, places: usize) {
        let empty = std::iter::repeat_with(|| (0, V::default())).take(places).collect();
        let old = std::mem::replace(&mut self.places, empty);
        for (key, value) in old.into_iter().filter(|(key, _)| *key != 0) {
            let at = self.free_place(key);
            self.places[at] = (key, value);
        }
    }

    fn free_place(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.places[at].0 != 0 {
            at = self.next(at);
        }
        at
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        hash(key) as usize & self.places.len().wrapping_sub(1)
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        (at + 1) & self.places.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_hash_map_holds(steps in prop::collection::vec((1..60_u64, any::<bool>()), 0..200)) {
            let mut keyed = Keyed::<u64>::new();
            let mut map = HashMap::new();
            for (i, (key, keep)) in steps.into_iter().enumerate() {
                if keep {
                    *keyed.entry(key) = i as u64;
                    map.insert(key, i as u64);
                } else if let Some(at) = keyed.find(key) {
                    keyed.remove_at(at);
                    prop_assert!(map.remove(&key).is_some());
                }
                if i % 20 == 0 {
                    keyed.shrink();
                }
                prop_assert_eq!(keyed.len(), map.len());
                for key in 1..60 {
                    prop_assert_eq!(keyed.get(key), map.get(&key));
                }
            }
            let all: HashMap<_, _> = keyed.iter().map(|(key, value)| (key, *value)).collect();
            prop_assert_eq!(all, map);
        }
    }

    #[test]
    fn it_gives_memory_back_when_it_empties() {
        let mut keyed = Keyed::<u64>::new();
        for key in 1..=1_000 {
            *keyed.entry(key) = key;
        }
        assert_eq!(keyed.places(), 2_048);
        for key in 11..=1_000 {
            keyed.remove_at(keyed.find(key).expect("a key"));
        }
        keyed.shrink();
        assert_eq!(keyed.places(), 32);
        assert!((1..=10).all(|key| keyed.get(key) == Some(&key)));
    }
}
