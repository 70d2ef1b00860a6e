"""The benchmark of translation: its arithmetic, its turns, its JSON; no time is held against anything."""

import json
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lite_nlp.config.model import EncoderDecoderConfig
from tests.integration.conftest import write_model
from tests.integration.small_bundle import TOKENIZER, record_work, write_small_bundle
from tests.unit.benchmarks.scripts import loaded

MODEL = EncoderDecoderConfig(
    family="lite-transformer",
    src_vocab_size=6000,
    tgt_vocab_size=6000,
    tie_embeddings="all",
    embed_dim=256,
    ffn_dim=256,
    num_heads=4,
    conv_num_heads=4,
    num_encoder_layers=4,
    num_decoder_layers=4,
    kernel_sizes=(3, 7, 15, 31),
    decoder_kernel_sizes=(3, 7, 15, 31),
)
SENTENCES = ["a few words", "and a few more", "and then a few more words"]


@pytest.fixture(scope="module")
def modules() -> Iterator[SimpleNamespace]:
    with loaded("translate_rows", "translate_engines", "translate_processes", "translate") as found:
        yield SimpleNamespace(**{name.removeprefix("translate_"): module for name, module in found.items()})


@pytest.mark.parametrize("beam", [1, 4])
def test_the_random_transformer_has_the_models_work(modules: SimpleNamespace, beam: int) -> None:
    equal = modules.rows.equal_transformer(MODEL, src_len=20, steps=20, beam=beam)
    lengths = [(20, 20)]
    ours, theirs = (modules.rows.mean_macs(config, lengths, beam) for config in (MODEL, equal))
    assert abs(theirs - ours) <= 0.02 * ours
    assert (equal.family, equal.embed_dim, equal.tgt_vocab_size) == ("transformer", 256, 6000)
    # Worked out by hand: projections and attention of a layer, feed-forward, LayerNorms, the output.
    layers, width, inner, rows = equal.num_encoder_layers, 256, equal.ffn_dim, 20 * beam
    encoder = 20 * (4 * width**2 + 2 * width * inner + 2 * width) + 2 * 20 * 20 * width
    decoder = rows * (6 * width**2 + 2 * width * inner + 3 * width) + 20 * 2 * width**2
    attended = beam * (20 * 21 // 2 + 20 * 20) * 2 * width
    by_hand = layers * (encoder + decoder + attended) + (20 + rows) * width + rows * 6000 * width
    assert theirs == by_hand


def test_no_random_transformer_is_as_small_as_a_tiny_model(modules: SimpleNamespace) -> None:
    tiny = MODEL.model_copy(update={"num_encoder_layers": 1, "num_decoder_layers": 1, "ffn_dim": 1})
    tiny = tiny.model_copy(update={"kernel_sizes": (3,), "decoder_kernel_sizes": (3,)})
    with pytest.raises(ValueError, match="expected a Transformer of about"):
        modules.rows.equal_transformer(tiny, src_len=20, steps=20, beam=1)


def test_ratios_are_taken_within_each_round(modules: SimpleNamespace) -> None:
    """The machine is twice as slow in the second round, which changes no ratio."""
    rows = modules.rows
    ours = rows.Contender(engine="onnx", model="m", config=MODEL, precision="fp32", facts={"bundle": "m.zip"})
    rival = rows.Contender(engine="ctranslate2", model="r", config=MODEL, precision="int8")
    older = rows.Contender(
        engine="ctranslate2", model="r", config=MODEL, precision="int8", facts={"instruction_set": "AVX2"}
    )
    contenders = {one.label: one for one in (ours, older, rival)}
    assert list(contenders) == ["onnx fp32 m.zip", "ctranslate2 int8 AVX2", "ctranslate2 int8"]
    turns = {
        ours.label: [(0.3, 0.2), (0.6, 0.4), (0.3, 0.2)],
        older.label: [(0.2, 0.2), (0.4, 0.4), (0.2, 0.2)],
        rival.label: [(0.1, 0.1), (0.2, 0.2), (0.1, 0.1)],
    }
    lengths = {label: [(20, 20), (10, 12)] for label in contenders}
    found = rows.describe_rows(contenders, turns, lengths, beam=1)
    assert [row["ratio_to_ctranslate2_int8"] for row in found] == [3.0, 2.0, 1.0]
    assert [row["cpu_ratio_to_ctranslate2_int8"] for row in found] == [2.0, 2.0, 1.0]
    assert (found[0]["ms"], found[0]["cpu_ms"]) == (150.0, 100.0)
    assert found[0]["bundle"] == "m.zip"
    pairs = [rows.mean_macs(MODEL, [pair], 1) for pair in ((20, 20), (10, 12))]
    assert found[0]["macs"] == round(sum(pairs) / 2)
    del contenders[rival.label]
    assert rows.describe_rows(contenders, turns, lengths, beam=1)[0]["ratio_to_ctranslate2_int8"] is None


def test_every_round_begins_with_another_engine(modules: SimpleNamespace) -> None:
    taken: list[str] = []

    def taker(name: str) -> Any:
        return lambda: (taken.append(name), (float(len(taken)), 0.0))[1]

    turns = modules.processes.interleave({name: taker(name) for name in "abc"}, 3)
    assert "".join(taken) == "abcbcacab"
    assert {name: len(found) for name, found in turns.items()} == {"a": 3, "b": 3, "c": 3}
    assert turns["a"] == [(1.0, 0.0), (6.0, 0.0), (8.0, 0.0)]


def test_batches_are_sorted_by_length(modules: SimpleNamespace) -> None:
    assert modules.rows.batches_of([[1] * 3, [1], [1] * 2], 2) == [[[1], [1] * 2], [[1] * 3]]
    sources = modules.rows.random_sources(5, length=20, types=9)
    assert {len(source) for source in sources} == {19}
    assert min(map(min, sources)) >= 3
    assert max(map(max, sources)) < 9


@pytest.fixture
def in_threads(modules: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Engines are threads of this process, and CTranslate2 one that takes no time; gives the tasks of the latter."""
    tasks: list[dict[str, Any]] = []

    @contextmanager
    def own_engine(task: dict[str, Any]) -> Iterator[Any]:
        ours, theirs = multiprocessing.Pipe()
        thread = threading.Thread(target=modules.engines.serve, args=(theirs, task))
        thread.start()
        with modules.processes._running(ours, task["engine"]) as running:
            yield running
        thread.join()

    @contextmanager
    def ctranslate2_engine(python: str, task: dict[str, Any], instruction_set: str) -> Iterator[Any]:
        tasks.append({**task, "instruction_set": instruction_set})
        steps = [[count] * len(batch) for batch, count in zip(task["batches"], task["steps"], strict=True)]
        yield modules.processes.Running(steps, "4.8.5", lambda: (1.0, 1.0))

    monkeypatch.setattr(modules.translate, "own_engine", own_engine)
    monkeypatch.setattr(modules.translate, "ctranslate2_engine", ctranslate2_engine)
    monkeypatch.setattr(modules.translate, "missing_ctranslate2", lambda python: "")
    return tasks


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "tiny"
    sizes = {"num_heads": 2, "ffn_dim": 48, "max_positions": 300}
    write_model(folder, SENTENCES, tokenizer=TOKENIZER.to_json(), family="transformer", **sizes)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle without graphs, which no runtime runs."""
    return write_small_bundle(tmp_path_factory.mktemp("bundle") / "tiny.zip", record_work())


def run(modules: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, *words: str | Path) -> None:
    monkeypatch.setattr(sys, "argv", ["translate.py", *map(str, words), "--rounds", "2", "--sentences", "3"])
    modules.translate.main()


def test_the_json_of_forced_lengths(
    modules: SimpleNamespace,
    model: Path,
    bundle: Path,
    in_threads: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    own_contenders = modules.translate.own_contenders
    # An export takes seconds.
    monkeypatch.setattr(modules.translate, "own_contenders", lambda *given: own_contenders(*given)[:1])
    words = ["--bundle", bundle, "--batch", "2", "--beam", "2", "--instruction-set", "AVX2", "--json"]
    run(modules, monkeypatch, model, *words)
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["threads"], found["batch"], found["beam"]) == (1, 1, 2, 2)
    engines = [(row["engine"], row["precision"], row.get("instruction_set")) for row in found["rows"]]
    assert engines == [
        ("torch", "fp32", None),
        ("ctranslate2", "int8", None),
        ("ctranslate2", "fp32", None),
        ("ctranslate2", "int8", "AVX2"),
        ("ctranslate2", "fp32", "AVX2"),
    ]
    for row in found["rows"]:
        assert set(row) >= {"engine", "model", "ms", "macs", "ratio_to_ctranslate2_int8", "cpu_ms", "version"}
    ours, theirs = found["rows"][0]["macs"], found["rows"][1]["macs"]
    assert abs(ours - theirs) <= 0.02 * ours
    task = in_threads[0]
    assert (task["compute_type"], task["beam"], task["steps"]) == ("int8", 2, [20, 20])
    assert [len(batch) for batch in task["batches"]] == [2, 1]
    assert {len(row) for batch in task["batches"] for row in batch} == {20}
    assert [task["instruction_set"] for task in in_threads] == ["", "", "AVX2", "AVX2"]


def test_real_text_ends_where_the_model_ends_it(
    modules: SimpleNamespace,
    model: Path,
    bundle: Path,
    in_threads: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "text.txt").write_text("\n".join(["", *SENTENCES]), encoding="utf-8")
    run(modules, monkeypatch, model, "--bundle", bundle, "--input", tmp_path / "text.txt", "--json")
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["engine"] for row in rows[:2]] == ["torch", "torch.onnx.export"]
    # The plain export gives the model's own tokens, so it does the same work.
    assert rows[0]["macs"] == rows[1]["macs"]
    assert len({len(row) for batch in in_threads[0]["batches"] for row in batch}) > 1
    assert len(in_threads[0]["steps"]) == len(SENTENCES)


def test_the_table_names_every_engine(modules: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "engine": "onnx",
        "precision": "fp32",
        "model": "m",
        "bundle": "m.zip",
        "ms": 2.0,
        "cpu_ms": 1.5,
        "macs": 94_000_000,
        "ratio_to_ctranslate2_int8": None,
        "cpu_ratio_to_ctranslate2_int8": 4.256,
    }
    result = {"lengths": "20 -> 20 tokens", "threads": 1, "batch": 1, "beam": 1, "rows": [row]}
    modules.translate.Console(width=120).print(modules.translate.table(result))
    shown = capsys.readouterr().out
    for cell in ("onnx fp32 m.zip", "2.00", "1.50", "94.0", " - ", "4.26"):
        assert cell in shown


@pytest.mark.parametrize(("option", "number"), [("--threads", "0"), ("--beam", "257"), ("--batch", "0")])
def test_numbers_out_of_range_are_refused(
    modules: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str,
    number: str,
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(modules, monkeypatch, option, number)
    assert f"{option}: expected" in capsys.readouterr().err


def test_an_interpreter_without_ctranslate2_is_told(modules: SimpleNamespace, tmp_path: Path) -> None:
    assert "No such file" in modules.processes.missing_ctranslate2(str(tmp_path / "python"))
