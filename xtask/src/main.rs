//! `cargo xtask COMMAND`: set-up, tests, checks and benchmarks, the same for contributors and for CI.

#![forbid(unsafe_code)]

mod bench;
mod bundle;
mod ci;
mod deny;
mod fuzz;
mod kernels;
mod python;
mod rules;
mod run;
mod setup;
mod tally;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  setup [--no-install]   install what the tests need beyond Rust, or say what is missing
  test [--no-install]    setup, then every test: workspace, model checks, a short fuzz run
  ci                     all that must pass before a change lands (format, lints, docs, tests, ...)
  python                 the Python package's types and tests
  wheel [FOLDER]         build the Python package's wheel, by default into target/wheels
  rules                  the rules of the house: who may import whom, where unsafe may live, ...
  deny                   licences and origins of the dependencies (installs cargo-deny under target/)
  fuzz [--seconds N]     run each fuzz target for N seconds on its seeds (default 60)
  kernels [--check]      make the CUDA kernels' PTX from their sources, or check that it is what would be made
  bench [NAME]           run the benchmarks (of one name) in release and say where the results are
  bundle [FOLDER] [--only PACKAGE,...]
                         put tests, benchmarks and the program (of some packages) into a folder, by default
                         target/bundle, that runs without Rust, such as on a machine lent for its GPU

--no-install: install no system packages; tests that would need them are skipped, with the reason.";

/// What a command does: `Err` holds the sentence to show before a non-zero exit.
pub type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match args.as_slice() {
        ["setup"] => setup::command(true),
        ["setup", "--no-install"] => setup::command(false),
        ["test"] => test::command(true),
        ["test", "--no-install"] => test::command(false),
        ["ci"] => ci::command(),
        ["python"] => python::command(),
        ["wheel"] => python::wheel(None),
        ["wheel", folder] if !folder.starts_with('-') => python::wheel(Some(folder)),
        ["rules"] => rules::command(),
        ["deny"] => deny::command(),
        ["fuzz"] => fuzz::command(60),
        ["fuzz", "--seconds", seconds] => match seconds.parse() {
            Ok(seconds @ 1..) => fuzz::command(seconds),
            _ => Err(format!("--seconds {seconds}: a whole number of seconds, 1 or more, is needed")),
        },
        ["kernels"] => kernels::command(false),
        ["kernels", "--check"] => kernels::command(true),
        ["bench"] => bench::command(None),
        ["bench", name] if !name.starts_with('-') => bench::command(Some(name)),
        ["bundle", rest @ ..] => bundle::command(rest),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        _ => Err(format!("`{}` is not a command.\n\n{HELP}", args.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}
