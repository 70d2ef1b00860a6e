"""What an interrupted compression has worked out, and what it is valid for."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.api.compression_subject import embedded_files
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.core.errors import LiteNlpError, OutputError, OverBudgetError, UsageError
from lite_nlp.core.progress import Progress
from lite_nlp.data.directory import content_digest

if TYPE_CHECKING:
    from lite_nlp.compress.work import Work

__all__ = ["resumable_work", "work_key"]


@contextmanager
def resumable_work(out: Path, key: str | None, progress: Progress) -> "Iterator[Work | None]":
    """What a compression has worked out, beside its output.

    It is kept where the compression is interrupted, the disk is full, a limit of the gate is passed, which another may
    allow, or an option is refused: the work is of no other.
    """
    from lite_nlp.compress.work import Work

    if key is None:
        yield None
        return
    work = Work(out.with_name(f"{out.name}.partial"), key)
    if work.resumed:
        progress.start(f"going on from {out.name}.partial", None)
    elif work.replaced:
        progress.start(f"beginning anew: {out.name}.partial is of another model, data or options", None)
    try:
        yield work
    except (OutputError, OverBudgetError, UsageError):
        raise
    except LiteNlpError:
        work.remove()
        raise
    work.remove()


def work_key(loaded: LoadedModel, data: Path | None, options: object, *others: object) -> str:
    """What a compression depends on, as one line: an interrupted one goes on only with the same.

    That is weights, config, tokenizer and records of the model, the content of the data, and the options.

    Raises:
        DataError: If the data cannot be read.
    """
    digest = hashlib.sha256()
    for name, tensor in loaded.model.state_dict().items():
        digest.update(name.encode("utf-8") + tensor.cpu().numpy().tobytes())
    for name, content in embedded_files(loaded, loaded.model).items():
        digest.update(name.encode("utf-8") + content)
    if data is not None:
        digest.update(content_digest(data).encode("utf-8"))
    digest.update(repr((options, [getattr(other, "options", other) for other in others])).encode("utf-8"))
    return digest.hexdigest()
