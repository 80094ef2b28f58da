//! A real window under Xvfb: looked at by reading the screen back, driven by keys and mouse.
//!
//! The window runs in a child process (this program again, see `child`); the tests talk to it in lines
//! and to the X server as another client. Nothing sleeps to be in time: states are asked for until they
//! hold or a deadline passes.

#[cfg(target_os = "linux")]
mod cases;
mod child;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod weston;
#[cfg(target_os = "linux")]
mod xvfb;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "--child") {
        child::main(&args[1..]);
        return;
    }
    // What a test runner asks of a program without its harness.
    if args.iter().any(|arg| arg == "--list") {
        return;
    }
    #[cfg(target_os = "linux")]
    run(args.iter().find(|arg| !arg.starts_with('-')).map(String::as_str));
    #[cfg(not(target_os = "linux"))]
    println!("skipped: the window tests need Xvfb, which is not on this system");
}

#[cfg(target_os = "linux")]
fn run(filter: Option<&str>) {
    if let Err(why) = xvfb::Xvfb::start().map(drop) {
        println!("skipped: {why}");
        return;
    }
    let mut failed = Vec::new();
    for (name, case) in cases::CASES {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let begun = std::time::Instant::now();
        let passed = std::panic::catch_unwind(case).is_ok();
        let took = begun.elapsed().as_secs_f64();
        println!("test {name} ... {} ({took:.1} s)", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
        std::process::exit(1);
    }
}
