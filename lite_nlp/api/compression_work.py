"""What the work of an interrupted compression is valid for."""

import hashlib
from pathlib import Path

from lite_nlp.api.compression_subject import embedded_files
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.data.directory import content_digest

__all__ = ["work_key"]


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
