//! A bound on all retries together, so that they cannot become the storm.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::OptionsError;

/// How many retries an upstream is worth; see [`RetryBudget`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BudgetOptions {
    /// What each success earns, as a part of a retry: 0.1 allows one retry more for ten successes.
    pub earned_per_success: f64,
    /// What can be saved up, in retries, and what there is at first.
    pub reserve: u32,
}

/// Earns 10 % and saves up 10 retries.
impl Default for BudgetOptions {
    fn default() -> Self {
        Self { earned_per_success: 0.1, reserve: 10 }
    }
}

/// A token bucket of retries for everyone who calls one upstream.
///
/// Each retry takes a token and each success gives back a tenth of one. While nothing succeeds, nothing is earned: of an
/// outage's retries, all callers together make [`reserve`](BudgetOptions::reserve) at most, however many they are. A
/// bucket that filled with time or with calls would let them go on through the outage.
#[derive(Debug)]
pub struct RetryBudget {
    /// In parts of [`TOKEN`].
    saved: AtomicU64,
    earned: u64,
    most: u64,
}

const TOKEN: u64 = 1_000;

impl RetryBudget {
    /// A full bucket.
    ///
    /// # Errors
    /// When what a success earns is not between 0 and 1.
    pub fn new(options: BudgetOptions) -> Result<Self, OptionsError> {
        let BudgetOptions { earned_per_success, reserve } = options;
        let kept = (0.0..=1.0).contains(&earned_per_success);
        OptionsError::unless(kept, "budget.earned_per_success", earned_per_success, "it must be between 0 and 1")?;
        let most = u64::from(reserve) * TOKEN;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 0 and TOKEN")]
        let earned = (earned_per_success * TOKEN as f64).round() as u64;
        Ok(Self { saved: AtomicU64::new(most), earned, most })
    }

    /// Earns a part of a retry.
    pub fn succeeded(&self) {
        self.saved.update(Ordering::Relaxed, Ordering::Relaxed, |saved| (saved + self.earned).min(self.most));
    }

    /// Takes one retry, if there is one.
    #[must_use]
    pub fn take(&self) -> bool {
        self.saved.try_update(Ordering::Relaxed, Ordering::Relaxed, |saved| saved.checked_sub(TOKEN)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &RetryBudget) -> usize {
        (0..1_000).filter(|_| budget.take()).count()
    }

    #[test]
    fn an_outage_is_worth_the_reserve_and_nothing_more() {
        assert_eq!(taken(&RetryBudget::new(BudgetOptions::default()).expect("valid")), 10);
    }

    #[test]
    fn ten_successes_earn_one_retry_and_the_reserve_is_the_most() {
        let budget = RetryBudget::new(BudgetOptions::default()).expect("valid");
        assert_eq!(taken(&budget), 10);
        (0..9).for_each(|_| budget.succeeded());
        assert!(!budget.take());
        budget.succeeded();
        assert_eq!(taken(&budget), 1);
        (0..1_000).for_each(|_| budget.succeeded());
        assert_eq!(taken(&budget), 10);
    }

    #[test]
    fn only_a_part_of_a_retry_can_be_earned() {
        for earned_per_success in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(RetryBudget::new(BudgetOptions { earned_per_success, reserve: 1 }).is_err());
        }
        for earned_per_success in [0.0, 1.0] {
            assert!(
                RetryBudget::new(BudgetOptions { earned_per_success, reserve: 0 }).is_ok_and(|budget| !budget.take())
            );
        }
    }
}
