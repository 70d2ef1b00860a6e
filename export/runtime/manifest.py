"""``manifest.json``: contents of a bundle, signatures of its graphs, and its origin. Imports no torch.

Read and written through one validated model, so that a bundle which this module accepts can be run without further
checks of its structure.
"""

import json
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    FailFast,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from lite_nlp.budget.traced.graphs import TASK_GRAPHS, work_from_json
from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import BundleError
from lite_nlp.core.parsing import MAX_DOCUMENT_BYTES, parse_json
from lite_nlp.core.special_tokens import BOS_ID, EOS_ID, PAD_ID
from lite_nlp.data.tokenizer_document import MAX_TOKENIZER_BYTES
from lite_nlp.export.runtime.interface import RuntimeEntry
from lite_nlp.export.runtime.layout import Bounds, Layout, ManifestSection, Precision, StateTensor
from lite_nlp.export.runtime.limits import (
    MADE_BYTES_ALWAYS,
    MADE_BYTES_PER_STORED,
    MAX_BUNDLE_BYTES,
    MAX_COUNT,
    MAX_FILES,
    MAX_GRAPHS,
    MAX_MANIFEST_BYTES,
    MAX_SCORES,
    MAX_STATE_BYTES,
    MAX_STATE_TENSORS,
    MAX_TERMS,
    MAX_TEXT,
    MAX_VERSIONS,
    TOKENIZER_BYTES_ALWAYS,
    Text,
    at_most,
)
from lite_nlp.export.runtime.programs import (
    TRANSLATION,
    Classes,
    ExecuTorchPrograms,
    OnnxPrograms,
    Programs,
    Task,
    program_signatures,
)
from lite_nlp.export.runtime.recipes import Packed
from lite_nlp.export.runtime.registry import RUNTIMES
from lite_nlp.export.runtime.signatures import Signature
from lite_nlp.export.runtime.stored_zip import is_plain_name

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

#: What the graphs are given beside the state.
_ARGUMENTS: Final = ("tokens", "src_tokens", "logits")

#: Problems that a message names; a manifest may have thousands.
_MAX_PROBLEMS: Final = 10

_Type = Annotated[int, Field(ge=0, lt=MAX_VOCAB_SIZE)]


def _checked_name(name: str) -> str:
    if not is_plain_name(name) or name == MANIFEST_FILE:
        raise ValueError("expected plain member names, found another")
    return name


_MemberName = Annotated[str, AfterValidator(_checked_name)]


class FileEntry(ManifestSection):
    """Size and hash of a member of the bundle."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0, le=MAX_BUNDLE_BYTES)


class Languages(ManifestSection):
    """Source and target language, as ISO 639 codes or whatever the data was labelled with."""

    src: Text
    tgt: Text


class Vocabulary(ManifestSection):
    """Sizes of the vocabularies and ids of the special tokens."""

    src_size: int = Field(ge=1, le=MAX_VOCAB_SIZE)
    tgt_size: int = Field(ge=1, le=MAX_VOCAB_SIZE)
    pad_id: _Type = PAD_ID
    bos_id: _Type = BOS_ID
    eos_id: _Type = EOS_ID


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

    length_penalty: float = Field(ge=0.0, allow_inf_nan=False)
    no_repeat_ngram: int = Field(ge=0, le=MAX_COUNT)
    min_length: int = Field(ge=0, le=MAX_COUNT)
    max_length: int = Field(ge=0, le=MAX_COUNT)
    long_input: Literal["split", "truncate"]
    max_source_tokens: int = Field(ge=1, le=MAX_COUNT)


class Manifest(ManifestSection):
    """A bundle's table of contents.

    Attributes:
        schema_version: Of this layout.
        task: What the model does; in JSON only if it is not translation, which is all that turns a text into another.
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
        classes: Of a classifier; None for other tasks.
        programs: What the bundle holds for each runtime if its task is not translation; no runtime has an entry then.
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
    task: Task = TRANSLATION
    name: Text
    versions: Annotated[dict[Text, Text], at_most(MAX_VERSIONS)]
    precision: Precision
    languages: Languages | None = None
    vocabulary: Vocabulary
    bounds: Bounds
    decoding: DecodingDefaults | None = None
    state: Annotated[tuple[StateTensor, ...], FailFast(), at_most(MAX_STATE_TENSORS)]
    runtimes: dict[str, SerializeAsAny[RuntimeEntry]] = Field(default_factory=dict)
    classes: Classes | None = None
    programs: Programs = Programs()
    parity: dict[str, Any] = Field(default_factory=dict)
    budget: dict[str, Any] = Field(default_factory=dict)
    graphs: Annotated[dict[Text, Any], at_most(MAX_GRAPHS)] = Field(default_factory=dict)
    scores: Annotated[dict[Text, dict[str, Any]], at_most(MAX_SCORES)] = Field(default_factory=dict)
    files: Annotated[dict[_MemberName, FileEntry], at_most(MAX_FILES)]
    packed: Packed | None = None

    @field_validator("graphs")
    @classmethod
    def _work_readable(cls, graphs: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        for name, work in graphs.items():
            try:
                _check_work(work)
                work_from_json(work, task=info.data.get("task", TRANSLATION))
            except BundleError as error:
                raise ValueError(f"{name}: {error}") from error
        return graphs

    @field_validator("state")
    @classmethod
    def _state_told_apart(cls, state: tuple[StateTensor, ...]) -> tuple[StateTensor, ...]:
        names = [tensor.name for tensor in state]
        if len({*names, *_ARGUMENTS}) != len(names) + len(_ARGUMENTS):
            raise ValueError(f"expected names that differ from each other and from {', '.join(_ARGUMENTS)}")
        return state

    @model_validator(mode="after")
    def _programs_fit(self) -> Self:
        expected = TASK_GRAPHS.get(self.task, frozenset())
        for entry in self.programs.entries.values():
            if not expected or entry.names != expected or self.runtimes:
                raise ValueError(
                    f"programs: expected the graphs {', '.join(sorted(expected)) or 'of no task'} alone for "
                    f"{self.task}, found {', '.join(sorted(entry.names)) or 'none'}"
                )
        unknown = set() if self.programs.onnx is None else {*self.programs.onnx.caches} - {*self.layout.changing}
        if unknown:
            raise ValueError(f"programs: onnx: caches: expected state that changes, found {', '.join(sorted(unknown))}")
        if (self.classes is None) == (self.task == "classification"):
            raise ValueError("classes: expected them of a classifier, and of nothing else")
        return self

    @model_validator(mode="after")
    def _state_fits(self) -> Self:
        size = sum(tensor.row_bytes(self.bounds) for tensor in self.state)
        if size > MAX_STATE_BYTES:
            raise ValueError(
                f"state: expected at most {MAX_STATE_BYTES} bytes for a row at the largest sizes, found {size}"
            )
        return self

    @model_validator(mode="after")
    def _members_listed(self) -> Self:
        wanted = [TOKENIZER_FILE, CONFIG_FILE, *(name for entry in self.entries.values() for name in entry.members)]
        made = {} if self.packed is None else self.packed.members
        ingredients = set() if self.packed is None else self.packed.ingredients
        missing = sorted({name for name in wanted if name not in {*self.files, *made} - ingredients})
        missing += sorted(ingredients - set(self.files))
        twice = sorted(set(made) & {MANIFEST_FILE, *self.files})
        if twice:
            raise ValueError(f"packed: expected members that are not stored, found {', '.join(twice)} in both")
        if missing:
            raise ValueError(f"files: expected an entry for {', '.join(missing)}, found none")
        return self

    @model_validator(mode="after")
    def _in_proportion(self) -> Self:
        stored = sum(entry.size_bytes for entry in self.files.values())
        limit = MADE_BYTES_ALWAYS + MADE_BYTES_PER_STORED * stored
        if self.packed is not None and self.packed.made_bytes > limit:
            raise ValueError(
                f"packed: members: expected at most {limit} bytes in all, made of {stored}, found "
                f"{self.packed.made_bytes}"
            )
        sizes = {name: entry.size_bytes for name, entry in self.files.items()}
        if self.packed is not None:
            sizes |= {name: member.size_bytes for name, member in self.packed.members.items()}
        for name, limit in (
            (TOKENIZER_FILE, min(MAX_TOKENIZER_BYTES, TOKENIZER_BYTES_ALWAYS + stored)),
            (CONFIG_FILE, MAX_DOCUMENT_BYTES),
            (METRICS_FILE, MAX_DOCUMENT_BYTES),
        ):
            if sizes.get(name, 0) > limit:
                raise ValueError(f"{name}: expected at most {limit} bytes, found {sizes[name]}")
        return self

    @property
    def entries(self) -> dict[str, RuntimeEntry | OnnxPrograms | ExecuTorchPrograms]:
        """By the name of the runtime, what the bundle holds for it, whatever its task."""
        return {**self.runtimes, **self.programs.entries}

    @property
    def layout(self) -> Layout:
        """Layout of the graphs, by which a runtime calls them."""
        return Layout(self.state, self.bounds, self.vocabulary.tgt_size)

    @property
    def signatures(self) -> dict[str, Signature]:
        """Of the graphs of a language model or classifier, by their names.

        Raises:
            BundleError: If the bundle is for another task.
        """
        return program_signatures(self.task, self.layout, self.classes)

    def recorded_count(self, section: str, key: str) -> int:
        """A figure of ``budget``; 0 if it is not recorded, or is no count."""
        found = self.budget.get(section)
        value = found.get(key) if isinstance(found, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0

    def to_json(self) -> bytes:
        """The text of ``manifest.json``: the same manifest gives the same bytes."""
        unsaid = {name for name in ("decoding", "scores", "packed", "classes") if not getattr(self, name)}
        if self.task == TRANSLATION:
            unsaid |= {"task", "programs"}
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
    where = f"{source}: {MANIFEST_FILE}"
    document = parse_json(content, source=where, error=BundleError, max_bytes=MAX_MANIFEST_BYTES)
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version is None:
        raise BundleError(f"{where}: expected a bundle's manifest with its schema_version, found none")
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BundleError(
            f"{where}: expected schema_version {SCHEMA_VERSION}, found {version}: the bundle was "
            "made by a newer lite-nlp; upgrade this one"
        )
    try:
        return Manifest.model_validate(_collect_entries(document))
    except ValueError as error:
        found = "; ".join(_describe_problems(error)) if isinstance(error, ValidationError) else str(error)
        raise BundleError(f"{where}: expected a bundle's manifest, found: {found}") from error


def _collect_entries(document: Any) -> Any:
    """The document with the entries of the runtimes in one place.

    Raises:
        ValueError: If an entry is not what its runtime expects; names the first problems.
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
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    described = []
    for problem in problems[:_MAX_PROBLEMS]:
        path = ".".join([*where, *(str(key)[:MAX_TEXT] for key in problem["loc"])])
        described.append(f"{path or 'manifest'}: {problem['msg']}")
    if len(problems) > _MAX_PROBLEMS:
        described.append(f"and {len(problems) - _MAX_PROBLEMS} more")
    return described


def _check_work(work: Any) -> None:
    """Refuse polynomials of more terms than any graph has, before they are summed.

    Raises:
        BundleError: Without the name of the graph.
    """
    graphs = work.values() if isinstance(work, dict) else ()
    for kinds in graphs:
        for terms in kinds.values() if isinstance(kinds, dict) else ():
            if isinstance(terms, list) and len(terms) > MAX_TERMS:
                raise BundleError(f"polynomial: expected at most {MAX_TERMS} terms, found {len(terms)}")
