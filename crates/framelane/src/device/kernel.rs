//! Kernels: a piece of work, the bytes it reads and the bytes it writes.

use super::buffer::{Buffer, ReadGuard, WriteGuard};
use super::hazard::Mode;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a kernel will touch. Borrows the memory until the kernel is enqueued, so that work can no
/// longer be enqueued on memory whose lease has ended.
#[derive(Debug, Clone)]
pub struct Access<'a> {
    pub(super) buffer: &'a Buffer,
    pub(super) range: Range<usize>,
    pub(super) mode: Mode,
}

impl<'a> Access<'a> {
    /// The kernel reads these bytes: [`Kernel::inputs`].
    pub fn read(buffer: &'a Buffer, range: Range<usize>) -> Self {
        Self { buffer, range, mode: Mode::Read }
    }

    /// The kernel writes all of these bytes without reading them: [`Kernel::outputs`]. On the simulated
    /// device they are poisoned first.
    pub fn write(buffer: &'a Buffer, range: Range<usize>) -> Self {
        Self { buffer, range, mode: Mode::Write }
    }

    /// The kernel reads and writes these bytes in place: [`Kernel::outputs`].
    pub fn update(buffer: &'a Buffer, range: Range<usize>) -> Self {
        Self { buffer, range, mode: Mode::Update }
    }
}

/// What a host kernel sees while it runs.
pub struct Kernel<'a> {
    /// Bytes of the [`Access::read`]s, in order.
    pub inputs: Vec<&'a [u8]>,
    /// Bytes of the [`Access::write`]s and [`Access::update`]s, in order.
    pub outputs: Vec<&'a mut [u8]>,
}

pub(super) type Body = Box<dyn FnOnce(&mut Kernel<'_>) -> Result<()> + Send>;

/// A kernel ready to run: accesses checked and grouped by buffer, in the order in which their locks are
/// taken (by buffer id, so that two kernels never wait for each other in a circle).
pub(super) struct Work {
    pub name: Arc<str>,
    groups: Vec<Group>,
    inputs: usize,
    outputs: usize,
    body: Body,
}

struct Group {
    buffer: Buffer,
    writes: bool,
    /// Ranges, none empty, and their positions among the inputs or outputs; sorted and disjoint for writes.
    parts: Vec<(Range<usize>, usize)>,
}

enum Guard {
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Work {
    /// # Errors
    /// [`ErrorKind::Argument`] if a buffer is both read and written (that is an update), or two writes overlap.
    /// (The stream checks that ranges lie inside their buffers.)
    pub fn new(name: &Arc<str>, accesses: &[Access<'_>], body: Body) -> Result<Self> {
        let refuse = |what: &str| Err(Error::new(ErrorKind::Argument, format!("kernel {name:?}: {what}")));
        let (mut inputs, mut outputs) = (0, 0);
        let mut groups: Vec<Group> = Vec::with_capacity(accesses.len());
        for access in accesses {
            let writes = access.mode != Mode::Read;
            let counter = if writes { &mut outputs } else { &mut inputs };
            let part = (access.range.clone(), *counter);
            *counter += 1;
            if access.range.is_empty() {
                continue;
            }
            match groups.iter_mut().find(|g| g.buffer.id() == access.buffer.id()) {
                Some(group) if group.writes != writes => {
                    return refuse("one buffer is both read and written; say `update` for work in place");
                }
                Some(group) => group.parts.push(part),
                None => groups.push(Group { buffer: access.buffer.clone(), writes, parts: vec![part] }),
            }
        }
        for group in groups.iter_mut().filter(|g| g.writes) {
            group.parts.sort_by_key(|(r, _)| r.start);
            if group.parts.windows(2).any(|w| w[0].0.end > w[1].0.start) {
                return refuse("two of its writes overlap");
            }
        }
        groups.sort_by_key(|g| g.buffer.id());
        Ok(Self { name: name.clone(), groups, inputs, outputs, body })
    }

    /// Whether all its memory could be locked now.
    pub fn is_free(&self) -> bool {
        self.groups.iter().all(|g| g.buffer.is_free(g.writes))
    }

    /// Run it, on the thread that plays the device. A panic becomes an error.
    pub fn run(self) -> Result<()> {
        let Self { name, groups, inputs, outputs, body } = self;
        let mut guards: Vec<Guard> = groups
            .iter()
            .map(|g| match g.writes {
                true => Guard::Write(g.buffer.host().write_arc()),
                false => Guard::Read(g.buffer.host().read_arc()),
            })
            .collect();
        let mut ins: Vec<&[u8]> = vec![&[]; inputs];
        let mut outs: Vec<&mut [u8]> = (0..outputs).map(|_| &mut [][..]).collect();
        for (guard, group) in guards.iter_mut().zip(&groups) {
            match guard {
                Guard::Read(data) => {
                    let bytes: &[u8] = bytemuck::cast_slice(data.as_slice());
                    for (range, at) in &group.parts {
                        ins[*at] = &bytes[range.clone()];
                    }
                }
                Guard::Write(data) => {
                    let mut rest: &mut [u8] = bytemuck::cast_slice_mut(data.as_mut_slice());
                    let mut start = 0;
                    for (range, at) in &group.parts {
                        let (_, tail) = rest.split_at_mut(range.start - start);
                        let (part, tail) = tail.split_at_mut(range.len());
                        outs[*at] = part;
                        rest = tail;
                        start = range.end;
                    }
                }
            }
        }
        let mut kernel = Kernel { inputs: ins, outputs: outs };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&mut kernel)))
            .unwrap_or_else(|payload| Err(Error::from_panic(&format!("kernel {name:?}"), payload.as_ref())))
    }
}
