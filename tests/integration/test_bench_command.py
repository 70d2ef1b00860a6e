"""``lite-nlp bench`` on a bundle of random weights. No figure that is a time is held against anything."""

import copy
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import lite_nlp as lite_nlp_package
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import UsageError
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.runtime import create_engine, open_bundle
from lite_nlp.export.runtime.latency import tokens_sha256
from tests.integration.conftest import SENTENCES, LiteNlp, run_process
from tests.integration.installations import Installation
from tests.integration.stopping import started, stop, wait_for

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "lite_nlp" / "assets" / "bench.schema.json").read_text(encoding="utf-8"))
LINES = [*SENTENCES[:3], "", "A"]


def _strict(schema: Any) -> Any:
    """The schema with every key that it does not name refused."""
    if isinstance(schema, list):
        return [_strict(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _strict(value) for key, value in schema.items()}
    return made | {"additionalProperties": False} if "properties" in schema and "required" in schema else made


def _problems(content: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(_strict(SCHEMA)).iter_errors(content)]


@pytest.fixture(scope="module")
def bundle(exported: tuple[Path, str, str]) -> Path:
    return exported[0]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("input") / "sentences.txt"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def report(bundle: Path, sentences: Path) -> dict[str, Any]:
    """Both runtimes, two thread counts, everything counted twice."""
    words = ["--input", str(sentences), "--threads", "1,2", "--repeats", "2", "--warmup", "0", "--json"]
    done = run_process("bench", str(bundle), *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_the_report_follows_the_schema(report: dict[str, Any]) -> None:
    assert next(iter(report)) == "schema_version"
    assert _problems(report) == []


def test_every_key_is_required_and_has_its_type(report: dict[str, Any]) -> None:
    def places(value: Any) -> Iterator[tuple[Any, str | int]]:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            if isinstance(inner, dict | list):
                yield from places(inner)

    damaged = copy.deepcopy(report)
    for parent, key in list(places(damaged)):
        kept = parent[key]
        parent[key] = {"nothing": "known"}
        assert _problems(damaged), key
        parent[key] = kept
        if isinstance(parent, dict):
            del parent[key]
            # The app's benchmark, which has the same schema, does not measure the one and only translates.
            assert _problems(damaged) or key in ("opening", "task"), key
            parent[key] = kept
            parent["unheard of"] = 1
            assert _problems(damaged), key
            del parent["unheard of"]
    assert damaged == report


def test_the_rows_are_all_runtimes_with_all_threads(report: dict[str, Any]) -> None:
    found = [(row["runtime"], row["threads"]) for row in report["rows"]]
    assert found == [("onnx", 1), ("onnx", 2), ("executorch", 1), ("executorch", 2)]


def test_tokens_and_work_are_those_of_the_translations(bundle: Path, report: dict[str, Any]) -> None:
    opened = open_bundle(bundle)
    tokenizer = Tokenizer.from_json(opened.tokenizer_json)
    sources = [tokenizer.encode(line) for line in LINES if line]
    capacity = opened.manifest.bounds.capacity
    engine = create_engine(opened, runtime="onnx", threads=1)
    tokens = [search(engine, [source], SearchOptions(max_steps=capacity))[0].tokens for source in sources]
    settings = report["settings"]
    assert settings == {
        "beam": 1,
        "sentences": len(sources),
        "src_tokens": sum(map(len, sources)),
        "tgt_tokens": sum(map(len, tokens)),
        "warmup": 0,
        "repeats": 2,
    }
    for row in report["rows"]:
        assert row["tokens_sha256"] == tokens_sha256(tokens)
        work = GraphWork.from_json(opened.manifest.graphs[row["runtime"]])
        macs = 0
        for source, output in zip(sources, tokens, strict=True):
            slots = min(2 * len(source) + 10, capacity)
            # The forced end mark takes no further step.
            steps = min(len(output) + 1, slots)
            # In one call, and of one sentence in ExecuTorch, a step attends to the tokens so far.
            attended = range(1, steps + 1)
            macs += sum(polynomial(len(source) + 1, slots) for polynomial in work.encode.values())
            macs += sum(polynomial(len(source) + 1, n) for n in attended for polynomial in work.decode_step.values())
        assert row["macs"] == macs
        memory = row["memory_bytes"]
        assert 0 < memory["before"] < memory["loaded"] <= memory["peak"]
        files = {name: entry.size_bytes for name, entry in opened.manifest.files.items()}
        members = opened.manifest.runtimes[row["runtime"]].members
        assert row["opening"]["weights_bytes"] == sum(files[name] for name in members)


def test_the_model_is_described(bundle: Path, report: dict[str, Any]) -> None:
    manifest = open_bundle(bundle).manifest
    model = report["model"]
    assert (model["name"], model["params"]) == ("tiny-model", manifest.budget["params"]["total"])
    assert model["macs"] == manifest.budget["macs"]["executed"]
    assert model["size_bytes"] == sum(entry.size_bytes for entry in manifest.files.values())
    assert bundle.stat().st_size - 20_000 < model["size_bytes"] < bundle.stat().st_size


def test_a_table_and_the_object_in_a_file(
    bundle: Path, sentences: Path, tmp_path: Path, lite_nlp: LiteNlp, report: dict[str, Any]
) -> None:
    words = ["bench", bundle, "--runtime", "onnx", "--input", sentences, "--threads", "1", "--repeats", "1"]
    out = tmp_path / "report.json"
    done = lite_nlp(*words, "--beam", "3", "--out", out)
    assert done.code == 0, done.err
    assert "tiny-model, 4 sentences, beam 3" in done.out
    assert re.search(r"^ *onnx +1 ", done.out, re.MULTILINE)
    written = json.loads(out.read_text(encoding="utf-8"))
    assert _problems(written) == []
    assert written["settings"]["beam"] == 3
    # Three hypotheses take more than one.
    assert written["rows"][0]["macs"] > report["rows"][0]["macs"]
    refused = lite_nlp(*words, "--out", out)
    assert (refused.code, refused.out) == (1, "")
    assert "output exists already" in refused.message
    assert json.loads(out.read_text(encoding="utf-8")) == written


def test_without_torch_the_rows_of_onnx_remain(bundle: Path, sentences: Path, tmp_path: Path) -> None:
    installed = Installation(tmp_path / "runtime", "lite-nlp[runtime]")
    words = f"bench {bundle} --input {sentences} --threads 1 --repeats 1 --warmup 0".split()
    done, needed = installed.run_commands([[*words, "--json"], [*words, "--runtime", "executorch"]])
    assert done.code == 0, done.err
    assert [row["runtime"] for row in json.loads(done.out)["rows"]] == ["onnx"]
    assert "warning: executorch is left out: --runtime executorch: needs the extra lite-nlp[export]" in done.err
    assert (needed.code, needed.out) == (1, "")
    assert "error: --runtime executorch: needs the extra lite-nlp[export]" in needed.err


def test_a_process_that_dies_is_an_error(
    bundle: Path, sentences: Path, tmp_path: Path, lite_nlp: LiteNlp, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr("lite_nlp.api.bench_worker.sys.executable", str(program))
    done = lite_nlp("bench", bundle, "--runtime", "onnx", "--threads", "1", "--input", sentences)
    assert done.code == 1
    assert "expected the measuring process to finish, found that it ended with code 7" in done.message


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nothing.zip"], 1, "nothing.zip: expected a model directory"),
        (["BUNDLE", "--threads", "0"], 2, "--threads: expected numbers from 1 to 512 such as 1,2,4, found '0'"),
        (["BUNDLE", "--threads", "1,x"], 2, "found '1,x'"),
        (["BUNDLE", "--runtime", "torch"], 2, "--runtime: expected one of onnx, executorch, found 'torch'"),
        (["BUNDLE", "--input", "nothing.txt"], 1, "nothing.txt: expected a readable text file"),
        (["BUNDLE", "--input", "LONG"], 1, "line 2: expected at most 95 tokens, which the bundle takes at once, found"),
        (["BUNDLE", "--input", "BLANK"], 1, "expected at least one line that is not blank, found none"),
        (["CUT"], 1, "cut.zip: expected a bundle"),
    ],
)
def test_bad_input(words: list[str], code: int, message: str, bundle: Path, tmp_path: Path, lite_nlp: LiteNlp) -> None:
    made = {name: tmp_path / f"{name.lower()}.txt" for name in ("LONG", "BLANK")}
    made["LONG"].write_text("Good.\n" + "a long line " * 40 + "\n")
    made["BLANK"].write_text("\n  \n")
    made |= {"BUNDLE": bundle, "CUT": tmp_path / "cut.zip"}
    made["CUT"].write_bytes(bundle.read_bytes()[:5000])
    done = lite_nlp("bench", *[made.get(word, word) for word in words])
    assert (done.code, done.out) == (code, "")
    assert message in done.message
    assert "Traceback" not in done.err


def test_a_model_that_is_no_bundle_is_exported_first(
    bundle: Path, model_path: Path, sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exporting takes a minute and is tested elsewhere: the bundle made before is what it gives here."""
    exports = []

    def write(path: Path, loaded: LoadedModel, **options: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bundle.read_bytes())
        exports.append(path)

    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("lite_nlp.artifacts.cache.write_model_bundle", write)
    monkeypatch.setattr("lite_nlp.api.bench.write_model_bundle", write)
    settings: dict[str, Any] = {"runtimes": ["onnx"], "threads": [1], "repeats": 1, "warmup": 0}
    for model in (model_path, model_path, load_model(model_path)):
        report = lite_nlp_package.bench_model(model, input_path=sentences, **settings)
        assert _problems({"schema_version": 1, **report.as_dict()}) == []
        assert report.same_tokens
    in_cache, for_once = exports
    assert in_cache.is_relative_to(tmp_path / "cache")
    assert not for_once.exists()
    with pytest.raises(UsageError, match="--threads: expected numbers from 1 to 512, found"):
        lite_nlp_package.bench_model(bundle, threads=[0])


def _schema_keys(schema: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every leaf of the schema: its path as the page writes it, and its type."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        if name == "summary":
            assert set(SCHEMA["$defs"]["summary"]["properties"]) == {"p50", "p90", "mean", "min", "max"}
            yield f"{prefix}.SUMMARY", "number"
            return
        schema = SCHEMA["$defs"][name]
    if "oneOf" in schema:
        yield prefix, "object or null"
        yield from _schema_keys(schema["oneOf"][1], prefix)
    elif schema.get("type") == "array":
        yield from _schema_keys(schema["items"], f"{prefix}[]")
    elif "properties" in schema:
        for key, inner in schema["properties"].items():
            yield from _schema_keys(inner, f"{prefix}.{key}" if prefix else key)
    else:
        value = schema.get("const", schema.get("enum", [""])[0])
        yield prefix, schema.get("type") or {int: "integer", str: "string"}[type(value)]


def test_the_page_lists_the_keys_of_the_schema() -> None:
    page = (ROOT / "docs" / "bench-schema.md").read_text(encoding="utf-8").partition("\n## JSON of an estimate\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    documented = [(key, row[1]) for row in rows for key in re.findall(r"`([^`]+)`", row[0])]
    assert documented == list(_schema_keys(SCHEMA))


def test_a_process_that_measures_ends_with_its_command(tmp_path: Path, bundle: Path) -> None:
    words = ("bench", str(bundle), "--runtime", "onnx", "--repeats", "10000", "--out", str(tmp_path / "out.json"))
    with started(*words) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_for(lambda: children.read_text().strip(), process)
        stop(process, signal.SIGINT)
    assert os.listdir(tmp_path) == []
