"""``manifest.json``: what a bundle holds, how its graphs are called, and where it came from. Imports no torch.

Read and written through one validated model, so that a bundle which this module accepts can be run without further
checks of its structure.
"""

import json
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.export.runtime.recipes import Packed, Section

__all__ = [
    "CONFIG_FILE",
    "EXECUTORCH_FILE",
    "MANIFEST_FILE",
    "METRICS_FILE",
    "ONNX_DECODE_STEP_FILE",
    "ONNX_ENCODE_FILE",
    "ONNX_WEIGHTS_FILE",
    "SCHEMA_VERSION",
    "TOKENIZER_FILE",
    "Bounds",
    "DecodingDefaults",
    "ExecuTorchEntry",
    "FileEntry",
    "Languages",
    "Manifest",
    "OnnxEntry",
    "StateTensor",
    "Vocabulary",
    "parse_manifest",
]

SCHEMA_VERSION: Final = 1

MANIFEST_FILE: Final = "manifest.json"
TOKENIZER_FILE: Final = "tokenizer.json"
CONFIG_FILE: Final = "config.toml"
METRICS_FILE: Final = "metrics.json"
ONNX_ENCODE_FILE: Final = "encode.onnx"
ONNX_DECODE_STEP_FILE: Final = "decode_step.onnx"
ONNX_WEIGHTS_FILE: Final = "weights.bin"
EXECUTORCH_FILE: Final = "model.pte"

#: Symbols that stand for a size in a state tensor's shape.
Symbol = Literal["batch", "source", "capacity"]


class FileEntry(Section):
    """Size and hash of a member of the bundle."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)


class Languages(Section):
    """Source and target language, as ISO 639 codes or whatever the data was labelled with."""

    src: str
    tgt: str


class Vocabulary(Section):
    """Sizes of the vocabularies and ids of the special tokens."""

    src_size: int = Field(ge=1)
    tgt_size: int = Field(ge=1)
    pad_id: int = PAD_ID
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID


class Bounds(Section):
    """Largest sizes that the graphs accept.

    Attributes:
        source: Source tokens of a sentence, end mark included.
        capacity: Decoder steps, which is the size of the caches.
        executorch_batch: Rows of one call of the ExecuTorch methods; the engine splits larger batches. ONNX has no
            such bound.
    """

    source: int = Field(ge=1)
    capacity: int = Field(ge=1)
    executorch_batch: int = Field(ge=1)


class DecodingDefaults(Section):
    """How the model's config wants output searched for: what ``lite-nlp translate`` does unless told otherwise.

    Attributes:
        length_penalty: Exponent of the length penalty of beam search.
        no_repeat_ngram: No run of so many tokens occurs twice in an output; 0 allows all.
        min_length: Fewest tokens of an output.
        max_length: Most tokens of an output; 0 leaves it to the length of the input and the bounds.
        long_input: What is done with an input of more than ``max_source_tokens``: it is translated in pieces, or its
            beginning alone.
        max_source_tokens: Most tokens of an input, the end mark not counted; the bounds may allow fewer.
    """

    length_penalty: float = Field(ge=0.0)
    no_repeat_ngram: int = Field(ge=0)
    min_length: int = Field(ge=0)
    max_length: int = Field(ge=0)
    long_input: Literal["split", "truncate"]
    max_source_tokens: int = Field(ge=1)


class StateTensor(Section):
    """One tensor of the decoder's state.

    Attributes:
        name: Its key; also the name of ``encode``'s output and of ``decode_step``'s input.
        dtype: Element type.
        shape: Sizes, where a string is the symbol of a size known at run time. The batch is first.
        origin: Its value before the first step: all zeros, an output of ``encode``, or ``encode``'s input
            ``src_mask``.
        changes: Whether ``decode_step`` returns a new value; else the same tensor is passed at every step.
    """

    name: str
    dtype: Literal["float32", "int64", "bool"]
    shape: tuple[int | Symbol, ...]
    origin: Literal["zeros", "encode", "src_mask"]
    changes: bool

    @model_validator(mode="before")
    @classmethod
    def _list_to_tuple(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("shape"), list):
            return {**values, "shape": tuple(values["shape"])}
        return values


class OnnxEntry(Section):
    """The ONNX graphs. Inputs and outputs are bound by name.

    Attributes:
        encode: File of the encoder: ``src_tokens``, ``src_mask`` to the state tensors of origin ``encode``.
        decode_step: File of the decoder step: ``tokens`` and every state tensor to ``logits`` and the changing ones.
        weights: File with the weights of both, their external data under this very name.
        new_prefix: What precedes a changing state tensor's name among ``decode_step``'s outputs.
    """

    encode: str
    decode_step: str
    weights: str
    new_prefix: str


class ExecuTorchEntry(Section):
    """The ExecuTorch program, with methods ``encode`` and ``decode_step``.

    Arguments and results are bound by position: those of ``encode`` are ``src_tokens``, ``src_mask`` and the state
    tensors of origin ``encode``; those of ``decode_step`` are ``tokens`` and all state tensors, ``logits`` and the
    changing state tensors; state tensors in the manifest's order.
    """

    program: str


class Manifest(Section):
    """A bundle's table of contents.

    Attributes:
        schema_version: Of this layout.
        name: Of the model.
        versions: Name of a package or of ``opset`` to the version that made the bundle.
        precision: Of the weights of the Linear layers.
        languages: None if unknown.
        vocabulary: Sizes and special ids.
        bounds: Largest sizes.
        decoding: None if the model's config has no section of that name.
        state: The decoder's state tensors, in the order of ``decode_step``'s arguments.
        onnx: None if the bundle has no ONNX graphs.
        executorch: None if the bundle has no ExecuTorch program.
        parity: Result of comparing each runtime with the model before export.
        budget: Parameters and Mult-Adds, as ``lite-nlp budget --json`` gives them.
        graphs: Work of the model (``torch``; ``merged`` with equal computations done once) and of each runtime's graphs
            (``onnx``, ``executorch``) as polynomials of the lengths, ``GraphWork`` in its JSON form. Empty in bundles
            made before it was recorded.
        scores: Of the model, by test set: the metrics of its card. Empty if unknown.
        files: Every other member of the archive.
        packed: Members of a compact bundle that are made instead of stored; None in a plain one.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    name: str
    versions: dict[str, str]
    precision: Literal["fp32", "int8"]
    languages: Languages | None = None
    vocabulary: Vocabulary
    bounds: Bounds
    decoding: DecodingDefaults | None = None
    state: tuple[StateTensor, ...]
    onnx: OnnxEntry | None = None
    executorch: ExecuTorchEntry | None = None
    parity: dict[str, Any] = Field(default_factory=dict)
    budget: dict[str, Any] = Field(default_factory=dict)
    graphs: dict[str, Any] = Field(default_factory=dict)
    scores: dict[str, dict[str, Any]] = Field(default_factory=dict)
    files: dict[str, FileEntry]
    packed: Packed | None = None

    @model_validator(mode="before")
    @classmethod
    def _list_to_tuple(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("state"), list):
            return {**values, "state": tuple(values["state"])}
        return values

    @field_validator("graphs")
    @classmethod
    def _work_readable(cls, graphs: dict[str, Any]) -> dict[str, Any]:
        for name, work in graphs.items():
            try:
                GraphWork.from_json(work)
            except BundleError as error:
                raise ValueError(f"{name}: {error}") from error
        return graphs

    @model_validator(mode="after")
    def _members_listed(self) -> Self:
        wanted = [TOKENIZER_FILE, CONFIG_FILE]
        if self.onnx is not None:
            wanted += [self.onnx.encode, self.onnx.decode_step, self.onnx.weights]
        if self.executorch is not None:
            wanted += [self.executorch.program]
        made = {} if self.packed is None else self.packed.members
        missing = sorted(set(wanted) - {*self.files, *made})
        if self.packed is not None:
            needed = {self.packed.container, *(member.residual for member in made.values())}
            missing += sorted(needed - set(self.files))
            twice = sorted(set(made) & {MANIFEST_FILE, *self.files})
            if twice:
                raise ValueError(f"packed: expected members that are not stored, found {', '.join(twice)} in both")
        if missing:
            raise ValueError(f"files: expected an entry for {', '.join(missing)}, found none")
        return self

    @property
    def encoded(self) -> list[str]:
        """Names of the state tensors that ``encode`` returns, in its order."""
        return [tensor.name for tensor in self.state if tensor.origin == "encode"]

    @property
    def changing(self) -> list[str]:
        """Names of the state tensors that ``decode_step`` returns, in its order."""
        return [tensor.name for tensor in self.state if tensor.changes]

    def to_json(self) -> bytes:
        """The text of ``manifest.json``: the same manifest gives the same bytes."""
        unsaid = {name for name in ("decoding", "scores", "packed") if not getattr(self, name)}
        return (json.dumps(self.model_dump(mode="json", exclude=unsaid), ensure_ascii=False, indent=1) + "\n").encode(
            "utf-8"
        )


def parse_manifest(content: bytes, *, source: str) -> Manifest:
    """Read ``manifest.json``.

    Args:
        content: The file.
        source: Stands for the bundle in messages.

    Raises:
        BundleError: If it is no manifest, or one of a newer schema.
    """
    try:
        document = json.loads(content)
    except ValueError as error:
        raise BundleError(f"{source}: {MANIFEST_FILE}: expected JSON, found an error: {error}") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{source}: {MANIFEST_FILE}: expected schema_version {SCHEMA_VERSION}, found {version}: the bundle was "
            "made by a newer lite-nlp; upgrade this one"
        )
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'manifest'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise BundleError(f"{source}: {MANIFEST_FILE}: expected a bundle's manifest, found: {problems}") from error
