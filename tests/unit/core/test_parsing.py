"""Documents that nobody vouches for: bounds, strictness and one kind of error."""

import json
import os
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lite_nlp.core.errors import ConfigError, DataError, LiteNlpError, ModelError
from lite_nlp.core.parsing import (
    MAX_DEPTH,
    MAX_VALUES,
    decode_text,
    parse_json,
    parse_json_object,
    parse_toml,
    parsing,
    read_document,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(content: bytes) -> object:
    return parse_json(content, source="card.json", error=ModelError)


def refusal(parse: Callable[[], object]) -> str:
    """The message of our error; empty if there was none."""
    try:
        parse()
    except LiteNlpError as error:
        return str(error)
    return ""


@given(values, st.booleans())
def test_reads_what_json_writes(value: object, ascii_only: bool) -> None:
    content = json.dumps(value, ensure_ascii=ascii_only)
    assert read(content.encode("utf-8")) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_our_error(content: bytes) -> None:
    message = refusal(lambda: read(content))
    if message:
        assert message.startswith("card.json: expected ")
    else:
        assert read(content) == json.loads(content.decode("utf-8"))


@given(
    st.lists(st.sampled_from([b'"', b"\\", b"[", b"]", b"{", b"}", b":", b",", b"1", b"\\u", b"d800", b" ", b"NaN"]))
)
def test_any_pieces_of_json_are_read_or_refused_with_our_error(pieces: list[bytes]) -> None:
    message = refusal(lambda: read(b"".join(pieces)))
    assert not message or message.startswith("card.json: expected ")


@pytest.mark.parametrize(
    ("content", "expected", "found"),
    [
        (b"[" * 90_000, f"JSON of at most {MAX_DEPTH} levels", "more"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, f"JSON of at most {MAX_DEPTH} levels", "more"),
        (b"[" + b"0," * MAX_VALUES + b"0]", f"JSON of at most {MAX_VALUES} values", str(MAX_VALUES + 2)),
        (b"[]" * 3_000_000, "at most 4194304 bytes", "6000000"),
        (b"9" * 9000, "JSON", "an integer beyond 64 bits, 9999999999"),
        (b"[9223372036854775808]", "JSON", "an integer beyond 64 bits"),
        (b"[-9223372036854775809]", "JSON", "an integer beyond 64 bits"),
        (b"[NaN]", "JSON", "NaN"),
        (b'{"b": {"a": 1, "a": 1}}', "JSON", "the key 'a' twice"),
        (b"[-Infinity]", "JSON", "-Infinity"),
        (b"[1e999]", "JSON", "1e999"),
        (b'["\\ud800"]', "JSON", "lone surrogate U+D800"),
        (b'{"\\udfff": 1}', "JSON", "lone surrogate U+DFFF"),
        (b'"' + b'\\"' * 1_000_000, "JSON", "Unterminated string"),
        ('["\N{LATIN SMALL LETTER E WITH ACUTE}"]'.encode("latin-1"), "JSON", "'utf-8' codec"),
        ("[]".encode("utf-16"), "JSON", "'utf-8' codec"),
        (b"", "JSON", "Expecting value"),
    ],
)
def test_hostile_json_is_refused(content: bytes, expected: str, found: str) -> None:
    with pytest.raises(ModelError, match=rf"^card\.json: expected {re.escape(expected)}, found .*{re.escape(found)}"):
        read(content)


def test_brackets_and_commas_in_strings_are_not_counted() -> None:
    text = "[{," * MAX_VALUES
    assert read(json.dumps([text, '"' + text]).encode()) == [text, '"' + text]


def test_the_deepest_document_is_read() -> None:
    read(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


def test_refusing_takes_little_more_memory_than_the_document() -> None:
    content = b"[" + b"[]," * 1_000_000 + b"[]]"
    tracemalloc.start()
    try:
        with pytest.raises(ModelError):
            read(content)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(content)
    finally:
        tracemalloc.stop()


def test_another_value_than_an_object_is_named() -> None:
    for content, kind in ((b"[]", "a list"), (b'"x"', "a string"), (b"null", "null"), (b"2", "a number")):
        with pytest.raises(DataError, match=rf"^card\.json: expected a JSON object, found {kind}$"):
            parse_json_object(content, source="card.json", error=DataError)


@pytest.mark.parametrize(
    "content",
    [
        b"a = " + b"[" * 100_000,
        b"a = \xff",
        b"a = 9" + b"9" * 9000,
        b"#" * 300_000,
        b"a." * 5000 + b"a = 1",
        b"a." * 300 + b"a = 1",
    ],
)
def test_hostile_toml_is_refused(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^config\.toml: expected "):
        parse_toml(content, source="config.toml", error=DataError)


@given(st.text(alphabet='ab=[]{}"\n.#1', max_size=60))
def test_any_toml_is_read_or_refused_with_our_error(text: str) -> None:
    message = refusal(lambda: parse_toml(text.encode(), source="config.toml", error=DataError))
    assert not message or message.startswith("config.toml: expected TOML")


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(DataError, match=r"^card: expected text in UTF-8, found"):
        decode_text(b"\xe9", source="card", error=DataError)


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    path.write_bytes(b"12345")
    assert read_document(path, expected="a card", error=ModelError, max_bytes=5) == b"12345"
    with pytest.raises(ModelError, match=r"card\.json: expected a card of at most 4 bytes, found more"):
        read_document(path, expected="a card", error=ModelError, max_bytes=4)


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe, directory = tmp_path / "pipe", tmp_path / "directory"
    os.mkfifo(pipe)
    directory.mkdir()
    for path in (pipe, directory, tmp_path / "missing", tmp_path / "missing" / "below", Path("/dev/zero")):
        with pytest.raises(ModelError, match=f"^{re.escape(str(path))}: expected a card, found "):
            read_document(path, expected="a card", error=ModelError)


class Panic(BaseException):
    """Stands for the panic of a Rust library, which is no ``Exception``."""


@pytest.mark.parametrize("raised", [Panic("index out of bounds"), RecursionError(), KeyError("model"), MemoryError()])
def test_whatever_a_parser_raises_becomes_our_error(raised: BaseException) -> None:
    message = r"^a\.json: expected a tokenizer, found an error: ."
    with pytest.raises(DataError, match=message) as caught, parsing("a.json", "a tokenizer", DataError):
        raise raised
    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, ModelError])
def test_interruptions_and_our_errors_pass(raised: type[BaseException]) -> None:
    with pytest.raises(raised), parsing("a.json", "a tokenizer", DataError):
        raise raised


def test_toml_may_begin_with_a_byte_order_mark() -> None:
    assert parse_toml(b"\xef\xbb\xbfx = 1\n", source="a.toml", error=ConfigError) == {"x": 1}
