//! Peers that keep to no protocol: they spoil their own pane, and nothing else happens.
#![cfg(target_os = "linux")]

mod common;
mod sharing;

use common::Rng;
use framelane::ErrorKind;
use framelane::share::message::{LATEST, MAX_BYTES, Message, VERSION};
use framelane::share::page::{self, About, Look, PAGE_BYTES, SourceName};
use framelane::share::{Listener, Shown, Worker, WorkerOptions};
use framelane_cuda::Mapped;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};
use sharing::*;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A peer that says what it likes.
struct Raw(OwnedFd);

impl Raw {
    fn socket() -> OwnedFd {
        let flags = SocketFlags::CLOEXEC;
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    fn connect(path: &Path) -> Self {
        let socket = Self::socket();
        connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        Self(socket)
    }

    /// What was to be sent; the other side may have hung up by now.
    fn say(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors)));
        let _ = sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    }

    /// The next message and its descriptors; none at the end.
    fn hear(&self) -> (Vec<u8>, Vec<OwnedFd>) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = vec![0; 4096];
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
        bytes.truncate(got.map_or(0, |got| got.bytes));
        let received = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(received) => Some(received),
            _ => None,
        });
        (bytes, received.flatten().collect())
    }

    fn reason(&self) -> String {
        match Message::parse(&self.hear().0) {
            Ok(Message::Refused { reason }) => reason.to_owned(),
            other => panic!("{other:?}"),
        }
    }
}

fn hello(pane: &str) -> Vec<u8> {
    Message::Hello { policy: LATEST, slots: 3, slot_bytes: 4096, device: None, pane }.to_bytes()
}

/// A message, more or less.
fn damaged(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = match rng.below(5) {
        0 => hello("pane"),
        1 => Message::Grow { slot_bytes: 1 << 20 }.to_bytes(),
        2 => Message::Memory { slots: 3, slot_bytes: 4096, allocated: None, way: "none" }.to_bytes(),
        3 => Message::Hello { policy: LATEST, slots: 3, slot_bytes: 4096, device: Some([7; 16]), pane: "p" }
            .to_bytes(),
        _ => (0..rng.below(2 * MAX_BYTES)).map(|_| rng.next() as u8).collect(),
    };
    for _ in 0..rng.below(3) {
        if !bytes.is_empty() {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
    }
    match rng.below(4) {
        0 => bytes.truncate(rng.below(bytes.len() + 1)),
        1 => bytes.extend((0..rng.below(2000)).map(|i| i as u8)),
        _ => {}
    }
    bytes
}

#[test]
fn hellos_that_are_none_are_answered_in_words() {
    let window = window_name("hellos");
    let mut listener = Listener::bind(&window).unwrap();
    let mut newer = hello("pane");
    newer[4] = VERSION as u8 + 1;
    let mut fifo = hello("pane");
    fifo[8] = 2;
    let slot_bytes = Mapped::MAX_BYTES;
    let huge = Message::Hello { policy: LATEST, slots: 8, slot_bytes, device: None, pane: "p" };
    let cases = [
        (newer, "use one release on both sides"),
        (fifo, "policy 2 is not known"),
        (huge.to_bytes(), "this window allows 268435456"),
        (b"GET / HTTP/1.1\r\n".to_vec(), "not framelane's"),
        (vec![1; MAX_BYTES + 1], "too long"),
        (Message::Grow { slot_bytes: 1 }.to_bytes(), "something else than hello"),
    ];
    for (i, (bytes, reason)) in cases.iter().enumerate() {
        let raw = Raw::connect(listener.path());
        raw.say(bytes, &[]);
        assert!(listener.accept(Duration::ZERO).unwrap().is_none());
        let told = raw.reason();
        assert!(told.contains(reason), "{told}");
        assert_eq!((listener.refused(), listener.last_refusal()), (i as u64 + 1, Some(&*told)));
    }
    // Those who say nothing hold nobody up, and are not kept for ever.
    let silent: Vec<Raw> = (0..12).map(|_| Raw::connect(listener.path())).collect();
    let (mut worker, mut pane) = pair(&mut listener, &window, "honest", size(8, 8));
    assert_eq!(show_number(&mut worker, 1, size(8, 8)).unwrap(), Shown::Shown);
    assert_eq!(number_of(&pane.try_take().unwrap()), 1);
    assert!(silent[0].reason().contains("say nothing"));
    drop(listener);
    assert!(silent[11].hear().0.is_empty(), "hung up");
}

#[test]
fn random_messages_end_their_own_pane_alone() {
    let window = window_name("random");
    let mut listener = Listener::bind(&window).unwrap();
    let at = size(8, 8);
    let (mut worker, mut pane) = pair(&mut listener, &window, "honest", at);
    // What they send along never comes into this process.
    let name = format!("hostile-{}", std::process::id());
    let (_memory, lent) = Mapped::create(&name, 4096).unwrap();
    let ours = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links
            .filter_map(|e| std::fs::read_link(e.path()).ok())
            .filter(|l| l.to_string_lossy().contains(&name))
            .count()
    };
    let mut rng = Rng(1);
    let mut attached = 0;
    for round in 1..=2000 {
        let raw = Raw::connect(listener.path());
        let descriptors = vec![lent.as_fd(); rng.below(20)];
        raw.say(&if rng.one_in(2) { hello("hostile") } else { damaged(&mut rng) }, &descriptors);
        if let Some(mut hostile) = listener.accept(Duration::ZERO).unwrap() {
            attached += 1;
            for _ in 0..rng.below(4) {
                raw.say(&damaged(&mut rng), &descriptors);
                hostile.poll_alive();
                assert!(hostile.try_take().is_none());
            }
            drop(raw);
            for _ in 0..10 {
                hostile.poll_alive();
            }
            assert!(hostile.ended().is_some());
        }
        assert_eq!(ours(), 1);
        assert_eq!(show_number(&mut worker, round, at).unwrap(), Shown::Shown);
        assert!(pane.poll_alive());
        assert_eq!(number_of(&pane.try_take().unwrap()), round);
    }
    assert!(attached > 900 && listener.refused() > 100, "{attached} {}", listener.refused());
}

/// A slot that looks like a complete frame, as the page lays it out, with something wrong in it more often than not.
fn scribble(rng: &mut Rng, page: &[AtomicU64], number: u64) {
    let first = 32 + 32 * rng.below(8);
    let words = [
        number << 2 | 1,
        (rng.below(80) as u64) << 32 | rng.below(40) as u64,
        256 << 32 | rng.below(70) as u64,
        rng.next(),
        rng.next(),
        rng.next(),
        0,
        0,
        number,
    ];
    for (field, word) in words.into_iter().enumerate() {
        page[first + field].store(word, Relaxed);
    }
    for name in &page[first + 16..first + 24] {
        name.store(u64::from_ne_bytes(*b"a name, "), Relaxed);
    }
    for _ in 0..rng.below(3) {
        let at = if rng.one_in(4) { rng.below(page.len()) } else { first + rng.below(24) };
        let small = rng.below(1000) as u64;
        let value = [rng.next(), small, small << 2 | 1, small << 32, u64::MAX, 0][rng.below(6)];
        page[at].store(value, Relaxed);
    }
}

#[test]
fn pages_of_random_words_give_only_frames_that_fit() {
    let mut rng = Rng(2);
    let mut found = [0; 3];
    for _ in 0..20_000 {
        let page: Vec<AtomicU64> = (0..PAGE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let slots = 2 + rng.below(7);
        let mut last = 0;
        for _ in 0..8 {
            let number = rng.below(1000) as u64;
            scribble(&mut rng, &page, number);
            let held = rng.next() as u32;
            match page::take(&page[..], slots, 8192, last, held) {
                Look::Nothing => found[0] += 1,
                Look::Spoiled { number } => {
                    assert!(number > last);
                    last = number;
                    found[1] += 1;
                }
                Look::Frame { slot, number, about } => {
                    assert!(slot < slots && held & 1 << slot == 0 && number > last);
                    assert!(about.size.width * 4 <= about.pitch && about.pitch * about.size.height <= 8192);
                    assert!(about.source.get().is_some_and(|name| name.len() <= 64));
                    assert!(page::release(&page[..], slot, number));
                    last = number;
                    found[2] += 1;
                }
            }
            if let Some(acquired) = page::acquire(&page[..], slots, rng.next() >> 2) {
                assert!(acquired.slot < slots);
            }
        }
    }
    assert!(found.iter().all(|&n| n > 1000), "{found:?}");
}

#[test]
fn a_worker_that_scribbles_over_its_memory_spoils_its_own_pane() {
    let window = window_name("scribble");
    let mut listener = Listener::bind(&window).unwrap();
    let at = size(8, 8);
    let (mut worker, mut honest) = pair(&mut listener, &window, "honest", at);
    let raw = Raw::connect(listener.path());
    raw.say(&hello("hostile"), &[]);
    let mut hostile = accept(&mut listener);
    let (_, descriptors) = raw.hear();
    let maps: Vec<Mapped> = descriptors.iter().map(|d| Mapped::open(d, 4096).unwrap()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scribbler = scope.spawn(|| {
            let mut rng = Rng(3);
            let mut number = 0;
            while !stop.load(Relaxed) {
                number += 1;
                scribble(&mut rng, maps[0].words(), number);
                number += 1;
                // Now and then a frame as it should be, so that there is something to take.
                let about = About {
                    size: size(4, 4),
                    pitch: 256,
                    index: number,
                    pts: None,
                    captured: rng.next(),
                    source: SourceName::cut("hostile"),
                };
                if let Some(acquired) = page::acquire(maps[0].words(), 3, number) {
                    page::publish(maps[0].words(), acquired.slot, number, &about);
                    page::raise(maps[0].words(), acquired.slot, number);
                }
                maps[1 + rng.below(3)].words()[rng.below(512)].store(rng.next(), Relaxed);
            }
        });
        let mut rng = Rng(4);
        let mut held = Vec::new();
        let mut taken = 0;
        let until = Instant::now() + LIMIT;
        for round in 1.. {
            let counts = hostile.counts();
            if round > 20_000 && taken > 1000 && counts.spoiled > 1000 {
                break;
            }
            assert!(Instant::now() < until, "{counts:?}");
            if let Some(frame) = hostile.try_take() {
                taken += 1;
                let mut out = vec![0; frame.pitch() * frame.size().height];
                frame.copy_to(&mut out).unwrap();
                assert!(out.len() <= 4096 && frame.meta().captured <= Instant::now());
                held.push(frame);
            }
            if held.len() > rng.below(3) {
                held.remove(0);
            }
            assert!(hostile.poll_alive());
            if round % 100 == 0 {
                assert_eq!(show_number(&mut worker, round, at).unwrap(), Shown::Shown);
                assert_eq!(number_of(&honest.try_take().unwrap()), round);
            }
        }
        stop.store(true, Relaxed);
        scribbler.join().unwrap();
        assert_eq!(hostile.counts().taken, taken);
    });
    assert_eq!(honest.counts().spoiled, 0);
}

/// What a worker makes of a window that answers its hello so.
fn answered(bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> framelane::Error {
    let window = window_name("answers");
    // For the folder.
    let path = Listener::bind(&window).unwrap().path().to_owned();
    let socket = Raw::socket();
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    listen(&socket, 4).unwrap();
    let error = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let options = WorkerOptions { patience: LIMIT, ..WorkerOptions::for_size(size(8, 8)) };
            Worker::attach(&window, "pane", options).unwrap_err()
        });
        let peer = Raw(accept_with(&socket, SocketFlags::CLOEXEC).unwrap());
        assert_eq!(peer.hear().0.len(), 44);
        if !bytes.is_empty() {
            peer.say(bytes, descriptors);
            let error = worker.join().unwrap();
            drop(peer);
            return error;
        }
        drop(peer);
        worker.join().unwrap()
    });
    std::fs::remove_file(&path).unwrap();
    error
}

#[test]
fn windows_that_make_no_sense_are_told_from_good_ones() {
    let make = |bytes| Mapped::create("test", bytes).unwrap().1;
    let (page, slot) = (make(4096), make(4096));
    let (large, null) = (make(8192), OwnedFd::from(std::fs::File::open("/dev/null").unwrap()));
    let file = OwnedFd::from(tempfile());
    let given = |slots, allocated| Message::Memory { slots, slot_bytes: 4096, allocated, way: "none" };
    let memory = given(3, None).to_bytes();
    let (page, slot) = (page.as_fd(), slot.as_fd());
    for (name, descriptors) in [
        ("none", vec![]),
        ("too few", vec![page, slot, slot]),
        ("too many", vec![page, slot, slot, slot, slot]),
        ("far too many", vec![slot; 12]),
        ("a page of another size", vec![large.as_fd(), slot, slot, slot]),
        ("a slot of another size", vec![page, slot, large.as_fd(), slot]),
        ("a device", vec![page, slot, slot, null.as_fd()]),
        ("a file that could shrink", vec![file.as_fd(), slot, slot, slot]),
    ] {
        let error = answered(&memory, &descriptors);
        assert_eq!(error.kind(), ErrorKind::Input, "{name}: {error}");
        assert!(error.to_string().contains("use one release on both sides"), "{error}");
    }
    let error = answered(&given(3, Some(8192)).to_bytes(), &[page, slot, slot, slot]);
    assert!(error.to_string().contains("other slots than were asked for"), "{error}");
    for bytes in [given(5, None).to_bytes(), hello("pane"), vec![0; MAX_BYTES + 1], b"flsh".to_vec()] {
        assert_eq!(answered(&bytes, &[]).kind(), ErrorKind::Input);
    }
    let refused = answered(&Message::Refused { reason: "not today" }.to_bytes(), &[]);
    assert_eq!(refused.kind(), ErrorKind::Budget);
    assert!(refused.to_string().ends_with("does not take the pane \"pane\": not today"), "{refused}");
    assert_eq!(answered(&[], &[]).kind(), ErrorKind::Closed);
}

/// A file of 4096 bytes that has no name.
fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(window_name("file"));
    let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file.set_len(4096).unwrap();
    file
}
