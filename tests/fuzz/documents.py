"""Hostile documents: manifests, tokenizers, configs, and JSON of any kind."""

import json
import tomllib
from random import Random
from typing import Any

import tomli_w

from tests.fuzz.mutations import dump_json, edit_json, mutate_bytes, mutate_json_text

__all__ = ["edit_tokenizer", "mutate_config", "mutate_json", "mutate_tokenizer"]


def mutate_json(rng: Random, content: bytes) -> bytes:
    """A document with values, text or bytes changed."""
    match rng.randrange(6):
        case 0:
            return mutate_bytes(rng, content)
        case 1 | 2:
            return mutate_json_text(rng, content)
        case _:
            return dump_json(rng, edit_json(rng, json.loads(content)))


def mutate_tokenizer(rng: Random, content: bytes) -> bytes:
    """A tokenizer with its options, types or merges changed."""
    if rng.random() < 0.4:
        return mutate_json(rng, content)
    return dump_json(rng, edit_tokenizer(rng, json.loads(content)))


def edit_tokenizer(rng: Random, document: dict[str, Any]) -> dict[str, Any]:
    """The document with a change that only its model can tell from an honest one."""
    types, merges = document["model"]["vocab"], document["model"]["merges"]
    names = list(types)
    match rng.randrange(8):
        case 0:
            first, second = rng.sample(names, 2)
            types[first], types[second] = types[second], types[first]
        case 1:
            del types[rng.choice(names)]
        case 2:
            types[rng.choice(("zz", "é", "", "Ġ" * 5000, " "))] = rng.choice(
                (len(types), 0, -1, 1 << 31, len(types) + 5)
            )
        case 3 if merges:
            merges[rng.randrange(len(merges))] = [rng.choice(names), rng.choice(names)]
        case 4 if merges:
            merges.insert(rng.randrange(len(merges) + 1), rng.choice(merges))
        case 5 if merges:
            pair = rng.randrange(len(merges))
            merges[pair] = " ".join(merges[pair]) if isinstance(merges[pair], list) else merges[pair].split(" ")
        case 6:
            options = [
                document[key] for key in ("normalizer", "pre_tokenizer", "decoder", "model") if document.get(key)
            ]
            options = [option for option in options if isinstance(option, dict)]
            option = rng.choice(options)
            flags = [key for key, value in option.items() if isinstance(value, bool | str) or value is None]
            if flags:
                option[rng.choice(flags)] = rng.choice((True, False, None, "x", "NFKC", 0.5, "<pad>"))
        case 7:
            edited = edit_json(rng, {key: value for key, value in document["model"].items() if key != "vocab"})
            document["model"] = {**edited, "vocab": types} if isinstance(edited, dict) else edited
    return document


def mutate_config(rng: Random, content: bytes) -> bytes:
    """A config with values, lines or bytes changed."""
    match rng.randrange(5):
        case 0:
            return mutate_bytes(rng, content)
        case 1:
            lines = content.split(b"\n")
            rng.shuffle(lines)
            return b"\n".join(lines)
        case 2:
            pieces = (
                b"x = " + b"[" * 2000, b"a." * 2000 + b"b = 1\n", b"[[model]]\n", b"x = " + b"9" * 9000 + b"\n",
                b"x = nan\n", b"x = 1e999\n", b'x = """', b"\xff", b"\0", b"[model]\n",
                b"x = 1979-05-27T07:32:00Z\n", b"x = 0x" + b"f" * 9999,
            )  # fmt: skip
            place = rng.randrange(len(content) + 1)
            return content[:place] + rng.choice(pieces) + content[place:]
        case _:
            edited = edit_json(rng, tomllib.loads(content.decode()))
            try:
                return tomli_w.dumps(edited).encode("utf-8", "surrogatepass")
            except (TypeError, AttributeError, RecursionError):
                # None has no form in TOML, nor has anything but a table at the top.
                return json.dumps(edited).encode("utf-8", "surrogatepass")
