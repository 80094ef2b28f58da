//! The fuzz targets' seeds, damaged at random: a small stand-in for the fuzzer, which needs its own build
//! (`fuzz/README.md`). The ignored test does the same for a minute per target.

mod common;

use std::fs;
use std::time::{Duration, Instant};

/// A generator of numbers that are random enough here, and the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `limit`, which is not 0.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Change a few bytes in the ways that hurt parsers.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => bytes.truncate(at),
            4 => {
                // Numbers at the edges of their range.
                let number = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff_u32][random.below(5)].to_be_bytes();
                let length = number.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&number[..length]);
            }
            5 => {
                let end = at + random.below((bytes.len() - at).min(64)) + 1;
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            6 => {
                let end = at + random.below((bytes.len() - at).min(64)) + 1;
                bytes.drain(at..end);
            }
            _ => {
                let from = random.below(other.len());
                let end = from + random.below((other.len() - from).min(64)) + 1;
                let length = (end - from).min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&other[from..from + length]);
            }
        }
    }
}

/// Give `parse` damaged seeds until `more` says no; a panic names the input in hexadecimal.
fn attack(target: &str, parse: fn(&[u8]), mut more: impl FnMut(u64) -> bool) {
    let folder = common::package().join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|f| fs::read(f).unwrap()).collect();
    assert!(seeds.len() >= 2);
    seeds.iter().for_each(|seed| parse(seed));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut runs = 0;
    while more(runs) {
        let mut bytes = seeds[random.below(seeds.len())].clone();
        mutate(&mut bytes, &seeds[random.below(seeds.len())], &mut random);
        let start = Instant::now();
        if std::panic::catch_unwind(|| parse(&bytes)).is_err() {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            panic!("{target} panics at {hex}");
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{target} takes {:?}", start.elapsed());
        runs += 1;
    }
    println!("{target}: {runs} runs");
}

/// What a parser is called, and itself.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 4] = [
    ("y4m", framelane_media::fuzzing::y4m),
    ("image_header", framelane_media::fuzzing::image_header),
    ("gif", framelane_media::fuzzing::gif),
    ("mp4", framelane_media::fuzzing::mp4),
];

#[test]
fn damaged_seeds_never_panic() {
    for (target, parse) in TARGETS {
        attack(target, parse, |runs| runs < 3000);
    }
}

#[test]
#[ignore = "takes four minutes"]
fn damaged_seeds_never_panic_for_a_minute_each() {
    for (target, parse) in TARGETS {
        let end = Instant::now() + Duration::from_secs(60);
        attack(target, parse, |_| Instant::now() < end);
    }
}
