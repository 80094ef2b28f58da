//! Fenced data: several tensors in one device slot, leased, and read through the streams that are named.
//! Feed and lanes give these, lanes and displays take them, and none of them knows the others.

use crate::device::{Access, Buffer, Event, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::feed::Meter;
use crate::frame::FrameMeta;
use crate::ring::ReadLease;
use crate::slots::Slot;
use crate::tensor::{TensorSpec, Tree};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Tensors begin at multiples of this many bytes in their slot: enough for any vector load, and what CUDA
/// guarantees for its own allocations.
pub const ALIGNMENT: usize = 256;

/// What one slot holds: the tensors, where they lie in it, and how they nest.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Specs and byte ranges, in the order they were written. Always contiguous.
    pub tensors: Vec<(TensorSpec, Range<usize>)>,
    /// The nesting; leaves index [`Contents::tensors`].
    pub tree: Tree<usize>,
    /// Identity, if the batch is a frame.
    pub meta: Option<FrameMeta>,
    /// Time that the source spent converting (not decoding or waiting), for the report.
    pub convert: Duration,
}

impl Default for Contents {
    fn default() -> Self {
        Self { tensors: Vec::new(), tree: Tree::None, meta: None, convert: Duration::ZERO }
    }
}

impl Contents {
    /// Tensors of these specs, packed one after the other: a list, whose paths are `"0"`, `"1"`, ….
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if they have more bytes than can be counted.
    pub fn packed(specs: &[TensorSpec]) -> Result<Self> {
        let mut contents = Self::default();
        for spec in specs {
            contents.add(spec)?;
        }
        contents.tree = Tree::List((0..specs.len()).map(Tree::Leaf).collect());
        Ok(contents)
    }

    /// Add a tensor after the others; its number. The tree does not know it yet.
    pub(crate) fn add(&mut self, spec: &TensorSpec) -> Result<usize> {
        // A damaged header may ask for any shape: `TensorSpec::bytes` would overflow.
        let elements = match spec.shape().contains(&0) {
            true => Some(0),
            false => spec.shape().iter().try_fold(1_usize, |n, &extent| n.checked_mul(extent)),
        };
        let range = elements
            .and_then(|n| n.checked_mul(spec.dtype().size()))
            .and_then(|bytes| {
                let start = self.bytes().checked_next_multiple_of(ALIGNMENT)?;
                Some(start..start.checked_add(bytes)?)
            })
            .filter(|range| isize::try_from(range.end).is_ok())
            .ok_or_else(|| {
                Error::new(ErrorKind::Argument, format!("a tensor {spec} has more bytes than there can be"))
            })?;
        self.tensors.push((TensorSpec::new(spec.dtype(), spec.shape()), range));
        Ok(self.tensors.len() - 1)
    }

    /// The tree with what its leaves are, to be printed.
    fn shown(&self) -> Tree<&TensorSpec> {
        self.tree.map(&mut |&leaf| &self.tensors[leaf].0)
    }

    /// Bytes from the start of the slot to the end of the last tensor.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().map(|(_, r)| r.end).max().unwrap_or(0)
    }
}

/// What travels with a device slot.
pub(crate) struct Filled {
    pub contents: Contents,
    pub buffer: Buffer,
    pub index: u64,
}

/// One batch on the device, held until this is dropped: for as long as a backward pass needs it.
///
/// The slot is not written again before every stream that was named with [`Batch::on`] has passed the point
/// it had reached when the batch was dropped, and every job of [`crate::lanes`] that was given the batch is done.
///
/// Work on the tensors can only be enqueued while the batch is held; this does not compile:
/// ```compile_fail,E0505
/// # use framelane::{Batch, device::Stream, Result};
/// # fn f(batch: Batch, stream: &Stream) -> Result<()> {
/// let view = batch.on(stream)?;
/// let image = view.tensor("image")?;
/// drop(batch);
/// stream.launch("too late", &[image.access()], |_| Ok(()))
/// # }
/// ```
pub struct Batch {
    lease: ReadLease<Slot, Event, Filled>,
    readers: Mutex<Readers>,
    /// Adds up what the readers' streams waited and worked, for batches of a feed.
    meter: Option<Arc<Meter>>,
}

/// Ends of readings that are kept before those that are over are looked for.
const PRUNE_AT: usize = 8;

/// Who must be done before the slot is written again.
#[derive(Default)]
struct Readers {
    /// Read until the batch is dropped: whoever enqueues says nothing when it has enqueued the last.
    streams: Vec<Reader>,
    /// Where reading by those who do say so ends. What else their streams are given does not hold the slot.
    until: Vec<Event>,
}

/// A stream that reads a batch until its drop.
struct Reader {
    stream: Stream,
    waited: Waited,
}

/// Before and after a stream's wait for a batch, if that is to be measured.
pub(crate) type Waited = Option<(Event, Event)>;

/// What one stream did with a batch, by its own events.
pub(crate) struct Reading {
    /// Its work before the batch was done.
    pub asked: Event,
    /// The batch was there as well.
    pub there: Event,
    /// Its work on the batch was done.
    pub end: Event,
}

impl Batch {
    pub(crate) fn new(lease: ReadLease<Slot, Event, Filled>, meter: Option<Arc<Meter>>) -> Self {
        Self { lease, readers: Mutex::default(), meter }
    }

    /// Number of its slot in the ring: below the depth (or the number that it may grow to). Its address is the
    /// same for each batch in that slot as long as the slot need not grow ([`crate::feed::Options::slot_bytes`]).
    pub fn slot(&self) -> usize {
        self.lease.index()
    }

    /// Number of the batch in its feed (or of the job in its lanes), from 0.
    pub fn index(&self) -> u64 {
        self.lease.meta().index
    }

    /// Which frame it is, if the source said so.
    pub fn meta(&self) -> Option<&FrameMeta> {
        self.lease.meta().contents.meta.as_ref()
    }

    /// The nesting; leaves number the tensors of [`Batch::specs`].
    pub fn tree(&self) -> &Tree<usize> {
        &self.lease.meta().contents.tree
    }

    /// Shapes and element types of all tensors, in the order they were written. All contiguous.
    pub fn specs(&self) -> impl ExactSizeIterator<Item = &TensorSpec> {
        self.lease.meta().contents.tensors.iter().map(|(spec, _)| spec)
    }

    /// Where each tensor lies on a CUDA device ([`TensorView::cuda_address`]), in the order of [`Batch::specs`]; none on other
    /// devices. Whoever has something read there names its stream first ([`Batch::on`]).
    pub fn cuda_addresses(&self) -> impl ExactSizeIterator<Item = Option<u64>> {
        let filled = self.lease.meta();
        let start = filled.buffer.cuda_address();
        filled.contents.tensors.iter().map(move |(_, range)| Some(start? + range.start as u64))
    }

    /// When the tensors are there: the copy is done, or the network.
    pub fn ready(&self) -> &Event {
        self.lease.ready()
    }

    /// Read the batch on `stream`: work enqueued on it from now on waits until the tensors are there. The CPU does not.
    ///
    /// The slot stays untouched until this stream is done with what it will have been given by the time the
    /// batch is dropped. Several streams may be named, each as often as convenient.
    ///
    /// # Errors
    /// An earlier failure of the stream; [`ErrorKind::Argument`] if it belongs to another device.
    pub fn on(&self, stream: &Stream) -> Result<View<'_>> {
        let mut readers = self.readers();
        if !readers.streams.iter().any(|r| r.stream.same(stream)) {
            let waited = self.wait_on(stream)?;
            readers.streams.push(Reader { stream: stream.clone(), waited });
        }
        Ok(View { filled: self.lease.meta() })
    }

    fn wait_on(&self, stream: &Stream) -> Result<Waited> {
        let asked = self.meter.as_ref().map(|_| stream.record_timed()).transpose()?;
        stream.wait(self.lease.ready())?;
        Ok(asked.map(|asked| (asked, stream.record_timed_anyway())))
    }

    /// As [`Batch::on`], for a reader that says itself when it has enqueued all: until it has called
    /// [`Batch::read_until`], nothing keeps the slot once the batch is dropped.
    pub(crate) fn peek(&self, stream: &Stream) -> Result<(View<'_>, Waited)> {
        Ok((View { filled: self.lease.meta() }, self.wait_on(stream)?))
    }

    /// What `stream` was given after [`Batch::peek`] ends here: the event of it. `lanes` such streams share the
    /// batches.
    pub(crate) fn read_until(&self, stream: &Stream, waited: Waited, lanes: usize) -> Event {
        let end = match &waited {
            Some(_) => stream.record_timed_anyway(),
            None => stream.record_anyway(),
        };
        if let (Some(meter), Some((asked, there))) = (&self.meter, waited) {
            meter.read(self.index(), vec![Reading { asked, there, end: end.clone() }], lanes);
        }
        let mut readers = self.readers();
        // Of a batch that is kept and read again and again, only what goes on.
        if readers.until.len() >= PRUNE_AT {
            readers.until.retain(|earlier| !earlier.query());
        }
        readers.until.push(end.clone());
        end
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Give the slot back once `stream` has done what is enqueued on it now: for work that was enqueued by
    /// other means than a [`View`].
    ///
    /// # Errors
    /// As [`Batch::on`].
    pub fn release_on(self, stream: &Stream) -> Result<()> {
        self.on(stream).map(|_| ())
    }

    /// Say who holds the batch, for the message that a held-back feed gives.
    pub fn set_holder(&self, name: impl Into<Arc<str>>) {
        self.lease.set_holder(name);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let readers = std::mem::take(self.readers.get_mut().unwrap_or_else(|e| e.into_inner()));
        readers.until.into_iter().for_each(|event| self.lease.add_fence(event));
        // One fresh event per stream: an event recorded again would forget the other stream.
        let mut readings = Vec::new();
        for Reader { stream, waited } in readers.streams {
            let Some((asked, there)) = waited else {
                self.lease.add_fence(stream.record_anyway());
                continue;
            };
            let end = stream.record_timed_anyway();
            self.lease.add_fence(end.clone());
            readings.push(Reading { asked, there, end });
        }
        if let (Some(meter), false) = (&self.meter, readings.is_empty()) {
            meter.read(self.index(), readings, 1);
        }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("index", &self.index())
            .field("tensors", &format_args!("{}", self.lease.meta().contents.shown()))
            .finish_non_exhaustive()
    }
}

/// A batch as one stream may read it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    filled: &'a Filled,
}

impl<'a> View<'a> {
    /// The tensor at a dotted path: names in maps, numbers in lists and tuples (`"image"`, `"obs.left.0"`).
    ///
    /// # Errors
    /// [`ErrorKind::Argument`], listing what there is.
    pub fn tensor(&self, path: &str) -> Result<TensorView<'a>> {
        match self.filled.contents.tree.get(path) {
            Some(Tree::Leaf(index)) => Ok(self.at(*index)),
            _ => Err(Error::new(
                ErrorKind::Argument,
                format!("the batch has no tensor {path:?}; it holds {}", self.filled.contents.shown()),
            )),
        }
    }

    /// All tensors, in the order they were written.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorView<'a>> + use<'a> {
        let view = *self;
        (0..self.filled.contents.tensors.len()).map(move |index| view.at(index))
    }

    fn at(&self, index: usize) -> TensorView<'a> {
        let (spec, range) = &self.filled.contents.tensors[index];
        TensorView { spec, buffer: &self.filled.buffer, range: range.clone() }
    }
}

/// One tensor on the device: of a batch, and then contiguous, or in memory of yours.
#[derive(Clone, Debug)]
pub struct TensorView<'a> {
    spec: &'a TensorSpec,
    buffer: &'a Buffer,
    range: Range<usize>,
}

impl<'a> TensorView<'a> {
    /// A tensor that begins at byte `at` of a buffer; it may be strided. Work on it is ordered by the streams that it
    /// is enqueued on: there is no lease.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if it does not lie in the buffer.
    pub fn new(buffer: &'a Buffer, at: usize, spec: &'a TensorSpec) -> Result<Self> {
        let end = at.checked_add(spec.span_bytes()).filter(|&end| end <= buffer.len());
        let Some(end) = end else {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "{spec} spans {} bytes, which are not there after byte {at} of {buffer:?}",
                    spec.span_bytes()
                ),
            ));
        };
        Ok(Self { spec, buffer, range: at..end })
    }

    /// Shape and element type.
    pub fn spec(&self) -> &'a TensorSpec {
        self.spec
    }

    /// The memory that it lies in.
    pub fn buffer(&self) -> &'a Buffer {
        self.buffer
    }

    /// Which bytes of that memory.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Its address on a CUDA device ([`Buffer::cuda_address`]); none on other devices.
    pub fn cuda_address(&self) -> Option<u64> {
        Some(self.buffer.cuda_address()? + self.range.start as u64)
    }

    /// The access of a kernel that reads the tensor.
    pub fn access(&self) -> Access<'a> {
        Access::read(self.buffer, self.range.clone())
    }

    /// Enqueue a copy of the tensor, with what lies between its elements, to the start of `to`.
    ///
    /// # Errors
    /// As [`Stream::copy`].
    pub fn copy_to(&self, stream: &Stream, to: &Buffer) -> Result<()> {
        stream.copy(self.buffer, self.range.clone(), to, 0)
    }
}
