//! What the tests of the feed and the lanes share: batches whose content follows from their number, sources
//! that can be told to misbehave, gates, and ways to count threads.
#![allow(dead_code, reason = "each test binary uses its own part")]

#[path = "../../../../testing/device.rs"]
mod test_device;
pub use test_device::*;

use framelane::device::{Access, Buffer, Device, Event, Kernel, Memory, Stream};
use framelane::feed::{Options, SlotWriter, Source};
use framelane::frame::FrameMeta;
use framelane::ring::Policy;
use framelane::tensor::{DType, HostArray, TensorSpec, Tree};
use framelane::{Batch, Error, ErrorKind, Result, View};
use framelane_cuda::Place;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// SplitMix64: small, seeded, good enough to pick what happens next.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The same sum on every device.
pub fn checksum(bytes: &[u8]) -> u64 {
    framelane_cuda::kernels::twin::checksum(bytes)
}

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Bytes of tensor `tensor` of batch `number`.
pub fn content(number: u64, tensor: usize, len: usize) -> Vec<u8> {
    let mut rng = Rng(number.wrapping_mul(1009).wrapping_add(tensor as u64));
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The specs of batch `number`, and how they nest: ragged, nested, sometimes empty, strange in its size.
pub fn ragged(number: u64) -> (Tree<usize>, Vec<TensorSpec>) {
    let mut rng = Rng(number ^ 0xABCD);
    let rows = rng.below(5);
    let image = TensorSpec::new(DType::U8, [rows, 1 + rng.below(70)]);
    let labels = TensorSpec::new(DType::F32, [1 + rng.below(3)]);
    match number % 4 {
        0 => (Tree::Map(vec![("image".into(), Tree::Leaf(0))]), vec![image]),
        1 => (Tree::Tuple(vec![Tree::Leaf(0), Tree::None, Tree::Leaf(1)]), vec![image, labels]),
        2 => (
            Tree::Map(vec![
                ("image".into(), Tree::Leaf(0)),
                ("meta".into(), Tree::List(vec![Tree::Leaf(1), Tree::Leaf(2)])),
            ]),
            vec![image, labels, TensorSpec::new(DType::F64, [0, 3])],
        ),
        _ => (Tree::Leaf(0), vec![TensorSpec::new(DType::U16, [rng.below(300)])]),
    }
}

/// Checksums of the tensors of batch `number`.
pub fn ragged_checksums(number: u64) -> Vec<u64> {
    ragged(number).1.iter().enumerate().map(|(t, spec)| checksum(&content(number, t, spec.bytes()))).collect()
}

/// Write the ragged batch `number`.
pub fn put_ragged(number: u64, slot: &mut SlotWriter<'_>) -> Result<()> {
    let (tree, specs) = ragged(number);
    let bytes: Vec<Vec<u8>> =
        specs.iter().enumerate().map(|(t, spec)| content(number, t, spec.bytes())).collect();
    let arrays: Vec<HostArray<'_>> =
        specs.iter().zip(&bytes).map(|(s, b)| HostArray::new(s.clone(), b)).collect::<Result<_>>()?;
    slot.put(&tree.map(&mut |&leaf| arrays[leaf].clone()))?;
    slot.set_meta(FrameMeta::new("numbers", number));
    Ok(())
}

/// What a [`Numbers`] source does instead of batch `at`.
#[derive(Clone)]
pub enum Twist {
    None,
    Fail(u64),
    Panic(u64),
    /// Blocks at this batch until the gate opens.
    Block(u64, Arc<Gate>),
}

/// Batches 0, 1, 2, …, each with content that follows from its number.
pub struct Numbers {
    pub count: u64,
    pub next: u64,
    /// Added to each number before content is made of it.
    pub salt: u64,
    pub twist: Twist,
    /// Time to spend on each batch, as the source's own work.
    pub work: Duration,
    /// Whether the batches are ragged, or all one `[bytes]` u8 tensor called `"data"`.
    pub even: Option<usize>,
    pub interruptible: bool,
}

impl Numbers {
    pub fn new(count: u64) -> Self {
        Self {
            count,
            next: 0,
            salt: 0,
            twist: Twist::None,
            work: Duration::ZERO,
            even: None,
            interruptible: false,
        }
    }

    pub fn even(count: u64, bytes: usize) -> Self {
        Self { even: Some(bytes), ..Self::new(count) }
    }

    pub fn twist(self, twist: Twist) -> Self {
        Self { twist, ..self }
    }

    pub fn work(self, work: Duration) -> Self {
        Self { work, ..self }
    }
}

impl Source for Numbers {
    fn name(&self) -> &str {
        "numbers"
    }

    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        match &self.twist {
            Twist::Fail(at) if *at == self.next => {
                return Err(Error::new(ErrorKind::Input, format!("batch {at} is damaged")));
            }
            Twist::Panic(at) if *at == self.next => panic!("batch {at} is cursed"),
            Twist::Block(at, gate) if *at == self.next => {
                gate.pass();
                return Ok(false);
            }
            _ => {}
        }
        if self.next == self.count {
            return Ok(false);
        }
        std::thread::sleep(self.work);
        match self.even {
            None => put_ragged(self.next + self.salt, slot)?,
            Some(bytes) => {
                let to = slot.tensor("data", &TensorSpec::new(DType::U8, [bytes]))?;
                to.copy_from_slice(&content(self.next, 0, bytes));
            }
        }
        slot.set_meta(FrameMeta::new("numbers", self.next));
        self.next += 1;
        Ok(true)
    }

    fn rewind(&mut self) -> Result<bool> {
        self.next = 0;
        Ok(true)
    }

    fn interrupter(&self) -> Option<framelane::feed::Interrupter> {
        match &self.twist {
            Twist::Block(_, gate) if self.interruptible => {
                let gate = gate.clone();
                Some(Arc::new(move || gate.open()))
            }
            _ => None,
        }
    }
}

pub fn options(name: &str, depth: usize) -> Options {
    Options { depth, ..Options::new(name) }
}

pub fn latest(name: &str, depth: usize) -> Options {
    Options { policy: Policy::Latest, ..options(name, depth) }
}

/// Shut at first; once opened, open for ever.
#[derive(Default)]
pub struct Gate {
    /// Whether it is open, and how many ever came to it.
    state: Mutex<(bool, usize)>,
    wake: Condvar,
    /// What streams of CUDA wait for instead.
    flags: Mutex<Vec<framelane_cuda::Flag>>,
}

impl Gate {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn open(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 = true;
        self.flags.lock().unwrap().drain(..).for_each(|flag| flag.raise(1));
        drop(state);
        self.wake.notify_all();
    }

    fn hold_cuda(&self, stream: &framelane_cuda::Stream) -> framelane_cuda::Result<()> {
        let state = self.state.lock().unwrap();
        if !state.0 {
            let flag = framelane_cuda::Flag::new(stream.context())?;
            stream.wait_for_flag(&flag, 1)?;
            self.flags.lock().unwrap().push(flag);
        }
        Ok(())
    }

    pub fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.wake.notify_all();
        while !state.0 {
            state = self.wake.wait(state).unwrap();
        }
    }

    /// Wait until somebody has come to it.
    pub fn await_comer(&self) {
        let guard = self.state.lock().unwrap();
        let (state, _) = self.wake.wait_timeout_while(guard, ms(10_000), |(_, came)| *came == 0).unwrap();
        assert!(state.1 > 0, "nobody came to the gate");
    }

    /// Whether it opened within `limit`.
    pub fn pass_for(&self, limit: Duration) -> bool {
        let guard = self.state.lock().unwrap();
        self.wake.wait_timeout_while(guard, limit, |(open, _)| !*open).unwrap().0.0
    }
}

/// Opens its gate when it goes, however a test ends.
pub struct Opener(pub Arc<Gate>);

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// What checking kernels found: how many ran, and each wrong tensor.
#[derive(Clone, Default)]
pub struct Findings {
    state: Arc<Mutex<(u64, Vec<String>)>>,
    cuda: Arc<Mutex<CudaSums>>,
}

/// Checksums that CUDA makes, to be compared once somebody asks.
#[derive(Default)]
struct CudaSums {
    /// Room for sums, and for how many it has been used.
    room: Option<(Buffer, usize)>,
    /// A check: its place, its event, what must be there and what it is called.
    pending: Vec<(usize, Event, Vec<u64>, String)>,
}

const ROOM: usize = 1 << 20;

impl Findings {
    pub fn checks(&self) -> u64 {
        self.settle();
        self.state.lock().unwrap().0
    }

    pub fn wrong(&self) -> Vec<String> {
        self.settle();
        self.state.lock().unwrap().1.clone()
    }

    pub fn assert_none(&self) {
        let wrong = self.wrong();
        assert!(wrong.is_empty(), "{} wrong checksums, the first: {}", wrong.len(), wrong[0]);
    }

    fn note(&self, ok: bool, what: impl FnOnce() -> String) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        if !ok {
            state.1.push(what());
        }
    }

    /// Enqueue on `stream` a kernel that compares `batch` with what ragged batch `number` must hold.
    pub fn check_ragged(&self, batch: &Batch, stream: &Stream, number: u64) -> Result<()> {
        self.check(batch, stream, number, ragged_checksums(number))
    }

    /// Enqueue on `stream` a kernel that compares the checksums of all tensors.
    pub fn check(&self, batch: &Batch, stream: &Stream, number: u64, expected: Vec<u64>) -> Result<()> {
        self.enqueue(batch.on(stream)?, stream, number, expected)
    }

    /// As [`Findings::check_ragged`] on the second stream, which is not named: its accesses are had by naming the
    /// first. The caller sees to the order.
    pub fn check_unnamed(&self, batch: &Batch, streams: &[Stream; 2], number: u64) -> Result<()> {
        self.enqueue(batch.on(&streams[0])?, &streams[1], number, ragged_checksums(number))
    }

    fn enqueue(&self, view: View<'_>, stream: &Stream, number: u64, expected: Vec<u64>) -> Result<()> {
        let accesses: Vec<_> = view.tensors().map(|t| t.access()).collect();
        assert_eq!(accesses.len(), expected.len(), "batch {number} has all its tensors");
        let what = format!("batch {number} on {}", stream.name());
        if stream.cuda().is_some() {
            return self.check_on_cuda(stream, accesses, expected, what);
        }
        let this = self.clone();
        stream.launch("checksum", &accesses, move |kernel: &mut Kernel<'_>| {
            let found: Vec<u64> = kernel.inputs.iter().map(|bytes| checksum(bytes)).collect();
            this.note(found == expected, || what);
            Ok(())
        })
    }

    fn check_on_cuda(
        &self,
        stream: &Stream,
        tensors: Vec<Access<'_>>,
        expected: Vec<u64>,
        what: String,
    ) -> Result<()> {
        let mut cuda = self.cuda.lock().unwrap();
        if cuda.room.is_none() {
            cuda.room = Some((stream.device().alloc(ROOM * 8, Memory::Device)?, 0));
        }
        let (sums, used) = cuda.room.as_mut().unwrap();
        let (sums, first) = (sums.clone(), *used);
        *used += expected.len();
        assert!(*used <= ROOM, "a test makes more checks than there is room for");
        let mut accesses = tensors;
        accesses.push(Access::write(&sums, first * 8..*used * 8));
        stream.launch_on_cuda("checksum", &accesses, |stream, places| {
            let Some(((Place::Device(sums), at), tensors)) = places.split_last() else { return Ok(()) };
            tensors.iter().enumerate().try_for_each(|(n, (place, range))| match place {
                Place::Device(data) => stream.checksum(data, range.clone(), sums, at.start + 8 * n),
                Place::Pinned(_) => unreachable!("batches are in device memory"),
            })
        })?;
        cuda.pending.push((first, stream.record()?, expected, what));
        Ok(())
    }

    /// Compare what CUDA has summed up.
    fn settle(&self) {
        let mut cuda = self.cuda.lock().unwrap();
        let pending = std::mem::take(&mut cuda.pending);
        let Some((sums, used)) = cuda.room.as_ref().filter(|_| !pending.is_empty()) else { return };
        let stream = sums.device().stream("settle").unwrap();
        for (_, made, ..) in &pending {
            stream.wait(made).unwrap();
        }
        let host = sums.device().alloc(used * 8, Memory::Pinned).unwrap();
        stream.copy(sums, 0..used * 8, &host, 0).unwrap();
        stream.synchronize("test").unwrap();
        let found = host.read_host().unwrap();
        for (first, _, expected, what) in pending {
            let bytes = &found[first * 8..(first + expected.len()) * 8];
            let found = bytes.chunks(8).map(|sum| u64::from_le_bytes(sum.try_into().unwrap()));
            self.note(found.eq(expected), || what);
        }
    }
}

/// A kernel that does nothing for `time`.
pub fn delay(stream: &Stream, time: Duration) -> Result<()> {
    if stream.cuda().is_some() {
        return stream.launch_on_cuda("delay", &[], |stream, _| stream.spin(time));
    }
    stream.launch("delay", &[], move |_| {
        std::thread::sleep(time);
        Ok(())
    })
}

/// A kernel that holds its stream up until the gate opens.
pub fn hold(stream: &Stream, gate: &Arc<Gate>) -> Result<()> {
    if stream.cuda().is_some() {
        return stream.launch_on_cuda("hold", &[], |stream, _| gate.hold_cuda(stream));
    }
    let gate = gate.clone();
    stream.launch("hold", &[], move |_| {
        gate.pass();
        Ok(())
    })
}

/// Ask again until it is so; `false` if it was not within `limit`.
pub fn eventually(limit: Duration, mut so: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if so() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Run `f` on a thread of its own; a panic that says `what` if it is not done within `limit`.
pub fn within<R: Send + 'static>(limit: Duration, what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = send.send(f());
    });
    match receive.recv_timeout(limit) {
        Ok(result) => {
            thread.join().unwrap();
            result
        }
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("{what} took longer than {limit:?}"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

/// Threads of this process whose name begins with `tag` (the first 15 bytes of a name count), or all of
/// them for `""`. `None` where the system does not say.
pub fn threads_named(tag: &str) -> Option<usize> {
    let mut count = 0;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread may end between the listing and the reading.
        let Ok(name) = std::fs::read_to_string(task.ok()?.path().join("comm")) else { continue };
        count += usize::from(name.trim_end().starts_with(&tag[..tag.len().min(15)]));
    }
    Some(count)
}

/// `few` steps, or as many as the cases ask for where kernels do the waiting.
pub fn steps(few: u64) -> u64 {
    if on_cuda() { 10_000 } else { few }
}

/// Pinned and device bytes, and streams alive.
pub fn held(device: &Device) -> (u64, u64, u64) {
    let c = device.counters();
    (c.pinned_bytes, c.device_bytes, c.streams)
}

/// Take all batches, by number, until the end or the error.
pub fn drain(feeder: &framelane::feed::Feeder) -> (Vec<u64>, Option<Error>) {
    let mut numbers = Vec::new();
    for batch in feeder {
        match batch {
            Ok(batch) => numbers.push(batch.meta().unwrap().index),
            Err(error) => return (numbers, Some(error)),
        }
    }
    (numbers, None)
}

/// All tensors of a batch, copied back to the host.
pub fn read_back(device: &Device, batch: &Batch) -> Vec<Vec<u8>> {
    let stream = device.stream("read back").unwrap();
    let view = batch.on(&stream).unwrap();
    let buffers: Vec<_> = view
        .tensors()
        .map(|t| {
            let to = device.alloc(t.spec().bytes(), Memory::Pinned).unwrap();
            t.copy_to(&stream, &to).unwrap();
            to
        })
        .collect();
    stream.synchronize("test").unwrap();
    buffers.iter().map(|b| b.read_host().unwrap().to_vec()).collect()
}
