//! The program under test: a window whose stream is told what to do on standard input.
//!
//! Arguments: `fifo`, `close-at-end`, `three` (panes), `twice` (a second window after the first), `listen NAME` (for
//! worker processes, open at once), `worker NAME` (no window, but such a process). Commands, a line each: `frame N`, `frame N before`, `each` (frame N on pane N),
//! `flood N` (N frames as fast as they are taken), `finish`, `close`, `status`. Answers begin with the command's word; the end is `report …` or `error …`.

use framelane::device::{Buffer, Device, Memory};
use framelane::frame::{FrameMeta, ImageSize};
use framelane::share::Listener;
use framelane::{Result, TensorView};
use framelane_show::{
    PaneOptions, Picture, Policy, Shown, TensorPane, Window, WindowHandle, WindowOptions, WindowReport,
};
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
    if let [first, window] = args
        && first == "worker"
    {
        return worker(window);
    }
    let has = |word: &str| args.iter().any(|arg| arg == word);
    for _ in 0..if has("twice") { 2 } else { 1 } {
        if let Err(error) = one_window(args) {
            println!("error {:?}: {error}", error.kind());
            std::process::exit(1);
        }
    }
}

/// A process that shows in another's window: `frame N`, or one that is `large`.
fn worker(window: &str) {
    use framelane::share::{Pixels, Worker, WorkerOptions};
    let mut worker =
        Worker::attach(window, "worker", WorkerOptions::for_size(SIZE)).expect("the window listens");
    for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
        let n = line.split(' ').nth(1).and_then(|n| n.parse().ok()).expect("a number");
        let meta = FrameMeta::new("a process", n);
        let (size, rgb) = match line.starts_with("large") {
            true => {
                let size = ImageSize { width: 2 * SIZE.width, ..SIZE };
                (size, vec![n as u8; size.bytes()])
            }
            false => (SIZE, picture(n)),
        };
        let shown = worker.show(Pixels::Rgb(&rgb), size, &meta).expect("a frame is shown");
        println!("frame {n} {shown:?}");
    }
}

fn one_window(args: &[String]) -> Result<()> {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    println!("available {}", framelane_show::available()?);
    let device = Device::host();
    let options = WindowOptions {
        title: "window test".into(),
        close_at_end: has("close-at-end"),
        size: has("listen").then_some(SIZE),
        ..WindowOptions::default()
    };
    let mut window = Window::open(options, &device)?;
    println!("adapter {}", window.adapter());
    let pane_options = match has("fifo") {
        true => PaneOptions { policy: Policy::Fifo, slots: 2 },
        false => PaneOptions { policy: Policy::Latest, slots: 5 },
    };
    let mut panes = Vec::new();
    if let Some(at) = args.iter().position(|arg| arg == "listen") {
        window.listen(Listener::bind(&args[at + 1])?);
    } else {
        for n in 0..if has("three") { 3 } else { 1 } {
            panes.push(window.pane(&format!("pane {n}"), &device, &pane_options)?);
        }
    }
    let handle = window.handle();
    let (work, orders) = channel();
    std::thread::spawn(move || {
        if let Err(error) = stream(&device, panes, &orders) {
            println!("error {:?}: {error}", error.kind());
        }
    });
    std::thread::spawn(move || {
        // Stops at `close`, so that the next window's thread reads what follows.
        for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
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
    tell_report(&report);
    Ok(())
}

fn tell_report(report: &WindowReport) {
    println!(
        "report shown={} dropped={} hidden={} by_user={} aged={} readbacks={} path={}",
        report.shown(),
        report.dropped(),
        report.hidden(),
        report.closed_by_user,
        report.age.is_some(),
        report.readbacks,
        report.path
    );
}

fn stream(device: &Device, mut panes: Vec<TensorPane>, orders: &Receiver<String>) -> Result<()> {
    let stream = device.stream("test")?;
    let buffer = |rgb: &[u8]| -> Result<Buffer> {
        let buffer = device.alloc(rgb.len(), Memory::Pinned)?;
        buffer.write_host()?.copy_from_slice(rgb);
        Ok(buffer)
    };
    let show = |pane: &TensorPane, n: u64, with_before: bool| -> Result<Shown> {
        let meta = FrameMeta::new("clips/test clip.mp4", n);
        let after = buffer(&picture(n))?;
        let before = with_before.then(|| buffer(&before())).transpose()?;
        let specs = (SIZE.spec(), BEFORE.spec());
        let mut picture = Picture::new(TensorView::new(&after, 0, &specs.0)?);
        if let Some(before) = &before {
            picture = picture.before(Picture::new(TensorView::new(before, 0, &specs.1)?));
        }
        pane.show(&stream, &picture, &meta)
    };
    for order in orders {
        let words: Vec<&str> = order.split(' ').collect();
        let number = || words[1].parse().expect("a number");
        match words[0] {
            "frame" => {
                let shown = show(&panes[0], number(), words.len() > 2)?;
                println!("frame {} {shown:?}", number());
            }
            // Frame `n` on pane `n`.
            "each" => {
                for (n, pane) in (0..).zip(&panes) {
                    println!("each {n} {:?}", show(pane, n, words.len() > 1)?);
                }
            }
            "flood" => {
                let mut last = None;
                for n in 0..number() {
                    last = Some(show(&panes[0], n, false)?);
                }
                println!("flood {last:?}");
            }
            "drop" => {
                panes.remove(number() as usize);
                println!("dropped");
            }
            // The last pane is dropped.
            "finish" => break,
            other => panic!("no such command: {other}"),
        }
    }
    panes.clear();
    // Keep the channel open: orders may follow that nobody hears.
    orders.iter().for_each(drop);
    Ok(())
}

fn tell_status(handle: &WindowHandle) {
    let s = handle.status();
    println!(
        "status open={} size={}x{} panes={} shown={} hidden={} dropped={} drawn={} readbacks={} paused={} split={} value={} info={} help={} full_screen={} ended={} screenshot={}",
        s.open,
        s.size.0,
        s.size.1,
        s.panes.len(),
        s.shown(),
        s.hidden(),
        s.dropped(),
        s.drawn,
        s.readbacks,
        s.paused,
        s.split.map_or("none".into(), |split| format!("{split:.3}")),
        s.value.map_or("none".into(), |value| value.replace(' ', "_")),
        s.info,
        s.help,
        s.full_screen,
        s.ended,
        s.screenshot.map_or("none".into(), |path| path.display().to_string()),
    );
}
