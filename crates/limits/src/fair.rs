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
/// How much a tenth of a window counts for against what was before it.
const SMOOTHING: f64 = 0.2;
/// Less than this of others, in calls an epoch, is nobody: some dozen epochs after the last call of the last of them.
const NOBODY: f64 = 0.01;
/// How many epochs' worth of calls a paced tenant may be ahead of its pace.
const AHEAD: u64 = 2;
/// One part in so many of a ceiling is for those below their share alone; see [`Ceiling::held_back`].
const HELD_BACK: u64 = 200;
/// How many times what it asked for lately a tenant asks for that has begun to ask for more.
const BEGINS: f64 = 4.0;
/// A ceiling of which a single call is so little that it can be held back.
const ONE_IS_LITTLE_OF: u64 = 20;
/// Epochs of silence after which nothing is left of what was asked before.
const FORGOTTEN: u64 = 64;
/// In nanoseconds.
const SECOND: f64 = 1e9;

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
    /// How much an epoch counts for against those before it.
    smoothing: f64,
    /// Whether others decide what it lets through, and ask for it too.
    elsewhere: bool,
}

impl Ceiling {
    /// A ceiling of `count` in `window` nanoseconds, into which `capacity` fits at once.
    ///
    /// An epoch is a tenth of the window and a second at most, but long enough for ten calls.
    pub(crate) fn new(at: usize, count: u64, window: u64, capacity: u64) -> Self {
        let short = (window / 10).min(1_000_000_000);
        let ten_calls = (u128::from(window) * 10 / u128::from(count.max(1))).try_into().unwrap_or(u64::MAX);
        let epoch = short.max(ten_calls).clamp(1, window.max(1));
        let per_epoch = count as f64 * epoch as f64 / window as f64;
        let tenths = (10.0 * epoch as f64 / window as f64).max(1.0);
        let smoothing = 1.0 - (1.0 - SMOOTHING).powf(tenths);
        Self { at, epoch, per_epoch, capacity, smoothing, elsewhere: false }
    }

    /// The same ceiling where somebody else decides what it lets through. What is in use is known only roughly then, so
    /// that what is held back is left out of the shares.
    pub(crate) fn decided_elsewhere(&self) -> Self {
        Self { elsewhere: true, per_epoch: self.per_epoch * (1.0 - 1.0 / HELD_BACK as f64), ..*self }
    }

    /// What is left for those below their share alone: little, but a call where that is little of it.
    fn held_back(&self) -> u64 {
        (self.capacity / HELD_BACK).max(u64::from(self.capacity >= ONE_IS_LITTLE_OF))
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
    /// `None` until it was told.
    others: Option<Others>,
}

/// What others know of a ceiling that is decided elsewhere.
#[derive(Debug)]
struct Others {
    /// What each of them asks for, in calls a second, the least first.
    asked: Box<[f64]>,
    /// What was in use when that was known, and was admitted here since.
    used: u64,
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
    /// The epoch that `calls` were made in, and the class that they are counted in.
    epoch: u64,
    calls: u64,
    class: usize,
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

impl Verdict {
    /// The verdict that takes half as much of the pace.
    pub(crate) fn halved(self) -> Self {
        match self {
            Self::Paced(pace) => Self::Paced(pace / 2),
            other => other,
        }
    }
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
            others: None,
        }
    }
}

impl Default for Portion {
    fn default() -> Self {
        Self { weight: 1, epoch: 0, calls: 0, class: 0, asked: 0.0, new_weight: 1, next: 0 }
    }
}

impl Shares {
    /// A tenant asks for a call of this cost while `used` of the ceiling is in use. It has passed every limit of its own.
    pub(crate) fn ask(&mut self, ceiling: &Ceiling, portion: &mut Portion, now: u64, cost: u64, used: u64) -> Verdict {
        let share = self.share(ceiling, portion, now, cost);
        if self.is_free(ceiling, portion, used, share) {
            return Verdict::Free;
        }
        let pace = pace(ceiling, share);
        // The last of it is held back for those below their share, whose calls come when they come.
        if used + cost > ceiling.capacity - ceiling.held_back() {
            return Verdict::Refused(pace);
        }
        portion.verdict(ceiling, now, pace)
    }

    /// The same of a ceiling that is [decided elsewhere](Ceiling::decided_elsewhere), with what of it is in use, roughly.
    pub(crate) fn ask_beside(
        &mut self,
        ceiling: &Ceiling,
        portion: &mut Portion,
        now: u64,
        cost: u64,
    ) -> (Verdict, u64) {
        let share = self.share(ceiling, portion, now, cost);
        let Some(others) = &self.others else { return (Verdict::Free, 0) };
        let used = others.used.min(ceiling.capacity);
        if self.is_free(ceiling, portion, used, share) {
            return (Verdict::Free, used);
        }
        (portion.verdict(ceiling, now, pace(ceiling, share)), used)
    }

    /// Counts a call; says what its tenant's share is in an epoch.
    fn share(&mut self, ceiling: &Ceiling, portion: &mut Portion, now: u64, cost: u64) -> f64 {
        if self.ceiling != Some(*ceiling) {
            // Other numbers: what was counted in other epochs says nothing.
            *self = Self { ceiling: Some(*ceiling), others: self.others.take(), ..Self::default() };
        }
        self.turn(ceiling, now / ceiling.epoch);
        self.count(portion, cost);
        self.level * f64::from(portion.weight)
    }

    fn is_free(&self, ceiling: &Ceiling, portion: &Portion, used: u64, share: f64) -> bool {
        // The first half of a ceiling is for whoever comes: a burst need not be shared with those who may come.
        let plenty = used < ceiling.capacity / 2;
        let asked_by_others = self.asked - portion.asked + self.others(ceiling).iter().sum::<f64>();
        plenty || asked_by_others < NOBODY || portion.asked <= share
    }

    /// What others ask for, in calls a second.
    fn others(&self, ceiling: &Ceiling) -> &[f64] {
        self.others.as_ref().filter(|_| ceiling.elsewhere).map_or(&[], |others| &others.asked)
    }

    /// A call that was counted asks for nothing after all: a limit of its tenant has refused it.
    pub(crate) fn take_back(&mut self, portion: &mut Portion, cost: u64) {
        if portion.epoch == self.epoch && portion.calls >= cost {
            self.present.remove(portion);
            portion.calls -= cost;
            self.present.add(portion);
        }
    }

    /// A call was admitted elsewhere.
    pub(crate) fn admitted(&mut self, cost: u64) {
        if let Some(others) = &mut self.others {
            others.used = others.used.saturating_add(cost);
        }
    }

    /// Is told how much of a ceiling that is decided elsewhere is in use, and what each of the others asks for in calls a
    /// second.
    pub(crate) fn hear_of_others(&mut self, used: u64, mut asked: Vec<f64>) {
        asked.sort_unstable_by(f64::total_cmp);
        self.others = Some(Others { asked: asked.into(), used });
    }

    /// What was asked for lately of a ceiling that is decided elsewhere, in calls a second; `None` if there is none.
    pub(crate) fn asked_per_second(&mut self, now: u64) -> Option<f64> {
        let ceiling = self.ceiling.filter(|ceiling| ceiling.elsewhere)?;
        self.turn(&ceiling, now / ceiling.epoch);
        Some(self.asked * SECOND / ceiling.epoch as f64)
    }

    /// What there is for those who ask here, in an epoch: an equal part, and what others leave of theirs.
    fn room(&self, ceiling: &Ceiling) -> f64 {
        let others = self.others(ceiling);
        let (mut left, mut parts) = (ceiling.per_epoch, others.len() as f64 + 1.0);
        for asked in others.iter().map(|asked| asked * ceiling.epoch as f64 / SECOND) {
            if asked * parts > left {
                break;
            }
            (left, parts) = (left - asked, parts - 1.0);
        }
        left / parts
    }

    /// Ends epochs that are over: what was asked for in them goes into what was asked for lately, and shares follow.
    fn turn(&mut self, ceiling: &Ceiling, epoch: u64) {
        if epoch <= self.epoch {
            return;
        }
        let silent = (epoch - self.epoch - 1).min(FORGOTTEN);
        let smoothing = ceiling.smoothing;
        let fades = (1.0 - smoothing).powi(silent as i32);
        self.asked = 0.0;
        for class in 0..CLASSES {
            let mix = |lately: f64, present: f64| (lately + smoothing * (present - lately)) * fades;
            self.lately.calls[class] = mix(self.lately.calls[class], self.present.calls[class]);
            self.lately.weights[class] = mix(self.lately.weights[class], self.present.weights[class]);
            self.asked += self.lately.calls[class];
        }
        *self.present = Classes::default();
        self.epoch = epoch;
        self.level = self.lately.level(self.room(ceiling));
    }

    /// Counts a call in the class that its tenant belongs to.
    fn count(&mut self, portion: &mut Portion, cost: u64) {
        if portion.epoch == self.epoch {
            self.present.remove(portion);
        } else {
            let silent = self.epoch.saturating_sub(portion.epoch + 1).min(FORGOTTEN);
            let smoothing = self.ceiling.map_or(SMOOTHING, |ceiling| ceiling.smoothing);
            let fades = (1.0 - smoothing).powi(silent as i32);
            portion.asked = (portion.asked + smoothing * (portion.calls as f64 - portion.asked)) * fades;
            (portion.epoch, portion.calls) = (self.epoch, 0);
        }
        if portion.calls == 0 {
            portion.weight = portion.new_weight;
        }
        portion.calls = portion.calls.saturating_add(cost);
        self.present.add(portion);
    }
}

/// The time between two calls of a tenant with this share of an epoch.
fn pace(ceiling: &Ceiling, share: f64) -> u64 {
    ((ceiling.epoch as f64 / share) as u64).max(1)
}

impl Portion {
    /// What a paced tenant is told.
    fn verdict(&self, ceiling: &Ceiling, now: u64, pace: u64) -> Verdict {
        match self.next.saturating_sub(now + AHEAD * ceiling.epoch) {
            0 => Verdict::Paced(pace),
            wait => Verdict::Refused(wait),
        }
    }

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
    /// A tenant is in the class of what it asked for lately, so that the calls of single epochs, some more and some fewer,
    /// add up to that. One that has begun to ask for much more is in the class of that.
    fn add(&mut self, portion: &mut Portion) {
        let (calls, weight) = (portion.calls as f64, f64::from(portion.weight));
        let asks = if calls > BEGINS * portion.asked { calls } else { portion.asked };
        portion.class = class(asks / weight);
        if portion.calls > 0 {
            self.calls[portion.class] += calls;
            self.weights[portion.class] += weight;
        }
    }

    fn remove(&mut self, portion: &Portion) {
        if portion.calls > 0 {
            self.calls[portion.class] -= portion.calls as f64;
            self.weights[portion.class] -= f64::from(portion.weight);
        }
    }

    /// The level at which all shares together are `room`: whoever asks for less gets what it asks for.
    fn level(&self, room: f64) -> f64 {
        let mut weights: f64 = self.weights.iter().sum();
        let mut left = room;
        let mut by_demand = [(0.0, 0.0, 0.0); CLASSES];
        let mut classes = 0;
        for (calls, weight) in self.calls.iter().zip(&self.weights).filter(|(_, weight)| **weight > 1e-9) {
            by_demand[classes] = (calls / weight, *calls, *weight);
            classes += 1;
        }
        by_demand[..classes].sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        for (each, calls, weight) in &by_demand[..classes] {
            if each * weights > left {
                return (left / weights).max(f64::MIN_POSITIVE);
            }
            left -= calls;
            weights -= weight;
        }
        f64::INFINITY
    }
}

/// The class of those who ask for so many calls an epoch and weight.
fn class(asks: f64) -> usize {
    let class = CLASS_OF_ONE + 4.0 * asks.log2();
    (class.max(0.0) as usize).min(CLASSES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(tenants: &[(f64, f64)]) -> Classes {
        let mut classes = Classes::default();
        for (calls, weight) in tenants {
            classes.calls[class(calls / weight)] += calls;
            classes.weights[class(calls / weight)] += weight;
        }
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
    fn calls_that_are_now_more_and_now_fewer_count_as_many_as_they_are() {
        let ceiling = Ceiling::new(0, 50, 1_000_000_000, 50);
        let (mut shares, mut big, mut small) = (Shares::default(), Portion::default(), Portion::default());
        for epoch in 0..400 {
            let now = epoch * ceiling.epoch;
            // Two and a half of the ten calls that the ceiling has in an epoch: what it leaves is for the other.
            for _ in 0..[2, 3][epoch as usize % 2] {
                let _ = shares.ask(&ceiling, &mut small, now, 1, 50);
            }
            (0..100).for_each(|_| _ = shares.ask(&ceiling, &mut big, now, 1, 50));
            if epoch > 100 {
                assert!((shares.level - 7.5).abs() < 0.4, "{} in epoch {epoch}", shares.level);
            }
        }
    }

    #[test]
    fn what_others_leave_of_their_parts_is_there_for_those_who_ask_here() {
        let second = 1_000_000_000;
        let ceiling = Ceiling { elsewhere: true, ..Ceiling::new(0, 100, second, 100) };
        for (others, room) in
            [(&[][..], 10.0), (&[1_000.0], 5.0), (&[20.0], 8.0), (&[1_000.0, 1_000.0, 10.0], 3.0), (&[0.0, 0.0], 10.0)]
        {
            let mut shares = Shares::default();
            shares.hear_of_others(0, others.to_vec());
            let found = shares.room(&ceiling);
            assert!((found - room).abs() < 1e-9, "{others:?}: {found}");
            assert_eq!(shares.room(&Ceiling { elsewhere: false, ..ceiling }), 10.0, "in process nobody else asks");
        }
    }

    #[test]
    fn what_is_taken_back_was_never_asked_for() {
        let (mut shares, mut portion) = (Shares::default(), Portion::default());
        (0..5).for_each(|_| shares.count(&mut portion, 2));
        shares.take_back(&mut portion, 2);
        assert!((shares.present.calls.iter().sum::<f64>() - 8.0).abs() < 1e-9);
        (0..4).for_each(|_| shares.take_back(&mut portion, 2));
        shares.take_back(&mut portion, 2);
        assert!(shares.present.calls.iter().chain(&shares.present.weights).all(|sum| sum.abs() < 1e-9));
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
