//! `cargo xtask ci`: all that must pass before a change lands, each step a command anyone can run.

use crate::run::{cargo, show};
use crate::tally::{Steps, Tally};
use crate::{Outcome, deny, kernels, rules, test};

pub fn command() -> Outcome {
    let (mut steps, mut tally) = (Steps::new(), Tally::default());
    steps.run("format", || {
        show(&mut cargo("fmt --all -- --check"))?;
        show(&mut cargo("fmt --manifest-path fuzz/Cargo.toml -- --check"))
    });
    steps.run("rules of the house", rules::command);
    steps.run("dependencies", deny::command);
    steps.run("kernels", || kernels::command(true));
    steps.run("lints", || show(&mut cargo("clippy --workspace --all-targets --locked -- -D warnings")));
    steps.run("documentation", || {
        // Libraries only: the program's page would overwrite that of the library with the same name.
        let mut doc = cargo("doc --workspace --lib --no-deps --locked");
        show(doc.env("RUSTDOCFLAGS", "-D warnings"))
    });
    test::run(&mut steps, &mut tally, true);
    // In the profile of the tests, which shares what they have built; nothing is measured here.
    steps.run("benchmarks build", || show(&mut cargo("test --workspace --benches --no-run --locked")));
    steps.finish(&tally)
}
