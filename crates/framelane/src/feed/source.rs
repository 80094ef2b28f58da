//! Where batches come from: a [`Source`] writes each one straight into the slot it will travel in.

use super::fill::{self, Fillers};
use crate::batch::Contents;
use crate::error::Result;
use crate::frame::{FrameMeta, ImageSize};
use crate::tensor::{HostArray, TensorSpec, Tree};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Unblocks a [`Source`] that waits inside [`Source::next_into`], from another thread.
pub type Interrupter = Arc<dyn Fn() + Send + Sync>;

/// A place in a source: the next batch to come. Two numbers, to be kept with a training's checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Position {
    /// Rewinds before it.
    pub epoch: u64,
    /// Batches before it in its epoch.
    pub batch: u64,
}

/// Something that yields batches: a decoder, a camera, a data loader.
///
/// Called by one thread at a time, the feed's own. Panics inside are caught and become an error of the
/// feed, after the batches before it.
pub trait Source: Send {
    /// A name for reports and errors (`"clip.mp4"`).
    fn name(&self) -> &str;

    /// Write the next batch into `slot`. `Ok(false)` says that there is none: the end (or the end of the
    /// epoch); what was written to `slot` is then ignored.
    ///
    /// May block for as long as the data takes to come.
    ///
    /// # Errors
    /// After an error the source is not called again, except by [`Source::rewind`].
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool>;

    /// Go back to the first batch, for another epoch. `Ok(false)`: this source cannot (a camera, a pipe).
    ///
    /// # Errors
    /// If going back failed, for example because the file is gone.
    fn rewind(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Go straight to batch `at.batch` of epoch `at.epoch`, before the first [`Source::next_into`]. `Ok(false)`:
    /// this source cannot; the feed then rewinds it `at.epoch` times, and reads and drops `at.batch` batches.
    ///
    /// # Errors
    /// If there is no such place.
    fn seek(&mut self, at: Position) -> Result<bool> {
        let _ = at;
        Ok(false)
    }

    /// A handle that makes a blocked [`Source::next_into`] return soon, if this source can block for long.
    /// It is called once the feed stops, perhaps just before the source begins to wait: from then on no call
    /// may block for long.
    fn interrupter(&self) -> Option<Interrupter> {
        None
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn name(&self) -> &str {
        (**self).name()
    }
    fn next_into(&mut self, slot: &mut SlotWriter<'_>) -> Result<bool> {
        (**self).next_into(slot)
    }
    fn rewind(&mut self) -> Result<bool> {
        (**self).rewind()
    }
    fn seek(&mut self, at: Position) -> Result<bool> {
        (**self).seek(at)
    }
    fn interrupter(&self) -> Option<Interrupter> {
        (**self).interrupter()
    }
}

/// Memory that a batch is packed into: a pinned slot, or a plain vector in tests and tools.
pub trait Arena {
    /// Make sure that `bytes` bytes are there, keeping the first `keep`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Budget`] if the owner's budget does not allow it.
    fn ensure(&mut self, bytes: usize, keep: usize) -> Result<()>;

    /// All of the memory.
    fn bytes_mut(&mut self) -> &mut [u8];
}

impl Arena for Vec<u8> {
    fn ensure(&mut self, bytes: usize, _keep: usize) -> Result<()> {
        if self.len() < bytes {
            self.resize(bytes, 0);
        }
        Ok(())
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// Writes one batch into a slot. Tensors are packed one after the other, aligned to [`crate::ALIGNMENT`].
pub struct SlotWriter<'a> {
    arena: &'a mut dyn Arena,
    contents: &'a mut Contents,
    fillers: Option<&'a Fillers>,
}

impl<'a> SlotWriter<'a> {
    /// Write into `arena`, noting in `contents` (cleared first) what was written.
    pub fn new(arena: &'a mut dyn Arena, contents: &'a mut Contents) -> Self {
        *contents = Contents::default();
        Self { arena, contents, fillers: None }
    }

    /// As [`SlotWriter::new`]; large arrays are packed by several threads.
    pub(super) fn with_fillers(
        arena: &'a mut dyn Arena,
        contents: &'a mut Contents,
        fillers: &'a Fillers,
    ) -> Self {
        Self { fillers: Some(fillers), ..Self::new(arena, contents) }
    }

    /// Room for a tensor called `name`, to be filled by the caller. The bytes are not zeroed: they hold
    /// what an earlier batch left. Strides in `spec` are ignored: the slot is packed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Budget`] if the slot may not grow so far.
    pub fn tensor(&mut self, name: &str, spec: &TensorSpec) -> Result<&mut [u8]> {
        let (index, range) = self.reserve(spec)?;
        if !matches!(self.contents.tree, Tree::Map(_)) {
            self.contents.tree = Tree::Map(Vec::new());
        }
        if let Tree::Map(entries) = &mut self.contents.tree {
            entries.push((name.to_owned(), Tree::Leaf(index)));
        }
        Ok(&mut self.arena.bytes_mut()[range])
    }

    /// Room for one RGB picture (u8, height × width × 3), called `"image"`, with its identity.
    ///
    /// # Errors
    /// As [`SlotWriter::tensor`].
    pub fn image(&mut self, size: ImageSize, meta: FrameMeta) -> Result<&mut [u8]> {
        self.contents.meta = Some(meta);
        self.tensor("image", &size.spec())
    }

    /// Pack a whole nested batch of arrays; it becomes the slot's tree. Megabytes are copied by several threads
    /// ([`super::Options::fill_threads`]).
    ///
    /// # Errors
    /// As [`SlotWriter::tensor`].
    pub fn put(&mut self, batch: &Tree<HostArray<'_>>) -> Result<()> {
        let before = self.contents.tensors.len();
        let keep = self.contents.bytes();
        let arrays = batch.leaves();
        // Room for all of them at once: the slot grows once, not tensor by tensor.
        let room = arrays
            .iter()
            .try_for_each(|array| self.contents.add(array.spec()).map(|_| ()))
            .and_then(|()| self.arena.ensure(self.contents.bytes(), keep));
        if let Err(error) = room {
            self.contents.tensors.truncate(before);
            return Err(error);
        }
        let ranges = self.contents.tensors[before..].iter().map(|(_, range)| range.clone());
        fill::pack(self.fillers, self.arena.bytes_mut(), arrays.into_iter().zip(ranges));
        let mut indices = before..;
        self.contents.tree = batch.map(&mut |_| indices.next().unwrap_or_default());
        Ok(())
    }

    /// Say which frame this batch is.
    pub fn set_meta(&mut self, meta: FrameMeta) {
        self.contents.meta = Some(meta);
    }

    /// Which frame this batch is, if that was said.
    pub fn meta(&self) -> Option<&FrameMeta> {
        self.contents.meta.as_ref()
    }

    /// Run `f` and count its time as conversion instead of as the source's own.
    ///
    /// `f` gets the writer back, so that it can convert straight into [`SlotWriter::tensor`]'s bytes.
    pub fn converting<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let (start, before) = (Instant::now(), self.contents.convert);
        let result = f(self);
        // Set, not added: `f` may have counted parts of its time by itself.
        self.contents.convert = before + start.elapsed();
        result
    }

    fn reserve(&mut self, spec: &TensorSpec) -> Result<(usize, Range<usize>)> {
        let keep = self.contents.bytes();
        let index = self.contents.add(spec)?;
        let range = self.contents.tensors[index].1.clone();
        if let Err(error) = self.arena.ensure(range.end, keep) {
            // The source may go on with something smaller.
            self.contents.tensors.pop();
            return Err(error);
        }
        Ok((index, range))
    }
}
