"""Suppression of the warnings that exporting libraries raise about their own internals.

Each is named exactly: a warning that is new, or about our own graphs, still comes through.
"""

import logging
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Final

__all__ = ["quiet_libraries", "quiet_native_code"]

_WARNINGS: Final = (
    # torch's own modules call interfaces that torch has deprecated.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
    (r"`torch\.jit\.\w+` is deprecated", DeprecationWarning),
    # executorch reads its resources with functions that importlib has deprecated, and calls itself experimental.
    (r"(read|open)_(text|binary) is deprecated", DeprecationWarning),
    (r"This API is experimental and subject to change", Warning),
    # Its operators on caches check their position by a function that torch has deprecated; and that buffers which a
    # program changes begin undefined, but for those that are named, is known.
    (r"_check_is_size will be removed", FutureWarning),
    (r"Mutation on a buffer in the model is detected", UserWarning),
)

#: Loggers that report what we have no use for, such as that torchvision is missing, or that an advised function of
#: ExecuTorch is not the one called.
_LOGGERS: Final = (
    "torch.onnx._internal.exporter._registration",
    "torch.utils._pytree",
    "executorch.backends.xnnpack.partition.xnnpack_partitioner",
)

#: The descriptors of the process: two blocks at once would take each other's for those to put back.
_DESCRIPTORS: Final = threading.RLock()


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence the known warnings and log lines within the block; the root logger stays as it is."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    levels = [logger.level for logger in loggers]
    with _keeps_root_logger(), warnings.catch_warnings():
        for message, category in _WARNINGS:
            warnings.filterwarnings("ignore", message=message, category=category)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextmanager
def quiet_native_code() -> Iterator[None]:
    """Drop what native code prints within the block, itself or through Python's streams.

    For the start of ExecuTorch's thread pool, which reports processor files that x86 machines do not have, and for
    loading a program, of which the error says the same. What other threads print meanwhile is dropped too; another
    thread that enters such a block waits.
    """
    with _DESCRIPTORS:
        for stream in (sys.stdout, sys.stderr):
            # A process may have been started without them, or have closed them.
            if stream is not None and not stream.closed:
                stream.flush()
        kept = {number: os.dup(number) for number in (1, 2) if _is_open(number)}
        try:
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                for number in kept:
                    os.dup2(nowhere.fileno(), number)
                with _keeps_root_logger(), redirect_stdout(nowhere), redirect_stderr(nowhere):
                    yield
        finally:
            for number, copy in kept.items():
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _keeps_root_logger() -> Iterator[None]:
    """Take back handlers that the root logger is given within the block, as ``logging.debug`` gives it one.

    With one our own warnings, and those of other libraries, would be printed in another form; or nowhere, with a trace
    in their place, where its stream is closed by then.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in root.handlers[:]:
            if handler not in handlers:
                root.removeHandler(handler)
        root.setLevel(level)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
