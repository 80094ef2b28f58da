//! What a window gets of a worker process, whichever of the two is faster (case S9).
#![cfg(target_os = "linux")]

mod sharing;

use framelane::share::{Listener, Shown};
use sharing::*;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// What a worker of `s9` does: frames in bursts, each of which ends with one that is to be seen before the next begins.
fn bursts(window: &str, role: &str) {
    let (pace, dimensions) = match role {
        "slower" => (Duration::from_micros(200), size(64, 48)),
        "large" => (Duration::ZERO, size(640, 360)),
        _ => (Duration::ZERO, size(64, 48)),
    };
    let mut worker = attach(window, role, dimensions);
    let mut lines = std::io::stdin().lock().lines();
    let mut number = 0;
    while let Some(Ok(line)) = lines.next() {
        for _ in 0..line.parse::<u64>().unwrap() {
            let due = Instant::now() + pace;
            number += 1;
            assert_ne!(show_number(&mut worker, number, dimensions).unwrap(), Shown::Closed);
            while Instant::now() < due {
                std::hint::spin_loop();
            }
        }
    }
    let counts = worker.counts();
    assert_eq!((counts.shown, counts.dropped), (number, 0));
    // The window checks that nothing came afterwards.
    assert!(worker.is_open().unwrap());
}

/// 20 000 frames of a producer that is faster than the window, slower, or stops again and again; none is torn, none goes
/// back, and the last before each stop is always seen.
#[test]
fn s9_never_torn_never_back() {
    const NAME: &str = "s9_never_torn_never_back";
    if let Some((role, window)) = role(NAME) {
        return bursts(&window, &role);
    }
    for (role, rounds, burst) in
        [("faster", 3, 3000), ("slower", 1, 4000), ("stopping", 500, 10), ("large", 2, 1000)]
    {
        let window = window_name(&format!("s9-{role}"));
        let mut listener = Listener::bind(&window).unwrap();
        let mut child = Killed(again(NAME, role, &window));
        let mut pane = accept(&mut listener);
        let mut go = child.0.stdin.take().unwrap();
        let mut seen = 0;
        for round in 1..=rounds {
            writeln!(go, "{burst}").unwrap();
            while seen < round * burst {
                let number = number_of(&next(&mut pane));
                assert!(number > seen, "{role}: {number} after {seen}");
                seen = number;
            }
        }
        let counts = pane.counts();
        assert_eq!((counts.taken + counts.skipped, counts.spoiled), (rounds * burst, 0), "{role}");
        assert!(pane.try_take().is_none());
        drop(go);
        assert!(child.0.wait().unwrap().success(), "{role}");
        time_to_readable(&pane);
        assert!(!pane.poll_alive() && pane.ended() == Some("ended"));
    }
}
