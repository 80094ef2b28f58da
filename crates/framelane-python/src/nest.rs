//! Nested batches, taken apart into arrays and what holds them, and put together again around other arrays.

use crate::array;
use crate::dlpack::{Foreign, Place};
use crate::errors::argument;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyMemoryView, PyString, PyTuple, PyType};

/// A batch without its arrays, of which it knows the numbers.
pub enum Nest {
    /// An array, and whether it was PyTorch's.
    Array(usize, bool),
    /// What is no array passes as it is.
    Same(Py<PyAny>),
    Dict(Vec<(Py<PyAny>, Nest)>),
    List(Vec<Nest>),
    Tuple(Vec<Nest>),
    /// A named tuple's type.
    Named(Py<PyAny>, Vec<Nest>),
    /// A data class's copy, without its arrays.
    Data(Py<PyAny>, Vec<(Py<PyString>, Nest)>),
}

/// Deeper than this nothing is nested that makes sense.
const DEEPEST: usize = 32;

/// Take a batch apart.
pub fn apart(batch: &Bound<'_, PyAny>, arrays: &mut Vec<Foreign>) -> PyResult<Nest> {
    walk(batch, arrays, 0)
}

fn walk(object: &Bound<'_, PyAny>, arrays: &mut Vec<Foreign>, depth: usize) -> PyResult<Nest> {
    let py = object.py();
    if depth > DEEPEST {
        return Err(argument(format!(
            "a batch is nested deeper than {DEEPEST} levels: does it hold itself?"
        )));
    }
    let each = |all: &Bound<'_, PyAny>, arrays: &mut Vec<Foreign>| -> PyResult<Vec<Nest>> {
        all.try_iter()?.map(|item| walk(&item?, arrays, depth + 1)).collect()
    };
    if is_array(object)? {
        let taken = array::take(object)?.foreign;
        if taken.place != Place::Host {
            return Err(argument(format!(
                "{} of a batch is on {:?}: a feed takes arrays of the host",
                taken.spec, taken.place
            )));
        }
        arrays.push(taken);
        let torch = object.get_type().module()?.to_str()?.starts_with("torch");
        return Ok(Nest::Array(arrays.len() - 1, torch));
    }
    if let Ok(list) = object.cast::<PyList>() {
        return Ok(Nest::List(each(list, arrays)?));
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        let nests = each(tuple, arrays)?;
        return Ok(match object.hasattr(intern!(py, "_fields"))? {
            true => Nest::Named(object.get_type().into_any().unbind(), nests),
            false => Nest::Tuple(nests),
        });
    }
    let is_mapping =
        || Ok::<_, PyErr>(object.hasattr(intern!(py, "keys"))? && object.hasattr(intern!(py, "items"))?);
    if object.is_instance_of::<PyDict>() || !object.is_instance_of::<PyType>() && is_mapping()? {
        let entries = object.call_method0(intern!(py, "items"))?.try_iter()?.map(|entry| {
            let (key, value): (Py<PyAny>, Bound<'_, PyAny>) = entry?.extract()?;
            Ok((key, walk(&value, arrays, depth + 1)?))
        });
        return Ok(Nest::Dict(entries.collect::<PyResult<_>>()?));
    }
    if !object.is_instance_of::<PyType>() && object.hasattr(intern!(py, "__dataclass_fields__"))? {
        return data(object, arrays, depth);
    }
    Ok(Nest::Same(object.clone().unbind()))
}

fn data(object: &Bound<'_, PyAny>, arrays: &mut Vec<Foreign>, depth: usize) -> PyResult<Nest> {
    let py = object.py();
    let copy = py.import(intern!(py, "copy"))?.call_method1(intern!(py, "copy"), (object,))?;
    let mut fields = Vec::new();
    for name in object.getattr(intern!(py, "__dataclass_fields__"))?.try_iter()? {
        let name = name?.cast_into::<PyString>()?;
        let nest = walk(&object.getattr(&name)?, arrays, depth + 1)?;
        // Not the arrays: the copy travels with the batch, and they do not.
        set(&copy, &name, py.None().bind(py))?;
        fields.push((name.unbind(), nest));
    }
    Ok(Nest::Data(copy.unbind(), fields))
}

/// Also of a frozen data class.
fn set(object: &Bound<'_, PyAny>, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = object.py();
    let base = py.import(intern!(py, "builtins"))?.getattr(intern!(py, "object"))?;
    base.call_method1(intern!(py, "__setattr__"), (object, name, value)).map(|_| ())
}

fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if object.is_instance_of::<PyType>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyBytes>()
    {
        return Ok(false);
    }
    for name in [
        intern!(py, "__dlpack__"),
        intern!(py, "__array_interface__"),
        intern!(py, "__cuda_array_interface__"),
    ] {
        if object.hasattr(name)? {
            return Ok(true);
        }
    }
    let is_buffer = object.is_instance_of::<PyMemoryView>() || object.is_instance_of::<PyByteArray>();
    Ok(is_buffer || object.get_type().fully_qualified_name()? == "array.array")
}

impl Nest {
    /// Put it together around what `of` gives for each array.
    pub fn together<'py>(
        &self,
        py: Python<'py>,
        of: &mut impl FnMut(usize, bool) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut each =
            |nests: &[Self]| nests.iter().map(|nest| nest.together(py, of)).collect::<PyResult<Vec<_>>>();
        Ok(match self {
            Self::Array(number, torch) => of(*number, *torch)?,
            Self::Same(object) => object.bind(py).clone(),
            Self::List(nests) => PyList::new(py, each(nests)?)?.into_any(),
            Self::Tuple(nests) => PyTuple::new(py, each(nests)?)?.into_any(),
            Self::Named(kind, nests) => kind.bind(py).call_method1(intern!(py, "_make"), (each(nests)?,))?,
            Self::Dict(entries) => {
                let dict = PyDict::new(py);
                for (key, nest) in entries {
                    dict.set_item(key, nest.together(py, of)?)?;
                }
                dict.into_any()
            }
            Self::Data(copy, fields) => {
                let copy = copy.bind(py);
                for (name, nest) in fields {
                    set(copy, name.bind(py), &nest.together(py, of)?)?;
                }
                copy.clone()
            }
        })
    }
}
