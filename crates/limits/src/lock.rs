//! The lock around state that is held for some tens of nanoseconds.
//!
//! Giving a spin lock back is a plain store, where a parking lock needs a second atomic read-modify-write to see whether
//! somebody sleeps: a third of a whole decision. Waiting for it spins only briefly and then yields, so that a holder that
//! lost its processor gets it back.

use std::{hint, thread};

use spin::mutex::SpinMutex;
pub(crate) use spin::mutex::SpinMutexGuard as Locked;

/// How often a waiter looks before it yields: about the length of one decision.
const SPINS: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Lock<T>(SpinMutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(SpinMutex::new(value))
    }

    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.0.try_lock().unwrap_or_else(|| self.wait())
    }

    #[cold]
    fn wait(&self) -> Locked<'_, T> {
        loop {
            for _ in 0..SPINS {
                hint::spin_loop();
                if !self.0.is_locked()
                    && let Some(guard) = self.0.try_lock()
                {
                    return guard;
                }
            }
            thread::yield_now();
        }
    }
}
