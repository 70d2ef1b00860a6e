"""What is fuzzed: a reader for each kind of file, as the package calls it."""

import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lite_nlp.core.errors import BundleError, ConfigError, ContainerError, DataError, LiteNlpError, ModelError

__all__ = ["KINDS", "TEXTS", "Kind", "canonical"]

#: Encoded by every tokenizer that is accepted: two that read one file must give the same ids.
TEXTS: Final = ("", "a few more words", " Ärger  \n\t√2 東京 123.45 don't 👍🏽", "aaaaaaaaaaaaaaaaaaaaaaaaa", "İﬁ ﷺ ²")


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        read: Reads a file; returns a digest of what it found there, which is the same in both languages.
        errors: What it may refuse a file with.
        suffix: Of the file's name.
        in_kotlin: Whether the app reads it too.
    """

    read: Callable[[Path], str]
    errors: tuple[type[LiteNlpError], ...]
    suffix: str
    in_kotlin: bool = True


def _read_container(path: Path) -> str:
    from lite_nlp.compress.lnlp.container import read_container

    container = read_container(path)
    state = container.state_dict()
    digest = hashlib.sha256()
    for name, tensor in container.tensors.items():
        values = state[name].astype("<i8" if tensor.encoding == "int64" else "<f4", copy=False)
        digest.update(f"{name} {list(values.shape)} {values.dtype}\n".encode())
        digest.update(values.reshape(-1).data)
    for name, content in container.files.items():
        digest.update(name.encode() + content)
    return f"{digest.hexdigest()} {len(container.aliases)}"


def _read_bundle(path: Path) -> str:
    from lite_nlp.artifacts.bundles import open_any_bundle

    return _encode(open_any_bundle(path).tokenizer_json)


def _read_manifest(path: Path) -> str:
    from lite_nlp.export.runtime.manifest import parse_manifest

    return parse_manifest(path.read_bytes(), source=path.name).name


def _read_tokenizer(path: Path) -> str:
    return _encode(path.read_bytes())


def _encode(tokenizer_json: bytes) -> str:
    from lite_nlp.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_json(tokenizer_json)
    return ";".join(",".join(map(str, tokenizer.encode(text))) for text in TEXTS)


def _read_json(path: Path) -> str:
    from lite_nlp.core.parsing import parse_json_object

    return hashlib.sha256(
        canonical(parse_json_object(path.read_bytes(), source=path.name, error=ModelError))
    ).hexdigest()


def _read_config(path: Path) -> str:
    from lite_nlp.config.preset import parse_config
    from lite_nlp.core.parsing import decode_text

    text = decode_text(path.read_bytes(), source=path.name, error=ConfigError)
    return parse_config(text, name=path.name).name


def canonical(value: Any) -> bytes:
    """A value of JSON as bytes that say everything about it: keys sorted, numbers by their bits."""
    match value:
        case None | bool():
            return {None: b"n", True: b"t", False: b"f"}[value]
        case int():
            return b"i%d;" % value
        case float():
            return b"d" + struct.pack(">d", value)
        case str():
            text = value.encode()
            return b"s%d:" % len(text) + text
        case list():
            return b"[" + b"".join(map(canonical, value)) + b"]"
        case dict():
            entries = sorted((canonical(key), canonical(entry)) for key, entry in value.items())
            return b"{" + b"".join(key + entry for key, entry in entries) + b"}"
    raise TypeError(f"expected a value of JSON, found {type(value).__name__}")


#: Every kind. The app has no use for a config: it is the one kind that only Python reads.
KINDS: Final[Mapping[str, Kind]] = {
    "container": Kind(_read_container, (ContainerError,), ".lnlp"),
    "bundle": Kind(_read_bundle, (BundleError, DataError), ".zip"),
    "manifest": Kind(_read_manifest, (BundleError,), ".json"),
    "tokenizer": Kind(_read_tokenizer, (DataError,), ".json"),
    "json": Kind(_read_json, (ModelError,), ".json"),
    "config": Kind(_read_config, (ConfigError,), ".toml", in_kotlin=False),
}
