"""Batches as the user's own dicts, lists and tuples, which can name the streams that read them."""

from __future__ import annotations

from typing import Any

from ._native import Slot


class _Held:
    """A batch in a slot of a feed."""

    _slot: Slot

    def record_stream(self, stream: Any) -> None:
        """Name another stream that reads the batch.

        Its slot is not written before that stream is done with what it was given until the last tensor of the batch is
        gone. PyTorch's current stream at the time that the batch was given is named already.

        Parameters
        ----------
        stream
            PyTorch's or CuPy's stream, or its address.
        """
        self._slot.record_stream(stream)


class DictBatch(dict[Any, Any], _Held):
    """A dict of tensors, or of what holds them."""


class ListBatch(list[Any], _Held):
    """A list of tensors, or of what holds them."""


class TupleBatch(tuple[Any, ...], _Held):
    """A tuple of tensors, or of what holds them."""


_KINDS: dict[type, Any] = {dict: DictBatch, list: ListBatch, tuple: TupleBatch}


def wrap(batch: Any, slot: Slot) -> Any:
    """The batch, with ``record_stream`` if it is a dict, list or tuple."""
    kind = _KINDS.get(type(batch))
    if kind is None:
        return batch
    held = kind(batch)
    held._slot = slot
    return held
