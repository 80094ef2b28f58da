//! The cases: each a window of its own on a server of its own.

use crate::child::{BEFORE, SIZE, before, picture};
use crate::driver::{Program, Stage, like_reference, pairs};
use crate::weston::{NAME, Weston};
use crate::xvfb::{Client, Shot, Xvfb};
use std::time::{Duration, Instant};

type Case = fn();

pub const CASES: &[(&str, Case)] = &[
    ("the_picture_is_exact", the_picture_is_exact),
    ("the_numbers_are_shown_and_hidden", the_numbers_are_shown_and_hidden),
    ("pause_holds_the_newest_stream", pause_holds_the_newest_stream),
    ("pause_holds_a_file_back", pause_holds_a_file_back),
    ("split_and_drag", split_and_drag),
    ("three_panes_side_by_side", three_panes_side_by_side),
    ("zoomed_moved_and_told", zoomed_moved_and_told),
    ("workers_come_and_go", workers_come_and_go),
    ("ended_panes_are_taken_away", ended_panes_are_taken_away),
    ("opengl_shows_the_same", opengl_shows_the_same),
    ("s7_wayland_alone", s7_wayland_alone),
    ("help_looks_right", help_looks_right),
    ("screenshots_are_exact", screenshots_are_exact),
    ("resized_and_letterboxed", resized_and_letterboxed),
    ("unmapped_and_mapped_again", unmapped_and_mapped_again),
    ("covered_and_seen_again", covered_and_seen_again),
    ("a_file_ends_while_nobody_sees_it", a_file_ends_while_nobody_sees_it),
    ("full_screen_is_asked_for_and_left", full_screen_is_asked_for_and_left),
    ("full_screen_without_a_window_manager", full_screen_without_a_window_manager),
    ("closed_by_q", closed_by_q),
    ("closed_by_escape", closed_by_escape),
    ("closed_by_the_button", closed_by_the_button),
    ("closed_by_the_handle", closed_by_the_handle),
    ("the_end_keeps_the_last_picture", the_end_keeps_the_last_picture),
    ("a_file_is_shown_frame_by_frame", a_file_is_shown_frame_by_frame),
    ("a_flood_is_thinned", a_flood_is_thinned),
    ("no_frames_no_window", no_frames_no_window),
    ("two_windows_in_a_row", two_windows_in_a_row),
    ("idle_costs_nothing", idle_costs_nothing),
    ("no_server_is_a_sentence", no_server_is_a_sentence),
    ("a_server_that_stopped_is_a_sentence", a_server_that_stopped_is_a_sentence),
    ("a_missing_library_is_a_sentence", a_missing_library_is_a_sentence),
    ("a_server_that_resets_is_not_made_to", a_server_that_resets_is_not_made_to),
    ("a_server_that_dies_ends_the_program", a_server_that_dies_ends_the_program),
];

const ESCAPE: u32 = 0xff1b;
const RIGHT: u32 = 0xff53;

fn is_frame(n: u64) -> impl Fn(&Shot) -> Result<(), String> {
    let expected = picture(n);
    move |shot| {
        let wrong = shot.rgb.iter().zip(&expected).filter(|(a, b)| a != b).count();
        if (shot.width, shot.height) == (SIZE.width, SIZE.height) && wrong == 0 {
            Ok(())
        } else {
            Err(format!("{}×{}, {wrong} channels differ from frame {n}", shot.width, shot.height))
        }
    }
}

fn the_picture_is_exact() {
    let mut stage = Stage::set(&[], "frame 3").without_numbers();
    // Every channel of every pixel, a grey ramp among them.
    stage.see("frame 3", is_frame(3));
    assert_eq!(stage.program.frame(4), "Shown");
    stage.see("frame 4", is_frame(4));
    assert!(stage.client.title(stage.window).starts_with("window test"));
}

fn the_numbers_are_shown_and_hidden() {
    let stage = Stage::set(&[], "frame 1");
    stage.see("numbers over frame 1", |shot| {
        let differ = |rows: std::ops::Range<usize>| {
            let range = rows.start * SIZE.width * 3..rows.end * SIZE.width * 3;
            shot.rgb[range.clone()].iter().zip(&picture(1)[range]).filter(|(a, b)| a != b).count()
        };
        match (differ(0..40), differ(40..SIZE.height)) {
            (1000.., 0) => Ok(()),
            (top, rest) => Err(format!("{top} channels differ on top and {rest} below")),
        }
    });
    let stage = stage.without_numbers();
    stage.see("frame 1", is_frame(1));
}

fn pause_holds_the_newest_stream() {
    let mut stage = Stage::set(&[], "frame 1").without_numbers();
    stage.client.key(' ');
    stage.program.wait_for("paused", "true");
    // Five slots wait to be seen, then the unseen ones make room.
    for n in 2..9 {
        assert_eq!(stage.program.frame(n), if n < 7 { "Shown" } else { "Replaced" });
    }
    let drawn = stage.program.status()["drawn"].clone();
    stage.client.key('i');
    stage.program.wait("it should be drawn again", |status| status["drawn"] != drawn);
    stage.client.key('i');
    stage.see("frame 1, held", is_frame(1));
    stage.client.key(' ');
    stage.see("frame 8", is_frame(8));
    let status = stage.program.wait_for("paused", "false");
    assert_eq!((status["shown"].as_str(), status["dropped"].as_str()), ("2", "6"));
}

fn pause_holds_a_file_back() {
    let mut stage = Stage::set(&["fifo"], "frame 1").without_numbers();
    stage.client.key(' ');
    stage.program.wait_for("paused", "true");
    stage.program.hear("frame 1");
    assert_eq!((stage.program.frame(2), stage.program.frame(3)), ("Shown".into(), "Shown".into()));
    // Both slots are full: frame 4 waits for frame 2 to be taken, and that waits for the pause's end.
    stage.program.say("frame 4");
    assert_eq!(stage.program.hear_within("frame 4", Duration::from_millis(300)), None);
    stage.see("frame 1, held", is_frame(1));
    stage.client.key(' ');
    assert_eq!(stage.program.hear("frame 4"), "Shown");
    stage.see("frame 4", is_frame(4));
    let status = stage.program.wait_for("shown", "4");
    assert_eq!(status["dropped"], "0");
}

fn split_and_drag() {
    let mut stage = Stage::set(&[], "frame 2 before").without_numbers();
    stage.client.key('b');
    stage.program.wait_for("split", "0.500");
    stage.see("split in the middle", |shot| like_reference("split", shot));

    let (middle, y) = (SIZE.width as i16 / 2, 60);
    stage.client.mouse(stage.window, middle, y);
    stage.client.button(true);
    stage.client.mouse(stage.window, 160, y);
    stage.program.wait_for("split", "0.250");
    stage.client.button(false);
    stage.client.mouse(stage.window, 500, y);
    stage.client.press(RIGHT);
    let status = stage.program.wait_for("split", "0.260");
    assert_eq!(status["paused"], "false");

    stage.client.key('b');
    stage.program.wait_for("split", "none");
    stage.see("frame 2", is_frame(2));
    // A frame that has nothing to compare with: the key says so, and nothing is split.
    assert_eq!(stage.program.frame(3), "Shown");
    stage.see("frame 3", is_frame(3));
    let drawn = stage.program.status()["drawn"].clone();
    stage.client.key('b');
    let status = stage.program.wait("a message should be drawn", |status| status["drawn"] != drawn);
    assert_eq!(status["split"], "none");
}

/// The colour at a point.
fn pixel(shot: &Shot, x: usize, y: usize) -> [u8; 3] {
    let at = (y * shot.width + x) * 3;
    [shot.rgb[at], shot.rgb[at + 1], shot.rgb[at + 2]]
}

fn three_panes_side_by_side() {
    let mut stage = Stage::set(&["three"], "each before").without_numbers();
    stage.program.wait_for("shown", "3");
    stage.client.resize(stage.window, 800, 452);
    // Each frame's own blue in the middle of its tile, and nothing in the fourth.
    let blues = |shot: &Shot| {
        let middles = [(200, 113), (600, 113), (200, 339), (600, 339)];
        middles.map(|(x, y)| if shot.width == 800 && shot.height == 452 { pixel(shot, x, y)[2] } else { 1 })
    };
    stage.see("three tiles", |shot| {
        let seen = blues(shot);
        let wrong = seen.iter().zip([0, 47, 94, 29]).any(|(a, b)| a.abs_diff(b) > 2);
        if wrong { Err(format!("{seen:?}")) } else { Ok(()) }
    });
    // The screenshot is of the pane under the mouse.
    stage.client.mouse(stage.window, 600, 113);
    stage.client.key('s');
    stage.program.wait_for("screenshot", "test-clip-000001.png");
    let saved = image::open(stage.folder.path().join("test-clip-000001.png")).unwrap().into_rgb8();
    assert!(*saved.as_raw() == picture(1));
    // The wheel magnifies that pane alone, the divider goes through all.
    stage.client.wheel();
    stage.client.key('b');
    stage.program.wait_for("split", "0.500");
    stage.see("three dividers, one magnified", |shot| {
        // Left of its middle the second pane shows a field of the chessboard.
        let before = [pixel(shot, 100, 113), pixel(shot, 500, 113), pixel(shot, 100, 339)];
        let blue = |rgb: &[u8; 3]| rgb[0] < 70 && rgb[2] > 100;
        if before.iter().all(blue) { Ok(()) } else { Err(format!("{before:?}")) }
    });
    stage.program.say("finish");
    stage.program.wait_for("ended", "true");
    expect_closed_after(stage, 3);
}

fn zoomed_moved_and_told() {
    let mut stage = Stage::set(&[], "frame 4").without_numbers();
    stage.client.resize(stage.window, 300, 200);
    stage.program.wait_for("size", "300x200");
    stage.client.key('1');
    let exact = |left: usize, top: usize| {
        let whole = picture(4);
        move |shot: &Shot| {
            let want = |x: usize, y: usize| &whole[((y + top) * SIZE.width + x + left) * 3..][..3];
            let wrong = |&(x, y): &(usize, usize)| pixel(shot, x, y) != want(x, y);
            if (shot.width, shot.height) != (300, 200) {
                return Err("the size is not there yet".to_owned());
            }
            let all = (0..200).flat_map(|y| (0..300).map(move |x| (x, y)));
            all.into_iter().find(wrong).map_or(Ok(()), |at| Err(format!("{at:?} is another pixel")))
        }
    };
    // The middle of the picture at its own size, and then what is 40 to the left of it and 25 above.
    stage.see("its own size", exact(170, 80));
    stage.client.mouse(stage.window, 100, 100);
    stage.client.button(true);
    stage.client.mouse(stage.window, 140, 125);
    stage.client.button(false);
    stage.see("moved", exact(130, 55));
    // What is under the mouse stays there, magnified so that each pixel is a square.
    (0..12).for_each(|_| stage.client.key('='));
    let (x, y) = (130 + 140, 55 + 125);
    let [r, g, b] = [0, 1, 2].map(|c| picture(4)[(y * SIZE.width + x) * 3 + c]);
    stage.see("magnified", |shot| {
        // 1.25 to the 12th is 14.55.
        let around = [(140, 125), (140 + 15, 125), (140, 125 + 15)].map(|(x, y)| pixel(shot, x, y));
        let [same, right, below] = around;
        if same == [r, g, b] && right[0] >= r && below[1] > g { Ok(()) } else { Err(format!("{around:?}")) }
    });
    let before = stage.program.status()["readbacks"].clone();
    assert_eq!(before, "0", "nothing was read back so far");
    stage.client.key('v');
    stage.program.wait_for("value", &format!("{x},_{y}:_{r}_{g}_{b}"));
    // Read once, and not again for the same pixel of the same picture.
    stage.client.key('h');
    stage.program.wait_for("help", "true");
    stage.client.key('h');
    stage.program.wait_for("help", "false");
    assert_eq!(stage.program.status()["readbacks"], "1");
    // Another picture: another value.
    assert_eq!(stage.program.frame(5), "Shown");
    let b = picture(5)[(y * SIZE.width + x) * 3 + 2];
    stage.program.wait_for("value", &format!("{x},_{y}:_{r}_{g}_{b}"));
    // With a divider left of which the mouse is: the pixel of the picture before, which is half as large.
    stage.client.key('0');
    stage.program.say("frame 6 before");
    stage.program.wait_for("shown", "3");
    stage.client.key('b');
    stage.client.mouse(stage.window, 60, 100);
    // 60 and 100 are in the middle of the fields of a chessboard, and 320 columns are shown in 300.
    let seen = stage.program.wait("the pixel before", |status| status["value"].starts_with("before_64,_"));
    assert!(seen["value"].ends_with(":_60_90_170") || seen["value"].ends_with(":_40_60_120"), "{seen:?}");
    stage.client.key('v');
    stage.client.key('b');
    stage.see("all of it", |shot| {
        let (corner, middle) = (pixel(shot, 0, 0), pixel(shot, 150, 100));
        let wanted = corner == [22, 24, 29] && middle[0].abs_diff(127) <= 2;
        if wanted { Ok(()) } else { Err(format!("{corner:?}, {middle:?}")) }
    });
    expect_closed_after(stage, 3);
}

fn workers_come_and_go() {
    let server = Xvfb::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let name = "wall";
    let mut program = Program::start(Some(&server.display), folder.path(), &["listen", name], &[]);
    // Open before there is a worker.
    program.wait_for("open", "true");
    let client = server.client();
    let window = crate::driver::until("the window should be found", || client.find());
    client.focus(window);
    let start = || Program::start(None, folder.path(), &["worker", name], &[]);
    let mut worker = start();
    assert_eq!(worker.frame(3), "Shown");
    program.wait_for("shown", "1");
    let mut stage = Stage { program, client, window, folder, server }.without_numbers();
    stage.see("the worker's frame", is_frame(3));
    // Killed: its last frame stays, and another may take its place.
    drop(worker);
    stage.see("the frame of a worker that is gone", is_frame(3));
    let mut worker = Program::start(None, stage.folder.path(), &["worker", name], &[]);
    assert_eq!(worker.frame(4), "Shown");
    stage.see("its successor's frame", is_frame(4));
    assert_eq!(stage.program.status()["panes"], "1");
    // Also a window whose picture is held answers a worker that needs larger slots.
    stage.client.key(' ');
    stage.program.wait_for("paused", "true");
    worker.say("large 9");
    assert_eq!(worker.hear("frame 9"), "Shown");
    stage.see("its successor's frame, held", is_frame(4));
    stage.client.key(' ');
    stage.see("the large frame", |shot| {
        let middle = pixel(shot, 320, 180);
        if middle == [9; 3] { Ok(()) } else { Err(format!("{middle:?}")) }
    });
    stage.client.key('q');
    stage.program.hear("report");
    assert!(stage.program.exit().success());
    crate::driver::until("the worker should be told", || (worker.frame(5) == "Closed").then_some(()));
}

fn ended_panes_are_taken_away() {
    let mut stage = Stage::set(&["three"], "each").without_numbers();
    stage.program.wait_for("shown", "3");
    stage.client.key('x');
    assert_eq!(stage.program.status()["panes"], "3", "none has ended");
    stage.program.say("drop 0");
    stage.program.hear("dropped");
    stage.client.key('x');
    // A key that comes before the end is seen takes nothing away.
    crate::driver::until("the first pane should go", || {
        let gone = stage.program.status()["panes"] == "2";
        if !gone {
            stage.client.key('x');
        }
        gone.then_some(())
    });
    stage.client.resize(stage.window, 800, 452);
    stage.see("two tiles", |shot| {
        // What blue frames 1 and 2 have, in the middle of a half each.
        let middles = [(200, 226), (600, 226)];
        if (shot.width, shot.height) != (800, 452) {
            return Err("the size is not there yet".to_owned());
        }
        let seen = middles.map(|(x, y)| pixel(shot, x, y)[2]);
        let wrong = seen.iter().zip([47, 94]).any(|(a, b): (&u8, u8)| a.abs_diff(b) > 2);
        if wrong { Err(format!("{seen:?}")) } else { Ok(()) }
    });
    // The last ones stay: nobody else may come.
    stage.program.say("finish");
    stage.program.wait_for("ended", "true");
    stage.client.key('x');
    assert_eq!(stage.program.status()["panes"], "2");
    // The report has them all.
    expect_closed_after(stage, 3);
}

fn opengl_shows_the_same() {
    let server = Xvfb::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let env = [("WGPU_BACKEND", "gl")];
    let mut program = Program::start(Some(&server.display), folder.path(), &[], &env);
    let available = program.hear("");
    if available.starts_with("error") {
        println!("skipped: OpenGL cannot be used here ({available})");
        return;
    }
    assert!(available.ends_with("(OpenGL)"), "{available}");
    drop((program, server));
    let stage = Stage::set_with(&[], "frame 6", &env).without_numbers();
    stage.see("frame 6 by OpenGL", is_frame(6));
}

/// S7. (S7 with X11 alone is what all others are.)
fn s7_wayland_alone() {
    let weston = match Weston::start() {
        Ok(weston) => weston,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let runtime = weston.folder.path().to_str().unwrap();
    let env = [("WAYLAND_DISPLAY", NAME), ("XDG_RUNTIME_DIR", runtime)];
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(None, folder.path(), &["three"], &env);
    let available = program.hear("available");
    assert!(available.starts_with("Wayland wayland-test, "), "{available}");
    program.say("each before");
    program.wait_for("shown", "3");
    for n in 1..20 {
        assert_ne!(program.frame(n), "Closed");
    }
    program.wait("the newest frame should be shown", |status| {
        let count = |key: &str| status[key].parse::<u64>().unwrap();
        count("shown") > 3 && count("shown") + count("dropped") + count("hidden") == 22
    });
    program.say("close");
    program.hear("report");
    assert!(program.exit().success());
}

fn help_looks_right() {
    let mut stage = Stage::set(&[], "frame 2").without_numbers();
    stage.client.key('h');
    stage.program.wait_for("help", "true");
    // The last line names the adapter, which differs between machines.
    stage.see("help", |shot| {
        let mut shot = Shot { width: shot.width, height: shot.height, rgb: shot.rgb.clone() };
        for y in 318..342 {
            let row = y * shot.width * 3;
            shot.rgb[row..row + shot.width * 3].fill(0);
        }
        like_reference("help", &shot)
    });
    stage.client.press(ESCAPE);
    stage.program.wait_for("help", "false");
    stage.see("frame 2", is_frame(2));
}

fn screenshots_are_exact() {
    let mut stage = Stage::set(&[], "frame 7 before").without_numbers();
    // The screenshot has the picture's own size whatever the window's.
    stage.client.resize(stage.window, 333, 444);
    stage.program.wait_for("size", "333x444");
    stage.client.key('s');
    let status = stage.program.wait("a screenshot should be saved", |status| status["screenshot"] != "none");
    assert_eq!(status["screenshot"], "test-clip-000007.png");
    let saved = |name: &str| image::open(stage.folder.path().join(name)).unwrap().into_rgb8();
    let shot = saved("test-clip-000007.png");
    assert_eq!((shot.width() as usize, shot.height() as usize), (SIZE.width, SIZE.height));
    assert!(*shot.as_raw() == picture(7));

    stage.client.key('b');
    stage.program.wait_for("split", "0.500");
    stage.client.key('s');
    stage.program.wait_for("screenshot", "test-clip-000007-split.png");
    let (shot, after, before) = (saved("test-clip-000007-split.png"), picture(7), before());
    for (x, y, pixel) in shot.enumerate_pixels() {
        let (x, y) = (x as usize, y as usize);
        if x >= SIZE.width / 2 {
            let at = (y * SIZE.width + x) * 3;
            assert_eq!(pixel.0, after[at..at + 3], "after at {x}, {y}");
        } else if x % 40 > 1 && x % 40 < 38 && y % 40 > 1 && y % 40 < 38 {
            // Away from the edges of its fields the chessboard is what it was.
            let at = (y / 2 * BEFORE.width + x / 2) * 3;
            assert_eq!(pixel.0, before[at..at + 3], "before at {x}, {y}");
        }
    }
}

fn resized_and_letterboxed() {
    let mut stage = Stage::set(&[], "frame 5").without_numbers();
    for (width, height) in [(700, 700), (901, 300), (200, 700)] {
        stage.client.resize(stage.window, width, height);
        stage.program.wait_for("size", &format!("{width}x{height}"));
        let (w, h) = (width as usize, height as usize);
        stage.see("letterboxed", |shot| {
            let pixel = |x: usize, y: usize| {
                let at = (y * shot.width + x) * 3;
                [shot.rgb[at], shot.rgb[at + 1], shot.rgb[at + 2]]
            };
            if (shot.width, shot.height) != (w, h) {
                return Err("the size is not there yet".into());
            }
            let corners = [pixel(0, 0), pixel(w - 1, 0), pixel(0, h - 1), pixel(w - 1, h - 1)];
            if corners != [[22, 24, 29]; 4] {
                return Err(format!("corners of {w}×{h}: {corners:?}"));
            }
            // The middle of the picture: half of the ramps, and the frame's own blue.
            let middle = pixel(w / 2, h / 2);
            let wanted = [127, 127, 5 * 47];
            let off = middle.iter().zip(wanted).map(|(a, b)| a.abs_diff(b)).max().unwrap_or(0);
            if off > 2 { Err(format!("middle of {w}×{h}: {middle:?}")) } else { Ok(()) }
        });
    }
    // Frames arrive while the size keeps changing.
    stage.program.say("flood 300");
    for n in 0..60 {
        stage.client.resize(stage.window, 300 + 7 * n, 700 - 6 * n);
    }
    stage.program.hear("flood");
    stage.client.resize(stage.window, SIZE.width as u32, SIZE.height as u32);
    stage.see("frame 299", is_frame(299));
}

fn unmapped_and_mapped_again() {
    let mut stage = Stage::set(&["fifo"], "frame 1").without_numbers();
    stage.client.map(stage.window, false);
    stage.program.hear("frame 1");
    // A file goes on while nobody looks.
    for n in 2..20 {
        assert_eq!(stage.program.frame(n), "Shown");
    }
    stage.client.map(stage.window, true);
    stage.see("frame 19", is_frame(19));
    let status = stage.program.status();
    let (shown, hidden): (u64, u64) = (status["shown"].parse().unwrap(), status["hidden"].parse().unwrap());
    assert_eq!((shown + hidden, status["dropped"].as_str()), (19, "0"));
}

/// Pushes frames until one was taken that nobody saw; the next frame's number.
fn cover_and_play_on(stage: &mut Stage, cover: &Client) -> u64 {
    cover.cover();
    // The server tells the window in its own time.
    let enough = Instant::now() + crate::driver::DEADLINE;
    let mut n = 2;
    while stage.program.status()["hidden"] == "0" {
        assert!(Instant::now() < enough, "the window still counts {n} frames as seen");
        assert_eq!(stage.program.frame(n), "Shown");
        n += 1;
    }
    n
}

fn covered_and_seen_again() {
    let mut stage = Stage::set(&["fifo"], "frame 1").without_numbers();
    let cover = stage.server.client();
    let mut n = cover_and_play_on(&mut stage, &cover);
    for _ in 0..5 {
        assert_eq!(stage.program.frame(n), "Shown");
        n += 1;
    }
    drop(cover);
    stage.see("the last frame", is_frame(n - 1));
    let status = stage.program.wait("all should be counted", |status| {
        let count = |key: &str| status[key].parse::<u64>().unwrap();
        count("shown") + count("hidden") == n - 1
    });
    assert!(status["hidden"].parse::<u64>().unwrap() >= 5, "{status:?}");
}

fn a_file_ends_while_nobody_sees_it() {
    let mut stage = Stage::set(&["fifo", "close-at-end"], "frame 1");
    let cover = stage.server.client();
    let n = cover_and_play_on(&mut stage, &cover);
    stage.program.say("finish");
    let report = pairs(&stage.program.hear("report"));
    let count = |key: &str| report[key].parse::<u64>().unwrap();
    assert_eq!((count("shown") + count("hidden"), count("dropped")), (n - 1, 0));
    assert!(count("hidden") > 0 && stage.program.exit().success());
}

/// A window manager makes the window as large as the screen when it is asked to; here the test does.
fn full_screen_is_asked_for_and_left() {
    let mut stage = Stage::set(&[], "frame 1").without_numbers();
    stage.client.listen_as_window_manager();
    let asked = |client: &Client, on: bool| {
        let heard = crate::driver::until("a request should be heard", || client.full_screen_asked());
        assert_eq!(heard, on);
    };
    stage.client.key('f');
    asked(&stage.client, true);
    stage.client.resize(stage.window, 1024, 768);
    stage.program.wait_for("size", "1024x768");
    assert_eq!(stage.program.wait_for("full_screen", "true")["open"], "true");
    assert_eq!(stage.program.frame(2), "Shown");
    stage.see("frame 2 between bars", |shot| {
        // 640×360 in 1024×768 is 1024×576, and 96 rows are left above and below.
        let pixel = |y: usize| &shot.rgb[(y * shot.width + 512) * 3..][..3];
        let bars = [[22, 24, 29]; 2];
        match (shot.width, shot.height) == (1024, 768) && [pixel(90), pixel(677)] == bars {
            true if pixel(384)[2].abs_diff(2 * 47) <= 2 => Ok(()),
            _ => Err(format!("{}×{}, middle {:?}", shot.width, shot.height, pixel(384))),
        }
    });
    // Escape leaves full screen, not the window.
    stage.client.press(ESCAPE);
    asked(&stage.client, false);
    stage.client.resize(stage.window, SIZE.width as u32, SIZE.height as u32);
    stage.program.wait_for("full_screen", "false");
    stage.see("frame 2", is_frame(2));
    expect_closed_after(stage, 2);
}

/// Nobody does what `f` asks for: the window stays as it is, and everything goes on.
fn full_screen_without_a_window_manager() {
    let mut stage = Stage::set(&[], "frame 1").without_numbers();
    for (n, on) in [(2, "true"), (3, "false"), (4, "true")] {
        stage.client.key('f');
        stage.program.wait_for("full_screen", on);
        assert_eq!(stage.program.frame(n), "Shown");
        stage.program.wait_for("shown", &n.to_string());
    }
    stage.client.key('f');
    stage.program.wait_for("full_screen", "false");
    expect_closed_after(stage, 4);
}

/// `q` ends it, and so many frames were shown.
fn expect_closed_after(mut stage: Stage, shown: u64) {
    stage.client.key('q');
    let report = pairs(&stage.program.hear("report"));
    assert_eq!((report["shown"].as_str(), report["by_user"].as_str()), (&*shown.to_string(), "true"));
    assert!(stage.program.exit().success());
}

/// The stream must hear of it, and the program must end well.
fn expect_closed(mut stage: Stage, by_user: bool) {
    let report = pairs(&stage.program.hear("report"));
    assert_eq!(report["by_user"], by_user.to_string());
    assert_eq!((report["shown"].as_str(), report["aged"].as_str()), ("1", "true"));
    assert!(stage.program.exit().success());
}

fn closed_by_q() {
    let stage = Stage::set(&[], "frame 1");
    stage.client.key('q');
    expect_closed(stage, true);
    // Also one that would close at the streams' end, which closing looks like.
    let stage = Stage::set(&["close-at-end"], "frame 1");
    stage.client.key('q');
    expect_closed(stage, true);
}

fn closed_by_escape() {
    let stage = Stage::set(&[], "frame 1");
    stage.client.press(ESCAPE);
    expect_closed(stage, true);
}

fn closed_by_the_button() {
    let stage = Stage::set(&["fifo"], "frame 1");
    stage.client.click_close(stage.window);
    expect_closed(stage, true);
}

fn closed_by_the_handle() {
    let mut stage = Stage::set(&[], "frame 1");
    stage.program.say("close");
    expect_closed(stage, false);
}

fn the_end_keeps_the_last_picture() {
    let mut stage = Stage::set(&["fifo"], "frame 1").without_numbers();
    stage.program.frame(2);
    stage.program.say("finish");
    stage.program.wait_for("ended", "true");
    stage.see("frame 2", is_frame(2));
    crate::driver::until("the title should say so", || {
        (stage.client.title(stage.window) == "window test — end").then_some(())
    });
    stage.client.key('q');
    let report = pairs(&stage.program.hear("report"));
    assert_eq!((report["shown"].as_str(), report["by_user"].as_str()), ("2", "true"));
}

fn a_file_is_shown_frame_by_frame() {
    let mut stage = Stage::set(&["fifo", "close-at-end"], "frame 1");
    stage.program.say("flood 100");
    stage.program.say("finish");
    assert_eq!(stage.program.hear("flood"), "Some(Shown)");
    let report = pairs(&stage.program.hear("report"));
    let count = |key: &str| report[key].parse::<u64>().unwrap();
    assert_eq!((count("shown") + count("hidden"), count("dropped")), (101, 0));
    assert_eq!((report["by_user"].as_str(), report["path"].starts_with("host-upload")), ("false", true));
    assert!(stage.program.exit().success());
}

fn a_flood_is_thinned() {
    let mut stage = Stage::set(&["close-at-end"], "frame 1");
    stage.program.say("flood 500");
    stage.program.hear("flood");
    stage.program.say("finish");
    let report = pairs(&stage.program.hear("report"));
    let count = |key: &str| report[key].parse::<u64>().unwrap();
    // Each frame was shown or is counted as replaced.
    assert_eq!(count("shown") + count("hidden") + count("dropped"), 501);
    assert!(count("shown") > 1);
}

fn no_frames_no_window() {
    let server = Xvfb::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(Some(&server.display), folder.path(), &[], &[]);
    program.hear("adapter");
    assert_eq!(program.status()["open"], "false");
    program.say("finish");
    let report = pairs(&program.hear("report"));
    assert_eq!((report["shown"].as_str(), report["aged"].as_str()), ("0", "false"));
    assert!(program.exit().success());
}

fn two_windows_in_a_row() {
    let mut stage = Stage::set(&["twice"], "frame 1").without_numbers();
    stage.see("frame 1", is_frame(1));
    stage.program.say("close");
    stage.program.hear("report");
    stage.program.say("frame 2");
    stage.program.wait_for("shown", "1");
    stage.window = crate::driver::until("the second window should be found", || stage.client.find());
    stage.client.focus(stage.window);
    let mut stage = stage.without_numbers();
    stage.see("frame 2", is_frame(2));
    stage.program.say("close");
    stage.program.hear("report");
    assert!(stage.program.exit().success());
}

fn idle_costs_nothing() {
    let mut stage = Stage::set(&[], "frame 1");
    let ticks = |program: &Program| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", program.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let (drawn, before) = (stage.program.status()["drawn"].clone(), ticks(&stage.program));
    // A measurement over time, not a wait for something to happen.
    std::thread::sleep(Duration::from_secs(4));
    let used = ticks(&stage.program) - before;
    let drawn_now = stage.program.status()["drawn"].clone();
    let draws = drawn_now.parse::<u64>().unwrap() - drawn.parse::<u64>().unwrap();
    // One draw to say that nothing comes any more; ticks are hundredths of a second.
    assert!(draws <= 2, "{draws} draws without a frame");
    assert!(used <= 20, "{used} hundredths of a second of CPU time in four idle seconds");
}

/// A child that cannot open a window says one sentence and fails.
fn expect_error(display: Option<&str>, env: &[(&str, &str)], words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(display, folder.path(), &[], env);
    let error = program.hear("error");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error:?}");
    }
    assert_eq!(program.exit().code(), Some(1));
}

fn no_server_is_a_sentence() {
    expect_error(None, &[], &["Unsupported", "neither WAYLAND_DISPLAY nor DISPLAY is set"]);
    expect_error(Some(":6543"), &[], &["Unsupported", "X11 :6543"]);
    expect_error(
        None,
        &[("WAYLAND_DISPLAY", "/nonexistent/wayland-0")],
        &["Unsupported", "Wayland /nonexistent"],
    );
}

fn a_server_that_stopped_is_a_sentence() {
    let server = Xvfb::start().unwrap();
    server.signal("STOP");
    let begun = Instant::now();
    expect_error(Some(&server.display), &[], &["Unsupported", "no answer within 5 seconds"]);
    assert!(begun.elapsed() < Duration::from_secs(15));
    server.signal("CONT");
}

/// Between asking whether the server answers and opening the window there is always a client.
fn a_server_that_resets_is_not_made_to() {
    let server = Xvfb::start_resetting().unwrap();
    server.client().leave_a_mark();
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::start(Some(&server.display), folder.path(), &[], &[]);
    program.say("frame 1");
    program.wait_for("shown", "1");
    assert!(server.client().sees_the_mark(), "the server has started afresh");
}

fn a_missing_library_is_a_sentence() {
    let server = Xvfb::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // A file of the library's name that is none stands before the real one.
    let names = ["libxkbcommon-x11.so.0", "libxkbcommon-x11.so"];
    for name in names {
        std::fs::write(folder.path().join(name), "not a library").unwrap();
    }
    let path = folder.path().to_str().unwrap();
    expect_error(
        Some(&server.display),
        &[("LD_LIBRARY_PATH", path)],
        &["Unsupported", "libxkbcommon-x11", "apt install libxkbcommon-x11-0"],
    );
}

fn a_server_that_dies_ends_the_program() {
    let mut stage = Stage::set(&[], "frame 1");
    stage.server.signal("KILL");
    // Xlib ends the program by itself, before any code of ours is asked; what matters is that it ends.
    assert!(!stage.program.exit().success());
}
