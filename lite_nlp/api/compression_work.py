"""What the work of an interrupted compression is valid for."""

from pathlib import Path

from lite_nlp.api.compression_subject import embedded_files
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.data.directory import content_digest

__all__ = ["model_work_key"]


def model_work_key(loaded: LoadedModel, data: Path | None, options: object, *others: object) -> str:
    """What a compression depends on, as one line: an interrupted one goes on only with the same.

    That is weights, config, tokenizer and records of the model, the content of the data, and the options.

    Raises:
        DataError: If the data cannot be read.
    """
    from lite_nlp.compress.work import work_key

    told = [getattr(other, "options", other) for other in others]
    content = None if data is None else content_digest(data)
    return work_key(loaded.model.state_dict(), embedded_files(loaded, loaded.model), content, options, *told)
