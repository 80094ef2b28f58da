//! Either side dies by `kill -9`, at any moment (case S16).
#![cfg(target_os = "linux")]

mod sharing;

use framelane::ErrorKind;
use framelane::frame::ImageSize;
use framelane::share::{Listener, Shown, Worker, WorkerOptions};
use sharing::*;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

const SIZE: ImageSize = ImageSize { width: 320, height: 200 };

/// Descriptors, and mappings that are shared with other processes, of this process.
fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("memfd:framelane")).count())
}

/// Shows frames until its window is gone.
fn worker(window: &str, pane: &str) {
    let mut worker = attach(window, pane, SIZE);
    for number in 1.. {
        if show_number(&mut worker, number, SIZE).unwrap() == Shown::Closed {
            return;
        }
    }
}

/// A number below `n` that differs from call to call.
fn some(n: u64, state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % n
}

/// The window of the test below: a process of its own, so that nobody else's descriptors are counted.
fn kill_workers(test: &str, window: &str) {
    let mut listener = Listener::bind(window).unwrap();
    let steady = Killed(again(test, "steady", window));
    let mut others = accept(&mut listener);
    let mut seen = 0;
    let before = held();
    assert_eq!(before.1, 4, "a page and three slots");
    let mut random = 7;
    let mut slowest = Duration::ZERO;
    for round in 0..200 {
        let doomed = Killed(again(test, "doomed", window));
        if round % 5 == 4 {
            // Before, during or after its attaching, whatever it has come to.
            let until = Instant::now() + Duration::from_micros(some(8000, &mut random));
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            doomed.kill();
            while let Some(mut pane) = listener.accept(Duration::ZERO).unwrap() {
                assert!(!pane.poll_alive());
            }
        } else {
            let mut pane = accept(&mut listener);
            assert_eq!(pane.name(), "doomed");
            let mut last = 0;
            for _ in 0..some(8, &mut random) {
                let number = number_of(&next(&mut pane));
                assert!(number > last);
                last = number;
            }
            let until = Instant::now() + Duration::from_micros(some(1000, &mut random));
            while Instant::now() < until {
                std::hint::spin_loop();
            }
            assert!(pane.poll_alive());
            doomed.kill();
            slowest = slowest.max(time_to_readable(&pane));
            assert!(!pane.poll_alive());
            assert_eq!(pane.ended(), Some("killed, or crashed: it said no goodbye"));
            // What was complete can still be shown; what was being written is never seen.
            if let Some(frame) = pane.try_take() {
                assert!(number_of(&frame) > last);
            }
            assert!(pane.try_take().is_none());
            assert_eq!(pane.counts().spoiled, 0);
        }
        let number = number_of(&next(&mut others));
        assert!(number > seen, "the other worker goes on");
        seen = number;
        assert_eq!(held(), before, "round {round}");
    }
    assert!(slowest < SOON, "{slowest:?}");
    assert!(others.poll_alive() && others.counts().spoiled == 0);
    drop(others);
    drop(steady);
    assert_eq!(held().1, 0);
}

#[test]
fn s16_workers_killed_200_times() {
    const NAME: &str = "s16_workers_killed_200_times";
    match role(NAME) {
        Some((role, window)) if role == "window" => return kill_workers(NAME, &window),
        Some((role, window)) => return worker(&window, &role),
        None => {}
    }
    let mut child = again(NAME, "window", &window_name("killed"));
    let mut out = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    assert!(child.wait().unwrap().success(), "{out}");
}

/// Takes frames until it is killed.
fn window(window: &str) {
    let mut listener = Listener::bind(window).unwrap();
    println!("listening");
    let mut pane = accept(&mut listener);
    for _ in 0..10 {
        number_of(&next(&mut pane));
    }
    println!("showing");
    loop {
        let frame = next(&mut pane);
        number_of(&frame);
    }
}

#[test]
fn s16_windows_killed() {
    const NAME: &str = "s16_windows_killed";
    if let Some((_, name)) = role(NAME) {
        return window(&name);
    }
    let name = window_name("window-killed");
    let mut number = 0;
    let mut random = 11;
    for _ in 0..20 {
        // Each finds the socket that the one before left.
        let mut child = Killed(again(NAME, "window", &name));
        let mut out = BufReader::new(child.0.stdout.take().unwrap());
        await_line(&mut out, "listening");
        let mut worker = attach(&name, "pane", SIZE);
        let shown = std::thread::spawn(move || {
            await_line(&mut out, "showing");
            out
        });
        while !shown.is_finished() {
            number += 1;
            assert_ne!(show_number(&mut worker, number, SIZE).unwrap(), Shown::Closed);
        }
        for _ in 0..some(50, &mut random) {
            number += 1;
            let _ = show_number(&mut worker, number, SIZE).unwrap();
        }
        assert!(worker.is_open().unwrap());
        child.kill();
        assert!(time_to_readable(&worker) < SOON);
        assert_eq!(show_number(&mut worker, number, SIZE).unwrap(), Shown::Closed);
        assert!(!worker.is_open().unwrap() && worker.is_lost());
        assert_eq!(show_number(&mut worker, number, SIZE).unwrap(), Shown::Closed);
        let error = Worker::attach(&name, "pane", WorkerOptions::for_size(SIZE)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        let rest = shown.join().unwrap().lines().map_while(Result::ok).count();
        assert_eq!(rest, 0, "it was killed, and did not fail");
    }
    // The last one's socket.
    drop(Listener::bind(&name).unwrap());
}
