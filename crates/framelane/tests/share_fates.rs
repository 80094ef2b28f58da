//! What a worker hears of its frames, and each side of the other's end.
#![cfg(target_os = "linux")]

mod sharing;

use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::{Attached, Begun, Fate, Listener, Shown, Worker};
use sharing::{LIMIT, size, time_to_readable, window_name};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: ImageSize = ImageSize { width: 16, height: 8 };

/// What was told of frames, by number, in the order in which it was.
type Heard = Arc<Mutex<Vec<(u64, Fate)>>>;

fn pair(test: &str) -> (Worker, Attached) {
    let window = window_name(test);
    sharing::pair(&mut Listener::bind(&window).unwrap(), &window, "pane", SIZE)
}

/// Show a frame, and note what becomes of it.
fn show(worker: &mut Worker, heard: &Heard, size: ImageSize) -> Shown {
    let begun = worker.begin(size, &FrameMeta::new("frames", 0)).unwrap();
    let Begun::Slot(slot) = begun else { panic!("{begun:?}") };
    slot.raise();
    let (heard, number) = (heard.clone(), slot.number());
    worker.hand_over_then(slot, move |fate, age| {
        assert!(age < LIMIT, "{age:?}");
        heard.lock().unwrap().push((number, fate));
    })
}

fn take(heard: &Heard) -> Vec<(u64, Fate)> {
    std::mem::take(&mut heard.lock().unwrap())
}

#[test]
fn each_frame_has_one_fate() {
    let ((mut worker, mut pane), heard) = (pair("fates"), Heard::default());
    // 1 is drawn, 2 is hidden.
    for fate in [Fate::Drawn, Fate::Hidden] {
        assert_eq!(show(&mut worker, &heard, SIZE), Shown::Shown);
        let frame = pane.try_take().unwrap();
        pane.settle(frame.number(), fate);
    }
    assert_eq!(take(&heard), [(1, Fate::Drawn)], "of the second nothing is known before the next call");
    assert_eq!(worker.settle(LIMIT).unwrap(), 0);
    assert_eq!(take(&heard), [(2, Fate::Hidden)]);
    // Three slots: 3, 4 and 5 lie there, 6 takes the place of 3. The window takes 6 alone.
    for n in 3..=6 {
        assert_eq!(show(&mut worker, &heard, SIZE), if n < 6 { Shown::Shown } else { Shown::Replaced });
    }
    assert_eq!(take(&heard), [(3, Fate::Overtaken)]);
    let frame = pane.try_take().unwrap();
    assert_eq!(frame.number(), 6);
    pane.settle(6, Fate::Drawn);
    assert_eq!(worker.settle(LIMIT).unwrap(), 0);
    assert_eq!(take(&heard), [(4, Fate::Overtaken), (5, Fate::Overtaken), (6, Fate::Drawn)]);
    let counts = worker.counts();
    assert_eq!((counts.drawn, counts.unseen, counts.replaced), (2, 3, 1));
    assert_eq!(counts.shown, counts.drawn + counts.unseen + counts.replaced);
}

/// One that was copied and given back is still to be drawn, while newer ones come and go in its slot.
#[test]
fn a_frame_that_was_copied_has_its_fate_later() {
    let ((mut worker, mut pane), heard) = (pair("copied"), Heard::default());
    let _ = show(&mut worker, &heard, SIZE);
    let first = pane.try_take().unwrap().number();
    (0..50).for_each(|_| assert_ne!(show(&mut worker, &heard, SIZE), Shown::Closed));
    assert!(take(&heard).iter().all(|&(number, fate)| number > first && fate == Fate::Overtaken));
    pane.settle(first, Fate::Drawn);
    assert_eq!(worker.settle(Duration::ZERO).unwrap(), 3);
    assert_eq!(take(&heard), [(1, Fate::Drawn)]);
}

/// A window that says nothing of frames does not make its worker keep them for ever, and the log goes round.
#[test]
fn many_frames() {
    let ((mut worker, mut pane), heard) = (pair("many"), Heard::default());
    for number in 1..=100 {
        assert_eq!(show(&mut worker, &heard, SIZE), Shown::Shown);
        drop(pane.try_take().unwrap());
        if number > 50 {
            pane.settle(number, Fate::Drawn);
        }
    }
    assert_eq!(worker.settle(LIMIT).unwrap(), 0);
    let heard = take(&heard);
    assert_eq!(heard.len(), 100);
    assert!(heard.is_sorted_by_key(|&(number, _)| number));
    assert!(heard.iter().all(|&(number, fate)| (fate == Fate::Drawn) == (number > 50)), "{heard:?}");
}

#[test]
fn fates_are_heard_while_slots_grow() {
    let ((mut worker, mut pane), heard) = (pair("grow"), Heard::default());
    let _ = show(&mut worker, &heard, SIZE);
    let small = pane.try_take().unwrap();
    let _ = show(&mut worker, &heard, SIZE);
    let large = size(700, 50);
    std::thread::scope(|s| {
        let growing = s.spawn(|| show(&mut worker, &heard, large));
        while !growing.is_finished() {
            assert!(pane.poll_alive());
        }
    });
    // It was taken out of the memory there was before, and is told of in the new.
    pane.settle(small.number(), Fate::Drawn);
    let frame = pane.try_take().unwrap();
    assert_eq!((frame.number(), frame.size()), (3, large));
    pane.settle(3, Fate::Drawn);
    assert_eq!(worker.settle(LIMIT).unwrap(), 0);
    assert_eq!(take(&heard), [(1, Fate::Drawn), (2, Fate::Overtaken), (3, Fate::Drawn)]);
}

#[test]
fn a_window_that_closes_says_so() {
    let ((mut worker, mut pane), heard) = (pair("closes"), Heard::default());
    for _ in 0..2 {
        let _ = show(&mut worker, &heard, SIZE);
        drop(pane.try_take().unwrap());
    }
    pane.settle(2, Fate::Hidden);
    pane.close("the test is over");
    assert_eq!(pane.ended(), Some("the window was closed"));
    assert!(!worker.is_open().unwrap() && !worker.is_lost());
    assert_eq!(take(&heard), [(2, Fate::Hidden), (1, Fate::Closed)]);
    let begun = worker.begin(SIZE, &FrameMeta::new("frames", 9)).unwrap();
    assert!(matches!(begun, Begun::Closed));
    assert_eq!(worker.settle(LIMIT).unwrap(), 0);
}

/// The window's end resets the connection, since it leaves something unread; its goodbye is heard still.
#[test]
fn a_goodbye_is_heard_although_not_all_was_read() {
    let (mut worker, pane) = pair("unread");
    std::thread::scope(|s| {
        let asking = s.spawn(|| {
            let begun = worker.begin(size(700, 50), &FrameMeta::new("frames", 0)).unwrap();
            assert!(matches!(begun, Begun::Closed));
        });
        time_to_readable(&pane);
        drop(pane);
        asking.join().unwrap();
    });
    assert!(!worker.is_open().unwrap() && !worker.is_lost());
}

#[test]
fn a_worker_says_why_it_ends() {
    let (worker, mut pane) = pair("why");
    worker.end("nothing more\nto show");
    time_to_readable(&pane);
    assert!(!pane.poll_alive());
    assert_eq!(pane.ended(), Some("ended: nothing more to show"));
}

#[test]
fn what_a_worker_leaves_is_told_when_it_ends() {
    let ((mut worker, mut pane), heard) = (pair("left"), Heard::default());
    (0..2).for_each(|_| assert_eq!(show(&mut worker, &heard, SIZE), Shown::Shown));
    assert_eq!(pane.try_take().unwrap().number(), 2);
    drop(worker);
    assert_eq!(take(&heard), [(1, Fate::Left), (2, Fate::Left)]);
    assert!(!pane.poll_alive());
    assert_eq!(pane.ended(), Some("ended"));
}
