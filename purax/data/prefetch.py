# SPDX-License-Identifier: Apache-2.0
"""Making the next batches while the current one is worked on."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["prefetch"]

_END = object()


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def prefetch(items: Iterable[Any], size: int = 2, transform: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """Go through items while a thread makes the next ones.

    Parameters
    ----------
    items : iterable
        Such as `batches(...)`; it runs in the thread.
    size : int
        How many items may wait, at least 1.
    transform : callable, optional
        Applied to each item in the thread, such as `purax.device_put`.

    Returns
    -------
    iterator
        The items in order. An exception of the thread is raised where its item was due; the thread ends when the
        iterator is exhausted, closed or forgotten.

    Raises
    ------
    ValueError
        If size is below 1.
    """
    if size < 1:
        raise ValueError(f"prefetch: size must be at least 1, got {size}")
    ready: queue.Queue[Any] = queue.Queue(maxsize=size)
    stopped = threading.Event()

    def offer(item: Any) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not offer(item if transform is None else transform(item)):
                    return
        except BaseException as error:
            offer(_Failure(error))
        else:
            offer(_END)

    def generate() -> Iterator[Any]:
        # Settings and the default device belong to the caller's context; the thread gets a copy.
        context = contextvars.copy_context()
        worker = threading.Thread(target=context.run, args=(work,), daemon=True, name="purax-prefetch")
        worker.start()
        try:
            while (item := ready.get()) is not _END:
                if isinstance(item, _Failure):
                    raise item.error
                yield item
        finally:
            stopped.set()
            worker.join()

    return generate()
