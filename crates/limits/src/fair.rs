//! Fair shares of a server-wide ceiling that more is asked of than it has.
//!
//! First come, first served gives a tenant that asks ten times as often ten times as much. Here those who ask for more than
//! their share are paced, and those who ask for less are not: weighted max-min fairness. Nobody queues, so what is handed
//! out has to be known in advance: from what everybody asked for in the last moments. docs/fair-share.md has the reasons and
//! the figures.
//!
//! A call costs the same however many tenants there are. Each counts its own calls of the present [epoch](Ceiling::epoch);
//! sums over all are kept in a histogram by how much a tenant asks for, from which the level of the shares is found once an
//! epoch.

/// Classes of tenants by how much they ask for, four to each doubling.
const CLASSES: usize = 128;
/// The class of those who ask for one call an epoch and weight.
const CLASS_OF_ONE: f64 = 32.0;
/// How much an epoch counts for against those before it.
const SMOOTHING: f64 = 0.2;
/// Less than this of others, in calls an epoch, is nobody: some dozen epochs after the last call of the last of them.
const NOBODY: f64 = 0.01;
/// How many epochs' worth of calls a paced tenant may be ahead of its pace.
const AHEAD: u64 = 2;
/// One part in so many of a ceiling is for those below their share alone.
const HELD_BACK: u64 = 200;
/// Epochs of silence after which nothing is left of what was asked before.
const FORGOTTEN: u64 = 64;

/// The ceiling that is shared, as far as sharing needs to know it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ceiling {
    /// Which of the server's rates it is.
    pub(crate) at: usize,
    /// For how long shares stay as they are, in nanoseconds.
    pub(crate) epoch: u64,
    /// What the ceiling lets through in an epoch.
    per_epoch: f64,
    /// The most that fits.
    capacity: u64,
}

impl Ceiling {
    /// A ceiling of `count` in `window` nanoseconds, into which `capacity` fits at once.
    ///
    /// An epoch is a tenth of the window and a second at most, but long enough for ten calls.
    pub(crate) fn new(at: usize, count: u64, window: u64, capacity: u64) -> Self {
        let short = (window / 10).min(1_000_000_000);
        let ten_calls = (u128::from(window) * 10 / u128::from(count.max(1))).try_into().unwrap_or(u64::MAX);
        let epoch = short.max(ten_calls).clamp(1, window.max(1));
        Self { at, epoch, per_epoch: count as f64 * epoch as f64 / window as f64, capacity }
    }

    /// What it lets through in the long run, to find the lowest of several.
    pub(crate) fn per_second(&self) -> f64 {
        self.per_epoch / self.epoch as f64
    }
}

/// What all tenants ask for, and the level of their shares.
#[derive(Debug)]
pub(crate) struct Shares {
    ceiling: Option<Ceiling>,
    epoch: u64,
    /// What a tenant of weight 1 gets in an epoch; infinite while there is enough for all.
    level: f64,
    /// What was asked for lately, in calls an epoch.
    asked: f64,
    present: Box<Classes>,
    lately: Box<Classes>,
}

/// Sums over the tenants of each class.
#[derive(Debug, Clone)]
struct Classes {
    calls: [f64; CLASSES],
    weights: [f64; CLASSES],
}

/// One tenant's part in it.
#[derive(Debug)]
pub(crate) struct Portion {
    weight: u32,
    /// The epoch that `calls` were made in.
    epoch: u64,
    calls: u64,
    /// What it asked for lately, in calls an epoch.
    asked: f64,
    /// What `weight` becomes with the next epoch.
    new_weight: u32,
    /// When the pace lets the next call through, [`AHEAD`] epochs' worth of calls earlier.
    next: u64,
}

/// What fairness says of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// The tenant asks for no more than its share, or there is enough.
    Free,
    /// It asks for more, and this one is within the share: one call every so many nanoseconds.
    Paced(u64),
    /// It is not: so many nanoseconds until one would be, as things stand.
    Refused(u64),
}

impl Default for Classes {
    fn default() -> Self {
        Self { calls: [0.0; CLASSES], weights: [0.0; CLASSES] }
    }
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            ceiling: None,
            epoch: 0,
            level: f64::INFINITY,
            asked: 0.0,
            present: Box::default(),
            lately: Box::default(),
        }
    }
}

impl Default for Portion {
    fn default() -> Self {
        Self { weight: 1, epoch: 0, calls: 0, asked: 0.0, new_weight: 1, next: 0 }
    }
}

impl Shares {
    /// A tenant asks for a call of this cost while `used` of the ceiling is in use. It has passed every limit of its own.
    pub(crate) fn ask(&mut self, ceiling: &Ceiling, portion: &mut Portion, now: u64, cost: u64, used: u64) -> Verdict {
        if self.ceiling != Some(*ceiling) {
            // Other numbers: what was counted in other epochs says nothing.
            *self = Self { ceiling: Some(*ceiling), ..Self::default() };
        }
        self.turn(ceiling, now / ceiling.epoch);
        self.count(portion, cost);
        let weight = f64::from(portion.weight);
        let share = self.level * weight;
        // The first half of a ceiling is for whoever comes: a burst need not be shared with those who may come.
        let plenty = used < ceiling.capacity / 2;
        let alone = self.asked - portion.asked < NOBODY;
        if plenty || alone || portion.asked <= share {
            return Verdict::Free;
        }
        let pace = (ceiling.epoch as f64 / share) as u64;
        // The last of it is held back for those below their share, whose calls come when they come.
        if used + cost > ceiling.capacity - ceiling.capacity / HELD_BACK {
            return Verdict::Refused(pace.max(1));
        }
        match portion.next.saturating_sub(now + AHEAD * ceiling.epoch) {
            0 => Verdict::Paced(pace),
            wait => Verdict::Refused(wait),
        }
    }

    /// Ends epochs that are over: what was asked for in them goes into what was asked for lately, and shares follow.
    fn turn(&mut self, ceiling: &Ceiling, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        let silent = (epoch - self.epoch - 1).min(FORGOTTEN);
        let fades = (1.0 - SMOOTHING).powi(silent as i32);
        self.asked = 0.0;
        for class in 0..CLASSES {
            let mix = |lately: f64, present: f64| (lately + SMOOTHING * (present - lately)) * fades;
            self.lately.calls[class] = mix(self.lately.calls[class], self.present.calls[class]);
            self.lately.weights[class] = mix(self.lately.weights[class], self.present.weights[class]);
            self.asked += self.lately.calls[class];
        }
        *self.present = Classes::default();
        self.epoch = epoch;
        self.level = self.lately.level(ceiling.per_epoch);
    }

    /// Counts a call, and moves its tenant to the class that it belongs to by now.
    fn count(&mut self, portion: &mut Portion, cost: u64) {
        if portion.epoch == self.epoch {
            if portion.calls > 0 {
                self.present.add(portion.calls as f64, f64::from(portion.weight), -1.0);
            }
        } else {
            let silent = self.epoch.saturating_sub(portion.epoch + 1).min(FORGOTTEN);
            let fades = (1.0 - SMOOTHING).powi(silent as i32);
            portion.asked = (portion.asked + SMOOTHING * (portion.calls as f64 - portion.asked)) * fades;
            (portion.epoch, portion.calls) = (self.epoch, 0);
        }
        if portion.calls == 0 {
            portion.weight = portion.new_weight;
        }
        portion.calls = portion.calls.saturating_add(cost);
        self.present.add(portion.calls as f64, f64::from(portion.weight), 1.0);
    }
}

impl Portion {
    /// Counts from the next epoch on: the present one was counted by the weight before.
    pub(crate) fn set_weight(&mut self, weight: u32) {
        self.new_weight = weight;
    }

    /// A call with this verdict was admitted.
    pub(crate) fn charge(&mut self, verdict: Verdict, now: u64, cost: u64) {
        if let Verdict::Paced(pace) = verdict {
            self.next = self.next.max(now).saturating_add(pace.saturating_mul(cost));
        }
    }
}

impl Classes {
    fn add(&mut self, calls: f64, weight: f64, sign: f64) {
        let class = CLASS_OF_ONE + 4.0 * (calls / weight).log2();
        let class = (class.max(0.0) as usize).min(CLASSES - 1);
        self.calls[class] += sign * calls;
        self.weights[class] += sign * weight;
    }

    /// The level at which all shares together are `room`: whoever asks for less gets what it asks for.
    fn level(&self, room: f64) -> f64 {
        let mut weights: f64 = self.weights.iter().sum();
        let mut left = room;
        for (calls, weight) in self.calls.iter().zip(&self.weights).filter(|(_, weight)| **weight > 1e-9) {
            if calls / weight * weights > left {
                return (left / weights).max(f64::MIN_POSITIVE);
            }
            left -= calls;
            weights -= weight;
        }
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(tenants: &[(f64, f64)]) -> Classes {
        let mut classes = Classes::default();
        tenants.iter().for_each(|(calls, weight)| classes.add(*calls, *weight, 1.0));
        classes
    }

    #[test]
    fn the_level_is_that_of_weighted_max_min_fairness() {
        for (tenants, room, level) in [
            (&[(3.0, 1.0), (4.0, 1.0)][..], 10.0, f64::INFINITY),
            (&[(30.0, 1.0), (300.0, 1.0)], 100.0, 70.0),
            (&[(50.0, 1.0), (500.0, 1.0)], 100.0, 50.0),
            (&[(600.0, 3.0), (600.0, 1.0)], 100.0, 25.0),
            (&[(5.0, 1.0), (200.0, 1.0), (300.0, 2.0)], 95.0, 30.0),
        ] {
            let found = classes(tenants).level(room);
            assert!(found == level || (found / level - 1.0).abs() < 1e-9, "{tenants:?} in {room}: {found}");
        }
    }

    #[test]
    fn whoever_leaves_a_class_leaves_nothing_in_it() {
        let mut shares = Shares::default();
        let mut portion = Portion::default();
        (0..1_000).for_each(|_| shares.count(&mut portion, 1));
        assert!((shares.present.calls.iter().sum::<f64>() - 1_000.0).abs() < 1e-6);
        assert!((shares.present.weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_epoch_holds_ten_calls_and_no_more_than_a_window() {
        let second = 1_000_000_000;
        for (count, window, epoch) in [
            (100, second, second / 10),
            (6_000, 60 * second, second),
            (10, second, second),
            (5, second, second),
            (10, 60 * second, 60 * second),
        ] {
            assert_eq!(Ceiling::new(0, count, window, count).epoch, epoch, "{count} in {window}");
        }
    }
}
