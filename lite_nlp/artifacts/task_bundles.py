"""Export of this project's language models and classifiers by ``lite_nlp.export``, which does not depend on them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lite_nlp.artifacts.classes import SENTENCES, read_labels
from lite_nlp.artifacts.input_length import source_bound
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.core.errors import BundleError
from lite_nlp.core.parsing import parsing
from lite_nlp.core.progress import Progress
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.export.runtime.layout import DEFAULT_BOUNDS, Bounds, Precision
from lite_nlp.export.runtime.limits import MAX_STATE_BYTES, MAX_TOKENS

if TYPE_CHECKING:
    from lite_nlp.export.packing import Packing
    from lite_nlp.export.pipeline import ModelCard
    from lite_nlp.export.runtime.manifest import Manifest
    from lite_nlp.export.tasks.pipeline import TaskModel

__all__ = ["write_task_bundle"]

#: Everyday sentences that verify an export beside random ones, spread over the file.
_PROOF_SENTENCES = 24


def write_task_bundle(
    path: Path,
    loaded: LoadedModel,
    *,
    card: "ModelCard",
    packing: "Packing | None",
    portable: bool,
    max_src_tokens: int | None,
    max_tgt_tokens: int | None,
    precision: Precision,
    calibration: Sequence[Sequence[Sequence[int]]],
    runtimes: Sequence[str] | None,
    force: bool,
    progress: Progress | None,
    accept: Callable[[Path], None],
) -> "Manifest":
    """Export a language model or classifier and verify the bundle; see :func:`~.bundle_export.write_model_bundle`.

    Args:
        path: The ``.zip`` file to write.
        loaded: The model.
        card: What else the bundle holds.
        packing: What to make a compact bundle with; None for a plain one.
        portable: Whether the ONNX graphs have operators of the ONNX standard alone.
        max_src_tokens: Longest sentence of a classifier, end mark included; None is what the model reads. A language
            model scores at least as long texts as it was trained on; None is 256, or these if they are longer.
        max_tgt_tokens: Most steps of a language model; None is all that the model has positions for, or that a state
            of 256 MiB has place for. Both are lowered to the model's positions.
        precision: Of the weights.
        calibration: Token ids of texts on which a mixed precision measures the loss of each matrix, of each sentence of
            an example the rows; none for the package's own.
        runtimes: Names of the runtimes to export for; None for all that can run the model.
        force: Whether an existing file may be overwritten.
        progress: Receives each stage as it begins.
        accept: Called with the finished bundle before it replaces ``path``.
    """
    from lite_nlp.export.tasks.pipeline import export_task_bundle

    model, config = _describe(loaded), loaded.config
    longest = min(config.model.max_positions, MAX_TOKENS)
    source = capacity = min(source_bound(config, max_src_tokens), longest)
    if model.task == "language-modelling":
        source = min(max(source, config.training.block_tokens), longest)
        first, further = _state_bytes(loaded)
        most = 1 + (MAX_STATE_BYTES - first) // further if further else longest
        capacity = min(most if max_tgt_tokens is None else max_tgt_tokens, longest)
    bounds = Bounds(source=source, capacity=capacity, executorch_batch=DEFAULT_BOUNDS.executorch_batch)
    return export_task_bundle(
        path,
        model=model,
        card=card,
        bounds=bounds,
        precision=precision,
        calibration=calibration,
        runtimes=runtimes,
        packing=packing,
        portable=portable,
        force=force,
        progress=progress,
        accept=accept,
    )


def _state_bytes(loaded: LoadedModel) -> tuple[int, int]:
    """Bytes of the state of one text that takes one step, and for each further one."""
    from lite_nlp.models.build import as_language_model

    model = as_language_model(loaded.model, source=loaded.name)
    one, two = (sum(tensor.nbytes for tensor in model.init_state(1, steps).values()) for steps in (1, 2))
    return one, two - one


def _describe(loaded: LoadedModel) -> "TaskModel":
    from lite_nlp.artifacts.fused_text import fuse_attention
    from lite_nlp.export.runtime.programs import Classes
    from lite_nlp.export.tasks.pipeline import TaskModel
    from lite_nlp.models.build import as_classifier, as_language_model

    pairs = read_everyday_pairs()
    lines = [english for english, _ in pairs[:: max(1, len(pairs) // _PROOF_SENTENCES)]][:_PROOF_SENTENCES]
    proof = [loaded.tokenizer.encode(line) for line in lines]
    vocab_size = loaded.tokenizer.vocab_size
    architecture = loaded.config.model.architecture
    if architecture not in SENTENCES:
        fused = fuse_attention(as_language_model(loaded.model, source=loaded.name))
        return TaskModel(
            module=loaded.model, task="language-modelling", vocab_size=vocab_size, proof=proof, step_form=fused
        )
    labels = read_labels(
        loaded.metrics, as_classifier(loaded.model, source=loaded.name).config.num_classes, name=loaded.name
    )
    with parsing(f"{loaded.name}: labels", "what the format of bundles allows", BundleError):
        classes = Classes(labels=tuple(labels), sentences=SENTENCES[architecture])
    return TaskModel(module=loaded.model, task="classification", vocab_size=vocab_size, classes=classes, proof=proof)
