//! Ctrl-C and `kill`: the file is finished, the table is printed, and the exit code says what happened.

use crate::help::*;

/// Starts an endless run into a file, stops it once frames are in it, and checks what is left.
#[cfg(unix)]
#[track_caller]
fn stopped_by(signal: &str, code: i32) {
    let folder = Folder::new();
    let (out, json) = (folder.name("out.mp4"), folder.name("figures.json"));
    let args =
        ["play", "testsrc:64x48@200", "--policy", "latest", "--model", "none", "--to", &out, "--json", &json];
    let started = Started::new(&mut framelane(args));
    wait_until("frames in the file", || {
        std::fs::metadata(folder.path("out.mp4")).is_ok_and(|found| found.len() > 20_000)
    });
    started.signal(signal);
    let run = started.finish();
    assert_eq!(run.code, Some(code), "{}", run.err);
    assert!(run.err.contains(" in = ") && run.err.contains("wrote "), "the table: {}", run.err);
    let figures = Figures::read(&folder.path("figures.json"));
    let [_, out, _, failed] = figures.frames();
    assert!(out > 0 && failed == 0, "{figures:?}");
    assert_eq!((figures.0["stopped"].as_str(), figures.0["error"].as_str()), (Some("signal"), None));
    assert_eq!(pictures(&folder.path("out.mp4")).len() as u64, out);
}

#[cfg(unix)]
#[test]
fn ctrl_c_finishes_the_file() {
    stopped_by("INT", 130);
}

#[cfg(unix)]
#[test]
fn kill_finishes_the_file() {
    stopped_by("TERM", 143);
}

/// Nobody reads what is written, so the run cannot finish what it has begun; a second Ctrl-C does not wait for that.
#[cfg(unix)]
#[test]
fn a_second_ctrl_c_ends_at_once() {
    use std::io::Read;
    use std::process::Stdio;
    let folder = Folder::new();
    let json = folder.name("figures.json");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let args = ["play", "testsrc:640x480", "--model", "none", "--to", "-", "--json", &json];
        let mut child = framelane(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = child.id().to_string();
        // The first frame is more than a pipe holds: once it has begun, the run waits for us.
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 1000]).unwrap();
        // Signals of one kind that come close together are one signal, so they are sent until it has ended.
        wait_until("the end of the program", || {
            let kill = std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status();
            assert!(kill.unwrap().success(), "a child that was not waited for can be sent signals");
            child.try_wait().unwrap().is_some()
        });
        assert_eq!(child.wait().unwrap().code(), Some(code));
        let mut rest = String::new();
        child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
        assert!(!rest.contains(" in = ") && !rest.contains("panicked"), "no table: {rest}");
        assert_eq!(std::fs::read(folder.path("figures.json")).unwrap(), b"", "no figures");
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_wait_for_standard_input() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;
    let mut command = framelane(["play", "-", "--model", "none", "--to", "none"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"YUV4MPEG2 W64 H48 F25:1\n").unwrap();
    // The line that says where results go comes when Ctrl-C is listened to. Nothing more is sent.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("output ")));
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("0 in = 0 out")), "{rest:?}");
    drop(stdin);
}

#[test]
fn a_slow_network_drops_what_is_old_under_latest() {
    let args = ["testsrc:320x180@120", "--policy", "latest", "--frames", "60", "--to", "none", "--json", "-"];
    let run = play(&args).ok();
    let [came, out, dropped, failed] = run.figures().frames();
    assert!(came == 60 && out > 0 && failed == 0, "{came} {out} {dropped} {failed}");
    let by = run.figures().0["frames"]["dropped_by"].as_object().unwrap().clone();
    assert_eq!(by.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), dropped, "each drop has a reason");
}
