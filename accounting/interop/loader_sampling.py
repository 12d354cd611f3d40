"""The sampling of a data loader of PyTorch or Opacus, by the types of its samplers alone; no record is read.

Only samplers whose code is known are believed. A subclass may draw batches in another way, and is refused.
"""

from __future__ import annotations

from typing import Any

from hockeystick.accounting.errors import InvalidArgumentError

_TORCH = "torch.utils.data.sampler"
_POISSON = ("opacus.utils.uniform_sampler", "UniformWithReplacementSampler")
_REMEDY = (
    'say which it is: Poisson samples (hockeystick.DPSGD(sampling="poisson")), a shuffled list cut into batches '
    '("shuffle"), or a new uniform batch in each step ("without-replacement")'
)


def sampling_of(loader: object) -> str:
    """Returns how a data loader draws its batches, in the words of ``DPSGD``.

    | loader                                                                            | answer                |
    |-----------------------------------------------------------------------------------|-----------------------|
    | of Opacus' ``make_private``, with ``poisson_sampling=True``                       | "poisson"             |
    | ``DataLoader(shuffle=True)``, or one that keeps the order of the records          | "shuffle"             |
    | ``DataLoader(batch_size=B, sampler=RandomSampler(data, num_samples=B))``, B below | "without-replacement" |
    | the number of records                                                             |                       |

    Of the last kind each pass is one batch, drawn anew.

    Args:
      loader: a loader of PyTorch or Opacus.

    Raises:
      InvalidArgumentError: the sampling cannot be seen (another sampler, no automatic batches, records drawn with
        replacement, distributed training). The reason has the name of the type.

    Example: batches that somebody made show nothing.

      >>> from hockeystick.accounting import InvalidArgumentError, sampling_of
      >>> try:
      ...     sampling_of([[1, 2], [3, 4]])
      ... except InvalidArgumentError as error:
      ...     print(str(error).split(";")[0])
      batch_sampler='NoneType': does not show how batches are drawn
    """
    loader = vars(loader).get("_counted", loader) if hasattr(loader, "__dict__") else loader  # of ``opacus_engine``
    batches = getattr(loader, "batch_sampler", None)
    if _kind(batches) == _POISSON:
        return "poisson"
    if _kind(batches) != (_TORCH, "BatchSampler"):
        raise _unseen("batch_sampler", batches)
    return _of_list(batches)


def _of_list(batches: Any) -> str:
    """The sampling of batches that are cut from a list."""
    order = batches.sampler
    if _kind(order) == (_TORCH, "SequentialSampler"):
        return "shuffle"
    if _kind(order) != (_TORCH, "RandomSampler") or order.replacement is not False:
        raise _unseen("sampler", order)
    records = len(order.data_source)
    if order.num_samples == records:
        return "shuffle"
    if order.num_samples == batches.batch_size < records:
        return "without-replacement"
    raise _unseen("sampler", order)


def _kind(sampler: object) -> tuple[str, str]:
    return type(sampler).__module__, type(sampler).__qualname__


def _unseen(name: str, sampler: object) -> InvalidArgumentError:
    return InvalidArgumentError(name, type(sampler).__name__, "does not show how batches are drawn", _REMEDY)
