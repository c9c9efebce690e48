"""A batch on its way out of a worker process of torch's DataLoader: one message, in types as narrow as its numbers.

Torch moves each tensor of a batch to a new piece of shared memory and hands over its file descriptor: 0.5 to 1 ms a
tensor, and 1.5 ms a MiB of fresh pages (2 cores of a virtual machine). Through the pipe that carries the message
anyway, 64 x 2,048 ids of uint16 take 256 KiB, and are widened to int64 on arrival, in memory that is used again.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from gristmill.core.extras import extra

with extra("torch", __name__):
    import torch
    from torch.utils.data import get_worker_info
    from torch.utils.data._utils.collate import default_collate_fn_map

from gristmill.core.errors import ConfigError
from gristmill.loader.buffers import Buffers

Tensors = dict[str, torch.Tensor]
_Array = npt.NDArray[Any]
# Kept in the receiving process for use again.
_BUFFER_BYTES = 64 << 20
_NARROWED_FROM_BYTES = 4096
_NARROW = [np.iinfo(dtype) for dtype in (np.uint8, np.uint16, np.int16, np.int32)]
_TYPES = {torch.int64, torch.int32, torch.bool}
_buffers = Buffers(_BUFFER_BYTES)


class Parcel(Tensors):
    """A batch in a worker process: a dict like any other until it is sent, and a plain one where it arrives."""


class Whole(Parcel):
    """A batch that a DataLoader is to hand on as it is: one that would make batches of batches is refused."""

    def __copy__(self) -> Tensors:
        """What a DataLoader without a batch size hands on: a copy, which is a plain dict, or a parcel."""
        return sendable(dict(self))


def sendable(batch: Tensors) -> Tensors:
    """The batch, as a parcel if this is a worker process."""
    return Parcel(batch) if get_worker_info() else batch


def _pack(parcel: Parcel) -> tuple[Callable[..., Tensors], tuple[object]]:
    """How a parcel is pickled between processes; what a collate_fn has put in beside our tensors goes torch's way."""
    tensors = [value for value in parcel.values() if isinstance(value, torch.Tensor)]
    ours = all(tensor.dtype in _TYPES and tensor.device.type == "cpu" for tensor in tensors)
    if not ours or len(tensors) < len(parcel):
        return dict, (dict(parcel),)
    return _unpack, ({key: (_narrowed(tensor.numpy()), tensor.numpy().dtype) for key, tensor in parcel.items()},)


def _narrowed(array: _Array) -> _Array:
    """The same numbers in the smallest type that holds them all."""
    if array.dtype.kind != "i" or array.nbytes < _NARROWED_FROM_BYTES:
        return array
    low, high = array.min(), array.max()
    fits = (each for each in _NARROW if each.min <= low and high <= each.max and each.bits < 8 * array.itemsize)
    return next((array.astype(each.dtype) for each in fits), array)


def _unpack(packed: dict[str, tuple[_Array, np.dtype[Any]]]) -> Tensors:
    return {key: torch.from_numpy(_widened(key, *each)) for key, each in packed.items()}


def _widened(key: str, array: _Array, dtype: np.dtype[Any]) -> _Array:
    if array.dtype == dtype:
        return array
    wide = _buffers.empty(key, array.shape, dtype)
    wide[...] = array
    return wide


def _refuse_to_collate(batches: list[Whole], **_: object) -> NoReturn:
    raise ConfigError(
        "Each item of a StreamDataset is a batch already: say DataLoader(dataset, batch_size=None).",
        arguments="batch_size",
    )


ForkingPickler.register(Parcel, _pack)
ForkingPickler.register(Whole, _pack)
default_collate_fn_map[Whole] = _refuse_to_collate
