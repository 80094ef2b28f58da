//! What a tensor looks like, apart from where it lives: element type, shape, strides, layout.

use crate::error::{Error, ErrorKind, Result};
use std::fmt;

/// Element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 8-bit boolean, 0 or 1.
    Bool,
    /// Unsigned 8-bit.
    U8,
    /// Signed 8-bit.
    I8,
    /// Unsigned 16-bit.
    U16,
    /// Signed 16-bit.
    I16,
    /// Signed 32-bit.
    I32,
    /// Signed 64-bit.
    I64,
    /// IEEE half precision.
    F16,
    /// Brain float: the upper half of an [`DType::F32`].
    BF16,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl DType {
    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// Element type, shape and strides of one tensor.
///
/// Strides count elements, not bytes. A spec made with [`TensorSpec::new`] is contiguous (C order).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    dtype: DType,
    shape: Vec<usize>,
    strides: Vec<usize>,
}

impl TensorSpec {
    /// A contiguous tensor. An empty `shape` is a scalar.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>) -> Self {
        let shape = shape.into();
        let strides = contiguous_strides(&shape);
        Self { dtype, shape, strides }
    }

    /// A strided view; `strides` (in elements) must have one entry per dimension.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if the two lengths differ.
    pub fn strided(
        dtype: DType,
        shape: impl Into<Vec<usize>>,
        strides: impl Into<Vec<usize>>,
    ) -> Result<Self> {
        let (shape, strides) = (shape.into(), strides.into());
        if shape.len() != strides.len() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!(
                    "a tensor of {} dimensions needs as many strides, not {}",
                    shape.len(),
                    strides.len()
                ),
            ));
        }
        Ok(Self { dtype, shape, strides })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extent of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Distance between neighbours in each dimension, in elements.
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// Number of elements (1 for a scalar, 0 if any extent is 0).
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of the packed (contiguous) tensor.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }

    /// Bytes from the first element to one past the last, holes included.
    pub fn span_bytes(&self) -> usize {
        if self.elements() == 0 {
            return 0;
        }
        let last: usize = self.shape.iter().zip(&self.strides).map(|(n, s)| (n - 1) * s).sum();
        (last + 1) * self.dtype.size()
    }

    /// Whether the elements lie one after the other in C order.
    pub fn is_contiguous(&self) -> bool {
        self.elements() == 0
            || self
                .shape
                .iter()
                .zip(&self.strides)
                .zip(contiguous_strides(&self.shape))
                .all(|((&n, &s), c)| n == 1 || s == c)
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.dtype)?;
        for (i, n) in self.shape.iter().enumerate() {
            write!(f, "{}{n}", if i == 0 { "" } else { "×" })?;
        }
        f.write_str("]")
    }
}

fn contiguous_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i];
    }
    strides
}

/// A nested batch: what Python calls dicts, lists, tuples and `None`, with `L` at the leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree<L> {
    /// One value.
    Leaf(L),
    /// No value.
    None,
    /// An ordered list.
    List(Vec<Tree<L>>),
    /// A fixed tuple.
    Tuple(Vec<Tree<L>>),
    /// Named entries, in the order given.
    Map(Vec<(String, Tree<L>)>),
}

impl<L> Tree<L> {
    /// The same structure with each leaf replaced by `f(leaf)`, visited in order.
    pub fn map<M>(&self, f: &mut impl FnMut(&L) -> M) -> Tree<M> {
        match self {
            Tree::Leaf(l) => Tree::Leaf(f(l)),
            Tree::None => Tree::None,
            Tree::List(v) => Tree::List(v.iter().map(|t| t.map(f)).collect()),
            Tree::Tuple(v) => Tree::Tuple(v.iter().map(|t| t.map(f)).collect()),
            Tree::Map(v) => Tree::Map(v.iter().map(|(k, t)| (k.clone(), t.map(f))).collect()),
        }
    }

    /// The leaves, in order.
    pub fn leaves(&self) -> Vec<&L> {
        fn walk<'a, L>(tree: &'a Tree<L>, out: &mut Vec<&'a L>) {
            match tree {
                Tree::Leaf(l) => out.push(l),
                Tree::None => {}
                Tree::List(v) | Tree::Tuple(v) => v.iter().for_each(|t| walk(t, out)),
                Tree::Map(v) => v.iter().for_each(|(_, t)| walk(t, out)),
            }
        }
        let mut out = Vec::new();
        walk(self, &mut out);
        out
    }

    /// Look a subtree up by a dotted path: names in maps, numbers in lists and tuples (`"obs.left.0"`).
    pub fn get(&self, path: &str) -> Option<&Tree<L>> {
        if path.is_empty() {
            return Some(self);
        }
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        match self {
            Tree::Map(v) => v.iter().find(|(k, _)| k == head).and_then(|(_, t)| t.get(rest)),
            Tree::List(v) | Tree::Tuple(v) => v.get(head.parse::<usize>().ok()?)?.get(rest),
            Tree::Leaf(_) | Tree::None => None,
        }
    }
}

/// As it would be written: `{image: u8[2×3], pair: (f32[4], none)}`.
impl<L: fmt::Display> fmt::Display for Tree<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn row<L: fmt::Display>(f: &mut fmt::Formatter<'_>, trees: &[Tree<L>]) -> fmt::Result {
            for (n, tree) in trees.iter().enumerate() {
                write!(f, "{}{tree}", if n == 0 { "" } else { ", " })?;
            }
            Ok(())
        }
        match self {
            Tree::Leaf(leaf) => write!(f, "{leaf}"),
            Tree::None => f.write_str("none"),
            Tree::List(trees) => {
                f.write_str("[")?;
                row(f, trees)?;
                f.write_str("]")
            }
            Tree::Tuple(trees) => {
                f.write_str("(")?;
                row(f, trees)?;
                f.write_str(if trees.len() == 1 { ",)" } else { ")" })
            }
            Tree::Map(entries) => {
                f.write_str("{")?;
                for (n, (name, tree)) in entries.iter().enumerate() {
                    write!(f, "{}{name}: {tree}", if n == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

/// An array in ordinary host memory, borrowed: what a source hands over to be packed into a slot.
#[derive(Debug, Clone)]
pub struct HostArray<'a> {
    spec: TensorSpec,
    bytes: &'a [u8],
}

impl<'a> HostArray<'a> {
    /// Pair a spec with its bytes. Strided specs may have holes.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`] if `bytes` is shorter than the spec needs.
    pub fn new(spec: TensorSpec, bytes: &'a [u8]) -> Result<Self> {
        if bytes.len() < spec.span_bytes() {
            return Err(Error::new(
                ErrorKind::Argument,
                format!("{spec} spans {} bytes, but only {} were given", spec.span_bytes(), bytes.len()),
            ));
        }
        Ok(Self { spec, bytes })
    }

    /// The spec, as given.
    pub fn spec(&self) -> &TensorSpec {
        &self.spec
    }

    /// The elements' bytes, if they lie packed in C order.
    pub(crate) fn packed(&self) -> Option<&'a [u8]> {
        self.spec.is_contiguous().then(|| &self.bytes[..self.spec.bytes()])
    }

    /// Copy the elements, packed in C order, into `out` (exactly [`TensorSpec::bytes`] long).
    pub fn pack_into(&self, out: &mut [u8]) {
        assert_eq!(out.len(), self.spec.bytes(), "the destination has the packed size");
        if let Some(bytes) = self.packed() {
            out.copy_from_slice(bytes);
        } else {
            let mut out = out;
            pack_dim(self.spec.shape(), self.spec.strides(), self.spec.dtype().size(), self.bytes, &mut out);
        }
    }
}

fn pack_dim(shape: &[usize], strides: &[usize], size: usize, src: &[u8], out: &mut &mut [u8]) {
    let (Some((&n, shape)), Some((&stride, strides))) = (shape.split_first(), strides.split_first()) else {
        let (head, tail) = std::mem::take(out).split_at_mut(size);
        head.copy_from_slice(&src[..size]);
        *out = tail;
        return;
    };
    if shape.is_empty() && stride == 1 {
        let (head, tail) = std::mem::take(out).split_at_mut(n * size);
        head.copy_from_slice(&src[..n * size]);
        *out = tail;
        return;
    }
    for i in 0..n {
        pack_dim(shape, strides, size, &src[i * stride * size..], out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_a_transposed_view() {
        // A 2×3 matrix stored column by column.
        let spec = TensorSpec::strided(DType::U8, [2, 3], [1, 2]).unwrap();
        let bytes = [1, 4, 2, 5, 3, 6];
        let mut out = [0; 6];
        HostArray::new(spec, &bytes).unwrap().pack_into(&mut out);
        assert_eq!(out, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn spans_and_refuses_short_bytes() {
        let spec = TensorSpec::strided(DType::F32, [2, 2], [8, 1]).unwrap();
        assert_eq!((spec.span_bytes(), spec.bytes()), (40, 16));
        assert!(!spec.is_contiguous());
        let error = HostArray::new(spec, &[0; 39]).unwrap_err();
        assert_eq!(error.to_string(), "f32[2×2] spans 40 bytes, but only 39 were given");
    }

    #[test]
    fn empty_tensors_have_no_bytes() {
        let spec = TensorSpec::new(DType::F64, [0, 7]);
        assert_eq!((spec.bytes(), spec.span_bytes(), spec.is_contiguous()), (0, 0, true));
        HostArray::new(spec, &[]).unwrap().pack_into(&mut []);
    }

    #[test]
    fn finds_leaves_by_path() {
        let tree = Tree::Map(vec![
            ("a".into(), Tree::Leaf(1)),
            ("b".into(), Tree::Tuple(vec![Tree::None, Tree::List(vec![Tree::Leaf(2)])])),
        ]);
        assert_eq!(tree.get("b.1.0"), Some(&Tree::Leaf(2)));
        assert_eq!(tree.get("b.2"), None);
        assert_eq!(tree.leaves(), [&1, &2]);
        assert_eq!(tree.map(&mut |n| n * 10).leaves(), [&10, &20]);
        assert_eq!(tree.to_string(), "{a: 1, b: (none, [2])}");
        assert_eq!(Tree::Tuple(vec![Tree::Leaf(1)]).to_string(), "(1,)");
    }
}
