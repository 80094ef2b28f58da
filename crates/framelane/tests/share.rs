//! Frames between a worker and a window: pixels, slots, growth, names.
//!
//! Both sides are in this process, which starts no other: one that is being started has, for a moment, all that is open
//! here, and keeps from a side that the other has closed.
#![cfg(target_os = "linux")]

mod sharing;

use framelane::ErrorKind;
use framelane::frame::FrameMeta;
use framelane::share::{Limits, Listener, Pixels, Shown, Worker, WorkerOptions};
use sharing::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn pictures_arrive_as_they_were_shown() {
    let window = window_name("pictures");
    let mut listener = Listener::bind(&window).unwrap();
    let (mut worker, mut pane) = pair(&mut listener, &window, "täglich", size(300, 20));
    assert_eq!(pane.name(), "täglich");
    assert!(pane.try_take().is_none() && pane.poll_alive());
    let long = "ü".repeat(100);
    for (index, (w, h)) in [(1, 1), (3, 2), (64, 20), (65, 20), (300, 20)].into_iter().enumerate() {
        let size = size(w, h);
        let mut meta = FrameMeta::new(if index == 0 { "a\nb" } else { &long }, index as u64);
        meta.pts = (index % 2 == 0).then_some(Duration::from_millis(40));
        meta.captured -= Duration::from_secs(3);
        let rgb: Vec<u8> = (0..size.bytes()).map(|i| (i % 249) as u8).collect();
        assert_eq!(worker.show(Pixels::Rgb(&rgb), size, &meta).unwrap(), Shown::Shown);
        let frame = pane.try_take().unwrap();
        assert_eq!((frame.size(), frame.number()), (size, index as u64 + 1));
        assert!(frame.pitch().is_multiple_of(256));
        let wanted: Vec<u8> = rgb.chunks_exact(3).flat_map(|p| [p[0], p[1], p[2], 255]).collect();
        let mut tight = vec![0; wanted.len()];
        frame.copy_tight(&mut tight).unwrap();
        assert_eq!(tight, wanted);
        let mut rows = vec![0; frame.pitch() * h];
        frame.copy_to(&mut rows).unwrap();
        for (row, wanted) in rows.chunks_exact(frame.pitch()).zip(wanted.chunks_exact(w * 4)) {
            assert_eq!(&row[..w * 4], wanted);
        }
        let told = frame.meta();
        assert_eq!((told.index, told.pts), (meta.index, meta.pts));
        assert_eq!(&*told.source, if index == 0 { "a b" } else { &long[..64] });
        let age = told.captured.elapsed();
        assert!((3.0..10.0).contains(&age.as_secs_f64()), "{age:?}");
        let error = frame.copy_to(&mut [0; 3]).unwrap_err();
        assert!(error.kind() == ErrorKind::Argument && error.to_string().contains("not 3"), "{error}");
    }
    let error = worker.show(Pixels::Rgb(&[0; 11]), size(2, 2), &FrameMeta::new("clip", 7)).unwrap_err();
    assert_eq!(error.to_string(), "frame 7 of clip: the picture has 11 bytes, but 2×2 of 3 bytes needs 12");
    assert_eq!(
        worker.show(Pixels::Rgb(&[]), size(0, 2), &FrameMeta::new("", 0)).unwrap_err().kind(),
        ErrorKind::Input
    );
    assert_eq!((pane.counts().taken, pane.counts().skipped, worker.counts().shown), (5, 0, 5));
}

#[test]
fn one_slot_is_always_the_workers() {
    let window = window_name("slots");
    let mut listener = Listener::bind(&window).unwrap();
    let at = size(8, 8);
    let (mut worker, mut pane) = pair(&mut listener, &window, "pane", at);
    assert_eq!(pane.most_held(), 2);
    let mut held = Vec::new();
    for number in 1..=2 {
        assert_eq!(show_number(&mut worker, number, at).unwrap(), Shown::Shown);
        held.push(pane.try_take().unwrap());
    }
    assert_eq!(show_number(&mut worker, 3, at).unwrap(), Shown::Shown);
    assert!(pane.try_take().is_none(), "the last slot is the worker's");
    assert_eq!(show_number(&mut worker, 4, at).unwrap(), Shown::Replaced);
    assert_eq!(held.iter().map(number_of).collect::<Vec<_>>(), [1, 2]);
    drop(held.remove(0));
    assert_eq!(number_of(&pane.try_take().unwrap()), 4);
    drop(pane);
    // What was taken stays, whoever is gone.
    assert_eq!(show_number(&mut worker, 5, at).unwrap(), Shown::Closed);
    drop(worker);
    assert_eq!(number_of(&held[0]), 2);
}

#[test]
fn slots_grow_with_the_frames() {
    let window = window_name("grow");
    let mut listener = Listener::bind_with(&window, Limits { slot_bytes: 400 * 400 * 4 * 2 }).unwrap();
    let (mut worker, mut pane) = pair(&mut listener, &window, "pane", size(8, 8));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=600 {
                let side = 8 + (number as usize * 37) % (number as usize / 2 + 1);
                assert_ne!(show_number(&mut worker, number, size(side, side)).unwrap(), Shown::Closed);
            }
            let error = show_number(&mut worker, 601, size(600, 600)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Budget);
            assert!(error.to_string().contains("this window allows 1280000"), "{error}");
            let _ = show_number(&mut worker, 602, size(9, 9)).unwrap();
            done.store(true, Ordering::Release);
        });
        let mut seen = 0;
        while seen < 602 {
            let number = number_of(&next(&mut pane));
            assert!(number > seen, "{number} after {seen}");
            seen = number;
        }
        while !done.load(Ordering::Acquire) {
            pane.poll_alive();
        }
    });
    let counts = pane.counts();
    assert_eq!(counts.spoiled, 0);
    assert!(counts.grown > 3 && counts.grown == worker.counts().grown, "{counts:?}");
    assert_eq!(counts.taken + counts.skipped, 601);
}

#[test]
fn a_frame_in_the_old_slots_is_seen_after_they_grew() {
    let window = window_name("old");
    let mut listener = Listener::bind(&window).unwrap();
    let (mut worker, mut pane) = pair(&mut listener, &window, "pane", size(8, 8));
    let _ = show_number(&mut worker, 1, size(8, 8)).unwrap();
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| show_number(&mut worker, 2, size(80, 80)).unwrap());
        time_to_readable(&pane);
        assert!(pane.poll_alive());
        let first = number_of(&next(&mut pane));
        assert_eq!(worker.join().unwrap(), Shown::Shown);
        assert!(first == 2 || number_of(&next(&mut pane)) == 2);
    });
}

#[test]
fn a_window_that_does_not_answer_is_named_and_one_that_closes_ends_the_wait() {
    let window = window_name("patience");
    let mut listener = Listener::bind(&window).unwrap();
    let options =
        WorkerOptions { patience: Duration::from_millis(50), ..WorkerOptions::for_size(size(8, 8)) };
    let error = Worker::attach(&window, "pane", options.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains(&window), "{error}");
    // It is gone again, and that is no failure of the listener's.
    while let Some(mut gone) = listener.accept(Duration::ZERO).unwrap() {
        assert!(!gone.poll_alive());
    }
    let (mut worker, mut pane) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let patient = WorkerOptions { patience: Duration::from_secs(1), ..options };
            Worker::attach(&window, "pane", patient).unwrap()
        });
        let pane = accept(&mut listener);
        (worker.join().unwrap(), pane)
    });
    assert_eq!(show_number(&mut worker, 1, size(80, 80)).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(show_number(&mut worker, 2, size(8, 8)).unwrap(), Shown::Shown);
    // The answer that came too late is taken when it comes, though it is too little by now.
    assert!(pane.poll_alive());
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| show_number(&mut worker, 3, size(160, 160)).unwrap());
        time_to_readable(&pane);
        assert!(pane.poll_alive());
        assert_eq!(worker.join().unwrap(), Shown::Shown);
    });
    assert_eq!(number_of(&pane.try_take().unwrap()), 3);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| show_number(&mut worker, 4, size(320, 320)).unwrap());
        time_to_readable(&pane);
        drop(pane);
        assert_eq!(worker.join().unwrap(), Shown::Closed);
    });
}

#[test]
fn two_workers_have_a_pane_each() {
    let window = window_name("two");
    let mut listener = Listener::bind(&window).unwrap();
    let at = size(16, 16);
    let (mut first, mut left) = pair(&mut listener, &window, "left", at);
    let (mut second, mut right) = pair(&mut listener, &window, "right", at);
    for number in 1..=100 {
        assert_eq!(show_number(&mut first, number, at).unwrap(), Shown::Shown);
        assert_eq!(show_number(&mut second, 1000 + number, at).unwrap(), Shown::Shown);
        assert_eq!(number_of(&left.try_take().unwrap()), number);
        assert_eq!(number_of(&right.try_take().unwrap()), 1000 + number);
    }
    drop(first);
    assert!(!left.poll_alive() && right.poll_alive());
    // Its pane may be another's next.
    let (mut third, mut left) = pair(&mut listener, &window, "left", at);
    assert_eq!(show_number(&mut third, 1, at).unwrap(), Shown::Shown);
    assert_eq!(number_of(&left.try_take().unwrap()), 1);
}

#[test]
fn names_and_places() {
    for name in ["", ".", "..", "a/b", "a b", "ä", "a\0", &"x".repeat(65)] {
        let error = Listener::bind(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{name:?}");
        assert!(error.to_string().contains("letters, digits"), "{error}");
        assert_eq!(
            Worker::attach(name, "pane", WorkerOptions::for_size(size(1, 1))).unwrap_err().kind(),
            ErrorKind::Argument
        );
    }
    let window = window_name("places");
    let options = || WorkerOptions::for_size(size(8, 8));
    let error = Worker::attach(&window, "pane", options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains("open it first"), "{error}");
    for pane in ["", "a\nb", &"x".repeat(65)] {
        assert_eq!(Worker::attach(&window, pane, options()).unwrap_err().kind(), ErrorKind::Argument);
    }
    for slots in [0, 1, 9] {
        let options = WorkerOptions { slots, ..options() };
        assert_eq!(Worker::attach(&window, "pane", options).unwrap_err().kind(), ErrorKind::Argument);
    }

    let listener = Listener::bind(&window).unwrap();
    let path = listener.path().to_owned();
    let error = Listener::bind(&window).unwrap_err();
    assert!(error.to_string().contains("another window listens"), "{error}");
    drop(listener);
    assert!(!path.exists(), "the socket goes with its window");

    // One that nobody listens at any more, as a window that was killed leaves it.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let error = Worker::attach(&window, "pane", options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    let mut listener = Listener::bind(&window).unwrap();
    pair(&mut listener, &window, "pane", size(8, 8));
    // Another's that took its place stays.
    std::fs::remove_file(&path).unwrap();
    let other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(listener);
    assert!(path.exists());
    let error = Listener::bind(&window).unwrap_err();
    assert!(error.to_string().contains("another window listens"), "another kind of socket: {error}");
    drop(other);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    let error = Listener::bind(&window).unwrap_err();
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("is no socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    std::fs::remove_file(&path).unwrap();
}
