//! Filling a slot with several threads: one core copies at a fraction of what a bus carries.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::HostArray;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Below this one thread is as fast: waking others takes some tens of µs.
const WORTH_SHARING: usize = 4 << 20;
/// What one thread copies at a time. Measured: larger pieces leave the last thread to finish alone.
const PIECE: usize = 256 << 10;

/// The threads that fill a feed's slots, started when a batch is first worth it.
pub(super) struct Fillers {
    name: Arc<str>,
    threads: usize,
    pool: OnceLock<Option<rayon::ThreadPool>>,
}

/// As many as outrun a bus of 55 GB/s while its copies read the same memory; one core stays for the feed's own
/// thread and one for the consumer's.
pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get()).saturating_sub(2).clamp(1, 14)
}

impl Fillers {
    /// # Errors
    /// [`ErrorKind::Argument`] for no threads.
    pub fn new(name: Arc<str>, threads: usize) -> Result<Self> {
        if threads == 0 {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("feed {name:?} needs at least one thread that fills slots, not 0"),
            ));
        }
        Ok(Self { name, threads, pool: OnceLock::new() })
    }

    fn pool(&self) -> Option<&rayon::ThreadPool> {
        let make = || {
            let name = self.name.clone();
            rayon::ThreadPoolBuilder::new()
                .num_threads(self.threads)
                .thread_name(move |n| format!("fill {n} {name}"))
                .build()
                .inspect_err(|e| log::warn!("feed {:?} fills its slots with one thread: {e}", self.name))
                .ok()
        };
        self.pool.get_or_init(make).as_ref()
    }
}

/// One piece of work: bytes to write, and what with.
enum Piece<'a> {
    Bytes(&'a mut [u8], &'a [u8]),
    Strided(&'a mut [u8], &'a HostArray<'a>),
}

impl Piece<'_> {
    fn copy(self) {
        match self {
            Self::Bytes(to, from) => to.copy_from_slice(from),
            Self::Strided(to, array) => array.pack_into(to),
        }
    }
}

/// Pack each array into its range of `out`; ranges ascend and do not overlap.
pub(super) fn pack<'a>(
    fillers: Option<&Fillers>,
    mut out: &'a mut [u8],
    arrays: impl Iterator<Item = (&'a HostArray<'a>, Range<usize>)>,
) {
    let (mut pieces, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (array, range) in arrays {
        let (_, rest) = out.split_at_mut(range.start - start);
        let (mut to, rest) = rest.split_at_mut(range.len());
        (out, start) = (rest, range.end);
        bytes += to.len();
        match array.packed() {
            None => pieces.push(Piece::Strided(to, array)),
            Some(mut from) => {
                while !to.is_empty() {
                    let at = to.len().min(PIECE);
                    let (first, left) = from.split_at(at);
                    let (mine, rest) = to.split_at_mut(at);
                    pieces.push(Piece::Bytes(mine, first));
                    (to, from) = (rest, left);
                }
            }
        }
    }
    let pool = fillers.filter(|f| f.threads > 1 && bytes >= WORTH_SHARING).and_then(Fillers::pool);
    match pool {
        Some(pool) => pool.install(|| pieces.into_par_iter().for_each(Piece::copy)),
        None => pieces.into_iter().for_each(Piece::copy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{DType, TensorSpec};

    #[test]
    fn several_threads_write_what_one_writes() {
        let bytes: Vec<u8> = (0..9 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let strided = TensorSpec::strided(DType::U16, [1000, 1500], [1, 1000]).unwrap();
        let arrays = [
            HostArray::new(TensorSpec::new(DType::U8, [5 << 20 | 77]), &bytes).unwrap(),
            HostArray::new(TensorSpec::new(DType::U8, [0]), &[]).unwrap(),
            HostArray::new(strided, &bytes[1 << 20..]).unwrap(),
        ];
        let ends = arrays.iter().scan(0, |end: &mut usize, array| {
            let start = end.next_multiple_of(256);
            *end = start + array.spec().bytes();
            Some(start..*end)
        });
        let ranges: Vec<_> = ends.collect();
        let pack_with = |fillers: Option<&Fillers>| {
            let mut out = vec![7; 9 << 20];
            pack(fillers, &mut out, arrays.iter().zip(ranges.iter().cloned()));
            out
        };
        let fillers = Fillers::new("test".into(), 4).unwrap();
        assert!(pack_with(Some(&fillers)) == pack_with(None));
        assert!(fillers.pool.get().is_some_and(Option::is_some), "the threads were used");
        let alone = Fillers::new("test".into(), 4).unwrap();
        pack(Some(&alone), &mut [0; 4], [(&arrays[1], 0..0)].into_iter());
        assert!(alone.pool.get().is_none(), "little work starts no threads");
    }
}
