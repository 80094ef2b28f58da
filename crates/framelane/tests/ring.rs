//! The ring's promises one by one, on one thread or with a stream held on purpose.

#![cfg(not(loom))]

use framelane::device::{Access, Device, Memory};
use framelane::ring::{self, Fence, Options, Policy, TryTake};
use framelane::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// A fence that is done once a counter, which plays the device, has come so far.
#[derive(Clone, Debug)]
struct At(usize, Arc<AtomicUsize>);

impl Fence for At {
    fn is_done(&self) -> bool {
        self.1.load(SeqCst) >= self.0
    }
}

/// The device finishes fillings long after the writer has gone on, as when a producer runs free: a reader
/// that only asks must still find some, and ever newer ones.
#[test]
fn a_latest_writer_far_ahead_starves_no_reader() {
    for slots in [2, 3, 4] {
        for behind in [slots, 20, 100] {
            let done = Arc::new(AtomicUsize::new(0));
            let (writer, reader) =
                ring::ring(Options::fixed("latest", Policy::Latest, slots), |_| Ok(())).unwrap();
            let mut seen = Vec::new();
            for frame in 1..2000_usize {
                writer.acquire().unwrap().publish(At(frame, done.clone()), frame);
                done.store(frame.saturating_sub(behind), SeqCst);
                if frame % 7 == 0
                    && let TryTake::Lease(lease) = reader.try_take().unwrap()
                {
                    assert!(lease.ready().is_done());
                    seen.push(*lease.meta());
                }
            }
            assert!(seen.is_sorted_by(|a, b| a < b));
            let expected = 2000 / (2 * behind + 14);
            assert!(seen.len() >= expected, "{slots} slots, {behind} behind: saw {seen:?}");
            assert!(seen.last().unwrap() + 3 * behind + 14 > 2000, "the last seen is old: {seen:?}");
        }
    }
}

/// With nothing pending, the newest is read and the oldest is replaced.
#[test]
fn latest_replaces_the_oldest_complete() {
    let (writer, reader) = ring::ring(Options::fixed("latest", Policy::Latest, 3), |_| Ok(())).unwrap();
    let mut replaced = Vec::new();
    for frame in 0..5 {
        let mut slot = writer.acquire().unwrap();
        replaced.extend(slot.take_replaced());
        slot.publish((), frame);
    }
    assert_eq!(replaced, [0, 1]);
    let mut lease = reader.take().unwrap().unwrap();
    assert_eq!((*lease.meta(), lease.take_skipped()), (4, vec![2, 3]));
    assert_eq!(lease.take_skipped(), []);
}

/// Publish and take one filling; its lease ends with a fence that is done at `at`. The number of the slot.
fn read_until(
    writer: &ring::Writer<(), At, usize>,
    reader: &ring::Reader<(), At, usize>,
    at: usize,
    done: &Arc<AtomicUsize>,
) -> usize {
    writer.acquire().unwrap().publish(At(0, done.clone()), at);
    let mut lease = reader.take().unwrap().unwrap();
    lease.add_fence(At(at, done.clone()));
    lease.index()
}

/// A slot that needs no waiting is written first, however short it has been free; then the longest free.
#[test]
fn a_slot_that_is_done_is_written_before_one_that_is_pending() {
    for policy in [Policy::Fifo, Policy::Latest] {
        let done = Arc::new(AtomicUsize::new(0));
        let options = Options { name: "r".into(), policy, slots: 3, max_slots: 4 };
        let (writer, reader) = ring::ring(options, |_| Ok(())).unwrap();
        let slots = [5, 9, 1].map(|at| read_until(&writer, &reader, at, &done));
        assert_eq!(slots, [0, 1, 2]);
        done.store(1, SeqCst);
        let mut order: Vec<_> = (0..3).map(|_| writer.acquire().unwrap()).collect();
        let waits: Vec<Vec<_>> =
            order.iter().map(|slot| slot.wait_for().iter().map(|f| f.0).collect()).collect();
        assert_eq!(order.iter().map(ring::WriteSlot::index).collect::<Vec<_>>(), [2, 0, 1], "{policy:?}");
        assert_eq!(waits, [vec![1], vec![5], vec![9]], "{policy:?}");
        // Growth comes last: it is for leases that are held, and not to run further ahead.
        assert!(writer.try_acquire().unwrap().is_none(), "{policy:?}");
        order.remove(0).publish(At(0, done.clone()), 7);
        let held = reader.take().unwrap().unwrap();
        assert_eq!((held.index(), writer.acquire().unwrap().index()), (2, 3), "{policy:?}");
    }
}

/// A reader's stream that takes long must not make frames queue up behind it: under `Latest` the unread one
/// is replaced, and a slot that is still read is written only if there is none.
#[test]
fn latest_replaces_an_unread_frame_rather_than_wait_for_a_reader() {
    let done = Arc::new(AtomicUsize::new(0));
    let (writer, reader) = ring::ring(Options::fixed("latest", Policy::Latest, 2), |_| Ok(())).unwrap();
    let read = read_until(&writer, &reader, 9, &done);
    for frame in 1..6 {
        let mut slot = writer.acquire().unwrap();
        assert_ne!(slot.index(), read, "frame {frame} would wait for the reader");
        assert!(slot.wait_for().iter().all(At::is_done));
        assert_eq!(slot.take_replaced(), (frame > 1).then(|| frame - 1));
        slot.publish(At(0, done.clone()), frame);
    }
    assert_eq!(*reader.take().unwrap().unwrap().meta(), 5);
    // Of two that are free the one that is done is taken; then there is nothing to replace.
    let slots = [(); 2].map(|()| writer.acquire().unwrap());
    assert_eq!([slots[0].index(), slots[1].index()], [1 - read, read]);
    done.store(9, SeqCst);
}

/// Reopened only when nothing of the old round is left to tell; filled only while it is open.
#[test]
fn a_round_is_over_when_its_end_was_told() {
    let (writer, reader) = ring::ring(Options::fixed("rounds", Policy::Fifo, 2), |_| Ok(())).unwrap();
    assert_eq!(writer.reopen().unwrap_err().kind(), ErrorKind::Argument);
    for round in 0..3 {
        writer.acquire().unwrap().publish((), round);
        let late = writer.acquire().unwrap();
        writer.finish(Err(Error::new(ErrorKind::Input, format!("round {round} broke"))));
        for refused in [writer.acquire_for(Duration::ZERO).err(), writer.try_acquire().err()] {
            let refused = refused.unwrap();
            assert!(
                refused.kind() == ErrorKind::Closed && refused.to_string().contains("reopen"),
                "{refused}"
            );
        }
        // A slot that was acquired before may still come.
        late.publish((), round);
        for _ in 0..2 {
            let refused = writer.reopen().unwrap_err();
            assert!(
                refused.kind() == ErrorKind::Argument && refused.to_string().contains("rounds"),
                "{refused}"
            );
            assert_eq!(*reader.take().unwrap().unwrap().meta(), round);
        }
        assert_eq!(writer.reopen().unwrap_err().kind(), ErrorKind::Argument);
        let told = reader.take().err().unwrap();
        assert_eq!(told.to_string(), format!("round {round} broke"), "not lost");
        writer.reopen().unwrap();
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (slots, max_slots) in [(0, 0), (0, 1), (2, 1)] {
        let options = Options { name: "bad".into(), policy: Policy::Fifo, slots, max_slots };
        let error = ring::ring::<(), (), ()>(options, |_| Ok(())).err().unwrap();
        assert!(error.kind() == ErrorKind::Argument && error.to_string().contains("bad"), "{error}");
    }
    let error = ring::ring::<(), (), ()>(Options::fixed("r", Policy::Fifo, 3), |i| {
        if i < 2 { Ok(()) } else { Err(Error::new(ErrorKind::Budget, "slot 2 is too much")) }
    });
    assert_eq!(error.err().unwrap().kind(), ErrorKind::Budget);
}

#[test]
fn a_held_back_writer_says_who_holds_what() {
    let options = Options { name: "frames".into(), policy: Policy::Fifo, slots: 1, max_slots: 2 };
    let (writer, reader) = ring::ring(options, |_| Ok(())).unwrap();
    let leases: Vec<_> = (0..2)
        .map(|i| {
            writer.acquire().unwrap().publish((), i);
            reader.take().unwrap().unwrap()
        })
        .collect();
    leases[1].set_holder("backward pass");
    assert!(writer.try_acquire().unwrap().is_none());
    let error = writer.acquire_for(Duration::from_millis(5)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    for part in ["frames", "slot 0 held by a reader", "slot 1 held by backward pass", "of 2 slots 0 free"] {
        assert!(error.to_string().contains(part), "{error}: no {part:?}");
    }
    drop(leases);
    assert!(writer.acquire_for(Duration::MAX).is_ok());
    assert_eq!(reader.take_for(Duration::from_millis(5)).err().unwrap().kind(), ErrorKind::Timeout);
}

/// A maker that fails or panics while the ring grows is told once; the slots that are there go on.
#[test]
fn growth_that_fails_or_panics() {
    for panics in [false, true] {
        let options = Options { name: "r".into(), policy: Policy::Fifo, slots: 1, max_slots: 3 };
        let (writer, reader) = ring::ring(options, move |i| match i {
            0 => Ok(()),
            _ if panics => panic!("no slot {i}"),
            _ => Err(Error::new(ErrorKind::Budget, "no more")),
        })
        .unwrap();
        writer.acquire().unwrap().publish((), 0);
        let lease = reader.take().unwrap().unwrap();
        let error = writer.acquire().err().unwrap();
        assert_eq!(error.kind(), if panics { ErrorKind::Panic } else { ErrorKind::Budget }, "{error}");
        assert!(writer.try_acquire().unwrap().is_none(), "it does not try again");
        let occupancy = reader.occupancy();
        assert_eq!((occupancy.writing, occupancy.free, occupancy.leased.len()), (0, 0, 1));
        drop(lease);
        writer.acquire().unwrap().publish((), 1);
        assert_eq!(*reader.take().unwrap().unwrap().meta(), 1);
    }
}

/// Recycled or dropped, a slot keeps what its next writer must wait for.
#[test]
fn a_slot_given_back_keeps_its_fences() {
    let done = Arc::new(AtomicUsize::new(0));
    let at = |n| At(n, done.clone());
    let ids = |fences: &[At]| fences.iter().map(|f| f.0).collect::<Vec<_>>();
    let (writer, reader) = ring::ring(Options::fixed("r", Policy::Fifo, 1), |_| Ok(())).unwrap();
    writer.acquire().unwrap().publish(at(1), ());
    let mut lease = reader.take().unwrap().unwrap();
    lease.add_fence(at(2));
    lease.add_fence(at(3));
    drop(lease);
    writer.acquire().unwrap().recycle(Vec::new());
    drop(writer.acquire().unwrap());
    assert_eq!(ids(writer.acquire().unwrap().wait_for()), [2, 3]);
    done.store(2, SeqCst);
    writer.acquire().unwrap().recycle(vec![at(4)]);
    assert_eq!(ids(writer.acquire().unwrap().wait_for()), [3, 4], "what is done need not be kept");
}

#[test]
fn what_travels_is_dropped_or_handed_back_once() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let (writer, reader) = ring::ring(Options::fixed("r", Policy::Fifo, 3), |_| Ok(())).unwrap();
    let publish = || writer.acquire().unwrap().publish((), Counted(drops.clone()));
    assert!(publish().is_none() && publish().is_none());
    let late = writer.acquire().unwrap();
    assert_eq!(reader.cancel().len(), 2);
    assert_eq!(drops.load(SeqCst), 2);
    assert!(late.publish((), Counted(drops.clone())).is_some());
    assert_eq!(drops.load(SeqCst), 3);
    let counts = reader.counts();
    assert_eq!((counts.published, counts.taken, counts.dropped), (3, 0, 3));
}

/// Opens when it is dropped, also by a test that fails: its stream would else be waited for.
#[derive(Default)]
struct Gate(Arc<AtomicBool>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// F3 of the feed's cases: two streams read one slot, A slowly, B fast, released A then B. The next write
/// waits for A all the same.
#[test]
fn the_next_write_waits_for_the_slow_of_two_readers() -> Result<()> {
    for swap in [false, true] {
        let device = Device::host_checked();
        let [writing, slow, fast] = ["w", "slow", "fast"].map(|name| device.stream(name).unwrap());
        let maker = device.clone();
        let (writer, reader) =
            ring::ring(Options::fixed("r", Policy::Fifo, 1), move |_| maker.alloc(8, Memory::Device))?;
        let write = |with: u8| -> Result<()> {
            let slot = writer.acquire()?;
            for fence in slot.wait_for() {
                writing.wait(fence)?;
            }
            writing.launch("fill", &[Access::write(slot.payload(), 0..8)], move |k| {
                k.outputs[0].fill(with);
                Ok(())
            })?;
            slot.publish(writing.record()?, with);
            Ok(())
        };
        write(1)?;
        let mut lease = reader.take()?.unwrap();
        let gate = Gate::default();
        let intact = Arc::new(AtomicBool::new(false));
        let (open, is_intact) = (gate.0.clone(), intact.clone());
        slow.wait(lease.ready())?;
        slow.launch("gate", &[], move |_| {
            while !open.load(SeqCst) {
                std::thread::yield_now();
            }
            Ok(())
        })?;
        slow.launch("read", &[Access::read(lease.payload(), 0..8)], move |k| {
            is_intact.store(k.inputs[0] == [1; 8], SeqCst);
            Ok(())
        })?;
        fast.wait(lease.ready())?;
        fast.launch("read", &[Access::read(lease.payload(), 0..8)], |_| Ok(()))?;
        let mut fences = [slow.record()?, fast.record()?];
        if swap {
            fences.reverse();
        }
        fences.into_iter().for_each(|fence| lease.add_fence(fence));
        drop(lease);
        // No CPU thread waits for the readers, but the stream does.
        write(2)?;
        let second = reader.take()?.unwrap();
        fast.synchronize("test")?;
        assert!(!second.ready().synchronize_for("test", Duration::from_millis(20))?);
        drop(gate);
        second.ready().synchronize("test")?;
        assert!(intact.load(SeqCst), "it was written while the slow stream read");
        assert_eq!(device.hazards(), []);
    }
    Ok(())
}
