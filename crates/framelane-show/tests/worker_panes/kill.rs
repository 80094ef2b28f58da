//! S16: workers are killed by -9 at random moments; their pane says so, the others go on, nothing leaks, and they come
//! again.

use crate::processes::{LIMIT, Process, role, say, window_name};
use crate::work::TWO;
use crate::{start, test_device};
use framelane::device::Device;
use framelane::share::Listener;
use framelane_show::Display;
use std::time::{Duration, Instant};

/// How soon the death of the other side is to be known.
const SOON: Duration = Duration::from_millis(100);
/// Of the device's memory, what a driver keeps or lets go as it likes.
const ABOUT: usize = 48 << 20;

#[test]
fn s16_workers_killed_at_random_moments() {
    let Some((device, display, listener, _)) = start("killed") else { return };
    drop((display, listener));
    let kills = std::env::var("FRAMELANE_SHOW_KILLS").unwrap_or("200".into());
    // In a process of its own, so that nobody else's descriptors are counted.
    let mut child = Process::start("kill::window_of_the_killed", &window_name("killed"), &kills);
    for _ in 0..kills.parse::<u32>().unwrap() {
        child.said("round");
    }
    println!("noticed: {}", child.said("noticed"));
    child.ends_well();
    drop(device);
}

/// A number below `n` that differs from call to call.
fn some(n: u64, state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % n
}

fn spin(time: Duration) {
    let until = Instant::now() + time;
    while Instant::now() < until {
        std::hint::spin_loop();
    }
}

/// Descriptors and shared mappings of this process, and used bytes of the device.
fn held(device: &Device) -> (usize, usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let maps = maps.lines().filter(|line| line.contains("memfd:framelane")).count();
    let memory = device.cuda_context().map(|cuda| cuda.memory().unwrap());
    (descriptors, maps, memory.map_or(0, |memory| memory.total - memory.free))
}

#[test]
#[ignore = "run by the tests here, in a process of its own"]
fn window_of_the_killed() {
    let (window, kills) = role();
    let device = test_device::open(Device::host, Device::cuda);
    let mut display = Display::offscreen(&device).unwrap();
    let mut listener = Listener::bind(&window).unwrap();
    let mut random = 7;
    let attach = |display: &mut Display, listener: &mut Listener, name: &str| {
        let process = Process::start("work::worker_shows_for_ever", &window, name);
        let at = display.accept(listener, LIMIT).unwrap().expect("a worker attaches");
        (process, at)
    };
    let (_steady, at) = attach(&mut display, &mut listener, "steady");
    assert_eq!(at, 0);
    // The first makes what is made once.
    let (first, at) = attach(&mut display, &mut listener, "doomed");
    assert_eq!(at, 1);
    show_some(&mut display, 1, 3);
    drop(first);
    notice(&mut display);
    show_some(&mut display, 0, 3);
    let before = held(&device);
    let mut noticed = Vec::new();
    for round in 0..kills.parse::<u32>().unwrap() {
        let seen = display.panes()[0].presented;
        if round % 5 == 4 {
            // Before, during or after its attaching, whatever it has come to.
            let mut doomed = Process::start("work::worker_shows_for_ever", &window, "doomed");
            spin(Duration::from_micros(some(
                if test_device::on_cuda() { 600_000 } else { 8000 },
                &mut random,
            )));
            doomed.kill();
            drop(doomed);
            while let Some(at) = display.accept(&mut listener, Duration::ZERO).unwrap() {
                assert_eq!(at, 1);
            }
            notice(&mut display);
        } else {
            let (mut doomed, at) = attach(&mut display, &mut listener, "doomed");
            assert_eq!((at, display.panes().len()), (1, 2), "it comes back to its own place");
            assert_eq!(display.panes()[1].ended, None);
            show_some(&mut display, 1, some(8, &mut random));
            spin(Duration::from_micros(some(2000, &mut random)));
            doomed.kill();
            noticed.push(notice(&mut display));
        }
        let ended = display.panes()[1].ended.clone();
        assert_eq!(ended.as_deref(), Some("killed, or crashed: it said no goodbye"));
        show_some(&mut display, 0, 2);
        assert!(display.panes()[0].presented > seen && display.panes()[0].ended.is_none());
        say("round", round);
    }
    noticed.sort_unstable();
    let worst = noticed.last().copied().unwrap_or_default();
    let most = noticed.get(noticed.len() * 9 / 10).copied().unwrap_or_default();
    say("noticed", format_args!("9 of 10 in {most:?}, the last in {worst:?}"));
    assert!(most < SOON, "{noticed:?}");
    // What the driver of a process that was killed gives back comes a little later.
    let start = Instant::now();
    loop {
        let now = held(&device);
        if now.0 <= before.0 && now.1 <= before.1 && now.2 <= before.2 + ABOUT {
            break;
        }
        assert!(start.elapsed() < LIMIT, "{now:?} is held, and {before:?} was");
        display.present(TWO).unwrap();
    }
}

/// Present until pane `at` has shown so many more.
fn show_some(display: &mut Display, at: usize, more: u64) {
    let enough = display.panes()[at].presented + more;
    crate::present_until(display, TWO, "it goes on", |display| display.panes()[at].presented >= enough);
}

/// How long it takes until the second pane's end is known.
fn notice(display: &mut Display) -> Duration {
    let start = Instant::now();
    crate::present_until(display, TWO, "its end is known", |display| display.panes()[1].ended.is_some());
    start.elapsed()
}
