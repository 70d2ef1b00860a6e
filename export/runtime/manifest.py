"""``manifest.json``: contents of a bundle, signatures of its graphs, and its origin. Imports no torch.

Read and written through one validated model, so that a bundle which this module accepts can be run without further
checks of its structure.
"""

import json
from typing import Any, Final, Literal, Self

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.export.runtime.interface import RuntimeEntry
from lite_nlp.export.runtime.layout import Bounds, Layout, ManifestSection, StateTensor
from lite_nlp.export.runtime.recipes import Packed
from lite_nlp.export.runtime.registry import RUNTIMES

__all__ = [
    "CONFIG_FILE",
    "MANIFEST_FILE",
    "METRICS_FILE",
    "SCHEMA_VERSION",
    "TOKENIZER_FILE",
    "DecodingDefaults",
    "FileEntry",
    "Languages",
    "Manifest",
    "Vocabulary",
    "parse_manifest",
]

SCHEMA_VERSION: Final = 1

MANIFEST_FILE: Final = "manifest.json"
TOKENIZER_FILE: Final = "tokenizer.json"
CONFIG_FILE: Final = "config.toml"
METRICS_FILE: Final = "metrics.json"


class FileEntry(ManifestSection):
    """Size and hash of a member of the bundle."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)


class Languages(ManifestSection):
    """Source and target language, as ISO 639 codes or whatever the data was labelled with."""

    src: str
    tgt: str


class Vocabulary(ManifestSection):
    """Sizes of the vocabularies and ids of the special tokens."""

    src_size: int = Field(ge=1)
    tgt_size: int = Field(ge=1)
    pad_id: int = PAD_ID
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID


class DecodingDefaults(ManifestSection):
    """Search options of the model's config, the defaults of ``lite-nlp translate``.

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


class Manifest(ManifestSection):
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
        runtimes: What the bundle holds for each runtime. In JSON every entry stands under the runtime's name, null for
            a runtime that the bundle has no graphs for.
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
    runtimes: dict[str, SerializeAsAny[RuntimeEntry]] = Field(default_factory=dict)
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
        wanted = [TOKENIZER_FILE, CONFIG_FILE, *(name for entry in self.runtimes.values() for name in entry.members)]
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
    def layout(self) -> Layout:
        """Layout of the graphs, by which a runtime calls them."""
        return Layout(self.state, self.bounds)

    def to_json(self) -> bytes:
        """The text of ``manifest.json``: the same manifest gives the same bytes."""
        unsaid = {name for name in ("decoding", "scores", "packed") if not getattr(self, name)}
        document: dict[str, Any] = {}
        for key, value in self.model_dump(mode="json", exclude=unsaid).items():
            document.update({**dict.fromkeys(RUNTIMES), **value} if key == "runtimes" else {key: value})
        return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


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
        return Manifest.model_validate(_collect_entries(document))
    except ValueError as error:
        found = "; ".join(_describe_problems(error)) if isinstance(error, ValidationError) else str(error)
        raise BundleError(f"{source}: {MANIFEST_FILE}: expected a bundle's manifest, found: {found}") from error


def _collect_entries(document: Any) -> Any:
    """The document with the entries of the runtimes in one place.

    Raises:
        ValueError: If an entry is not what its runtime expects; names every problem.
    """
    if not isinstance(document, dict):
        return document
    entries = {}
    for name, runtime in RUNTIMES.items():
        if document.get(name) is not None:
            try:
                entries[name] = runtime.entry.model_validate(document[name])
            except ValidationError as error:
                raise ValueError("; ".join(_describe_problems(error, name))) from error
    return {**document, "runtimes": entries}


def _describe_problems(error: ValidationError, *where: str) -> list[str]:
    return [
        f"{'.'.join([*where, *map(str, problem['loc'])]) or 'manifest'}: {problem['msg']}" for problem in error.errors()
    ]
