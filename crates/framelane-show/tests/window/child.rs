//! The program under test: a window whose stream is told what to do on standard input.
//!
//! Arguments: `fifo`, `close-at-end`, `twice` (a second window after the first). Commands, a line each:
//! `frame N`, `frame N before`, `flood N` (N frames as fast as they are taken), `finish`, `close`,
//! `status`. Answers begin with the command's word; the end is `report …` or `error …`.

use framelane::frame::{FrameMeta, ImageSize};
use framelane_show::{Frame, Pane, Policy, Window, WindowHandle, WindowOptions};
use std::sync::mpsc::{Receiver, channel};

pub const SIZE: ImageSize = ImageSize { width: 640, height: 360 };
pub const BEFORE: ImageSize = ImageSize { width: 320, height: 180 };

/// Frame `n`: a grey ramp on top, a colour field below that changes with `n`.
pub fn picture(n: u64) -> Vec<u8> {
    let n = n as usize;
    let pixel = |i: usize| {
        let (x, y) = (i % SIZE.width, i / SIZE.width);
        let ramp = (x * 255 / (SIZE.width - 1)) as u8;
        if y < SIZE.height / 3 {
            [ramp; 3]
        } else {
            [ramp, (y * 255 / (SIZE.height - 1)) as u8, (n * 47 % 256) as u8]
        }
    };
    (0..SIZE.width * SIZE.height).flat_map(pixel).collect()
}

/// The picture before: a chessboard in two blues.
pub fn before() -> Vec<u8> {
    let pixel = |i: usize| {
        let (x, y) = (i % BEFORE.width, i / BEFORE.width);
        if (x / 20 + y / 20).is_multiple_of(2) { [40, 60, 120] } else { [60, 90, 170] }
    };
    (0..BEFORE.width * BEFORE.height).flat_map(pixel).collect()
}

pub fn main(args: &[String]) {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    let options = WindowOptions {
        title: "window test".into(),
        policy: if has("fifo") { Policy::Fifo } else { Policy::Latest },
        vsync: true,
        close_at_end: has("close-at-end"),
    };
    for _ in 0..if has("twice") { 2 } else { 1 } {
        if let Err(error) = one_window(options.clone()) {
            println!("error {:?}: {error}", error.kind());
            std::process::exit(1);
        }
    }
}

fn one_window(options: WindowOptions) -> framelane::Result<()> {
    println!("available {}", framelane_show::available()?);
    let (window, pane) = Window::open(options)?;
    println!("path {}", window.path());
    let handle = window.handle();
    let (work, orders) = channel();
    std::thread::spawn(move || stream(pane, &orders));
    std::thread::spawn(move || {
        // Stops at `close`, so that the next window's thread reads what follows.
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match line.as_str() {
                "status" => tell_status(&handle),
                "close" => {
                    handle.close();
                    break;
                }
                _ => work.send(line).expect("the stream's thread runs"),
            }
        }
    });
    let report = window.run()?;
    println!(
        "report shown={} replaced={} hidden={} by_user={} aged={} path={}",
        report.shown,
        report.replaced,
        report.hidden,
        report.closed_by_user,
        report.age.is_some(),
        report.path
    );
    Ok(())
}

fn stream(pane: Pane, orders: &Receiver<String>) {
    let before = before();
    let show = |n: u64, with_before: bool| {
        let meta = FrameMeta::new("clips/test clip.mp4", n);
        let before = with_before.then_some((before.as_slice(), BEFORE));
        let shown = pane.show(Frame { rgb: &picture(n), size: SIZE, meta: &meta, before });
        shown.expect("the picture is well formed")
    };
    for order in orders {
        let words: Vec<&str> = order.split(' ').collect();
        let number = || words[1].parse().expect("a number");
        match words[0] {
            "frame" => println!("frame {} {:?}", number(), show(number(), words.len() > 2)),
            "flood" => {
                let mut last = None;
                for n in 0..number() {
                    last = Some(show(n, false));
                }
                println!("flood {last:?}");
            }
            // The last pane is dropped.
            "finish" => break,
            other => panic!("no such command: {other}"),
        }
    }
    drop(pane);
    // Keep the channel open: orders may follow that nobody hears.
    orders.iter().for_each(drop);
}

fn tell_status(handle: &WindowHandle) {
    let s = handle.status();
    println!(
        "status open={} size={}x{} shown={} hidden={} replaced={} drawn={} paused={} split={} info={} help={} full_screen={} ended={} screenshot={}",
        s.open,
        s.size.0,
        s.size.1,
        s.shown,
        s.hidden,
        s.replaced,
        s.drawn,
        s.paused,
        s.split.map_or("none".into(), |split| format!("{split:.3}")),
        s.info,
        s.help,
        s.full_screen,
        s.ended,
        s.screenshot.map_or("none".into(), |path| path.display().to_string()),
    );
}
