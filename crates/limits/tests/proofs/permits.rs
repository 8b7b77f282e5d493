//! 8. Permits always come back: in any order, from panics, from work that was dropped halfway, after any reload.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread,
};

use proptest::{prelude::*, sample::Index};
use sluicegate_limits::{Permit, Place, Rules};

use crate::{
    world::{Caller, World},
    writing::{cap, rules},
};

fn caps_everywhere(slots: u32) -> Rules {
    rules(vec![], Place::ALL.map(|place| cap(place, slots)).into(), 1)
}

fn in_use(world: &World, caller: &Caller) -> Vec<u64> {
    world.inspect(caller, &caps_everywhere(9)).iter().map(|report| report.used).collect()
}

#[test]
fn a_permit_can_be_sent_and_shared() {
    fn is<T: Send + Sync + 'static>() {}
    is::<Permit>();
}

#[test]
fn a_permit_shared_by_work_and_body_is_free_when_both_have_ended() {
    let (world, rules) = (World::new(), caps_everywhere(1));
    let caller = world.caller("acme", "a", "t");
    let work = Arc::new(world.admit(&caller, &rules).expect("a call").permit);
    let body = Arc::clone(&work);
    drop(work);
    assert!(world.admit(&caller, &rules).is_err());
    drop(body);
    assert!(world.admit(&caller, &rules).is_ok());
}

#[test]
fn a_panic_gives_the_permit_back() {
    let (world, rules) = (World::new(), caps_everywhere(1));
    let caller = world.caller("acme", "a", "t");
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _permit = world.admit(&caller, &rules).expect("a call").permit;
        panic!("the tool failed");
    }));
    assert!(unwound.is_err());
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _permit = world.admit(&caller, &rules).expect("a call").permit;
            panic!("the thread failed");
        });
        assert!(thread.join().is_err());
    });
    assert_eq!(in_use(&world, &caller), [0; 8]);
}

#[test]
fn a_future_dropped_halfway_gives_the_permit_back() {
    let (world, rules) = (World::new(), caps_everywhere(1));
    let caller = world.caller("acme", "a", "t");
    {
        let mut work = pin!(async {
            let _permit = world.admit(&caller, &rules).expect("a call").permit;
            std::future::pending::<()>().await;
        });
        assert_eq!(work.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        assert_eq!(in_use(&world, &caller), [1; 8]);
    }
    assert_eq!(in_use(&world, &caller), [0; 8]);
}

proptest! {
    #[test]
    fn permits_dropped_in_any_order_through_any_reload_come_back_exactly(
        steps in prop::collection::vec((any::<Index>(), 0..3_usize, prop::collection::vec(any::<bool>(), 8), 1..5_u32), 1..80),
    ) {
        let world = World::new();
        let callers = [world.caller("acme", "a", "t"), world.caller("acme", "b", "t"), world.caller("globex", "a", "u")];
        let mut running = Vec::new();
        for (pick, caller, places, slots) in steps {
            let caps = Place::ALL.into_iter().zip(places).filter(|(_, is_capped)| *is_capped).map(|(place, _)| cap(place, slots));
            match world.admit(&callers[caller], &rules(vec![], caps.collect(), 1)) {
                Ok(admission) => running.push(admission.permit),
                Err(_) if !running.is_empty() => drop(running.swap_remove(pick.index(running.len()))),
                Err(_) => prop_assert!(false, "refused though nothing runs"),
            }
        }
        running.clear();
        for caller in &callers {
            prop_assert_eq!(in_use(&world, caller), [0; 8]);
        }
    }
}
