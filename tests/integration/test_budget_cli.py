import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.preset import dump_config, load_config
from lite_nlp.configs import list_presets
from tests.integration.conftest import LiteNlp

PAGE = Path(__file__).parents[2] / "docs" / "budget.md"
PRESET = "lite-transformer-wmt-200"


def test_a_preset_in_json(lite_nlp: LiteNlp) -> None:
    content = lite_nlp.json("budget", PRESET)
    assert content["target"] == PRESET
    assert content["params"]["paper"] == 2_884_400
    assert content["macs"]["paper"] == 90_132_000
    assert content["within_budget"] is True


def test_a_preset_for_people(lite_nlp: LiteNlp) -> None:
    code, out, err = lite_nlp("budget", PRESET)
    assert (code, err) == (0, "")
    assert "90,132,000" in out
    assert "decoder.cross_attention" in out


def test_lengths_and_overrides(lite_nlp: LiteNlp) -> None:
    content = lite_nlp.json("budget", "transformer-cnndm-512", "--src-len", "100", "--tgt-len", "60")
    assert content["lengths"] == {"src": 100, "tgt": 60}
    assert round(content["macs"]["paper"], -3) == 3_644_805_000
    wider = lite_nlp.json(
        "budget", "lite-transformer-iwslt-160", "--set", "model.embed_dim=240", "--set", "model.ffn_dim=240"
    )
    assert wider["macs"]["paper"] == 119_448_000


def test_check_exits_with_3_and_names_what_weighs_most(lite_nlp: LiteNlp) -> None:
    code, out, err = lite_nlp("budget", "lite-transformer-wmt-496", "--check", "--json")
    assert code == 3
    assert json.loads(out)["within_budget"] is False
    assert "Mult-Adds (paper): 527,436,480 found, at most 500,000,000 allowed; largest: decoder.cross_attention" in err
    assert lite_nlp("budget", "lite-transformer-wmt-496")[0] == 0
    assert lite_nlp("budget", PRESET, "--check")[0] == 0


def test_limits_can_be_moved(lite_nlp: LiteNlp) -> None:
    assert lite_nlp("budget", PRESET, "--check", "--max-macs", "90M")[0] == 3
    assert lite_nlp("budget", PRESET, "--check", "--max-macs", "91M", "--max-params", "2.9M")[0] == 0
    assert lite_nlp("budget", "lite-transformer-iwslt-320", "--check")[0] == 0
    assert lite_nlp("budget", "lite-transformer-iwslt-320", "--check", "--count-params", "total")[0] == 3


def test_a_beam_multiplies_the_steps(lite_nlp: LiteNlp) -> None:
    """``transformer-wmt-128``: the encoder, and keys and values of cross-attention, stay; the decoder doubles."""
    one, two = (lite_nlp.json("budget", "transformer-wmt-128", "--beam", beam)["macs"] for beam in ("1", "2"))
    assert one["paper"] == two["paper"]
    # Six layers of two 128 x 128 projections of 30 source tokens.
    once = 6 * 2 * 128 * 128 * 30
    cross = one["parts"]["decoder.cross_attention"]["executed"]
    assert two["parts"]["decoder.cross_attention"]["executed"] == 2 * (cross - once) + once
    assert two["parts"]["encoder.ffn"] == one["parts"]["encoder.ffn"]
    assert two["parts"]["output"]["executed"] == 2 * one["parts"]["output"]["executed"] == 2 * 30 * 128 * 32_768


@pytest.mark.parametrize(
    ("preset", "counted"),
    [
        # Papers: 52M with all parameters, 22M of the matrices alone, 2.9M without embeddings.
        ("subformer-base-ende", 51_961_024),
        ("r2d2-nmt-2", 22_020_624),
        ("lite-transformer-wmt-200", 2_884_400),
    ],
)
def test_paper_parameters_follow_the_rows_own_paper(lite_nlp: LiteNlp, preset: str, counted: int) -> None:
    assert lite_nlp.json("budget", preset)["params"]["paper"] == counted


def test_published_figures_of_a_preset_as_it_is(lite_nlp: LiteNlp) -> None:
    cells = lite_nlp.json("budget", "lite-transformer-wmt-496")["published"]
    assert {(cell["quantity"], cell["printed"], cell["verdict"]) for cell in cells} >= {
        ("params", "17.3M", "rounds"),
        ("macs", "527M", "rounds"),
    }
    assert lite_nlp.json("budget", "lite-transformer-wmt-496", "--set", "model.ffn_dim=400")["published"] == []


def test_papers_for_people_and_scripts(lite_nlp: LiteNlp) -> None:
    code, out, err = lite_nlp("budget", "--papers")
    assert (code, err) == (0, "")
    assert re.search(r"Mult-Adds, 30 -> 30 +209M +209,952,000 +truncates", out)
    content = lite_nlp.json("budget", "--papers")
    assert sum(content["verdicts"].values()) == len(content["cells"])
    (cell,) = [cell for cell in content["cells"] if cell["printed"] == "209M"]
    assert (cell["computed"], cell["verdict"], cell["model"]) == (
        209_952_000,
        "truncates",
        "lite-transformer-iwslt-320",
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((PRESET,), "TARGET"),
        (("--check",), "--check"),
        (("--html", "page.html"), "--html"),
        (("--set", "model.ffn_dim=3"), "--set"),
        (("--src-len", "99"), "--src-len"),
        # The defaults, which mean nothing here either.
        (("--beam", "1"), "--beam"),
        (("--max-macs", "500M"), "--max-macs"),
        (("--force",), "--force"),
    ],
)
def test_papers_go_with_no_other_option(lite_nlp: LiteNlp, words: tuple[str, ...], found: str) -> None:
    done = lite_nlp("budget", "--papers", *words)
    assert (done.code, done.out) == (2, "")
    assert f"--papers: expected nothing but --json beside it, found {found}" in done.message


def test_a_target_may_have_any_name(lite_nlp: LiteNlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A short path, which no line breaks.
    monkeypatch.chdir(tmp_path)
    path = Path("[bold]\x1b[31m\nname<b>\udcff.toml")
    path.write_bytes(dump_config(load_config(PRESET)).encode("utf-8"))
    page = Path("page.html")
    code, out, err = lite_nlp("budget", path, "--html", page)
    assert code == 0, err
    assert r"[bold]\x1b[31m\nname<b>\udcff.toml" in out
    assert "\x1b" not in out
    assert r"[bold]\x1b[31m\nname&lt;b&gt;\udcff.toml" in page.read_text(encoding="utf-8")
    assert lite_nlp.json("budget", path)["target"].endswith(r"\udcff.toml")


def test_a_config_file(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(dump_config(load_config(PRESET)).encode("utf-8"))
    content = lite_nlp.json("budget", str(path))
    assert content["target"] == str(path)
    assert content["macs"]["paper"] == 90_132_000


def test_a_model_directory(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(dump_config(load_config(PRESET)).encode("utf-8"))
    content = lite_nlp.json("budget", str(tmp_path))
    assert content["target"] == tmp_path.name
    assert content["params"]["total"] == 9_438_000
    assert "size_bytes" not in content


def test_a_compressed_model_has_a_size_to_check(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    from lite_nlp.compress.lnlp.container import write_container

    path = tmp_path / "small.lnlp"
    write_container(
        path, tensors={}, files={"config.toml": dump_config(load_config(PRESET)).encode("utf-8")}, metadata={}
    )
    size = path.stat().st_size
    content = lite_nlp.json("budget", str(path))
    assert (content["target"], content["size_bytes"]) == ("small", size)
    assert lite_nlp("budget", str(path), "--check", "--max-size", "4MB")[0] == 0
    code, _, err = lite_nlp("budget", str(path), "--check", "--max-size", "0.5KB")
    assert code == 3
    assert f"file size in bytes: {size:,} found, at most 500 allowed" in err


@pytest.mark.parametrize("name", ["broken.zip", "broken.lnlp"])
def test_a_damaged_file_fails_with_its_name(lite_nlp: LiteNlp, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"not a model")
    code, out, err = lite_nlp("budget", str(path))
    assert (code, out) == (1, "")
    assert name in err
    assert "Traceback" not in err


def test_a_bundle_without_a_config_fails(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    path = tmp_path / "empty.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "nothing to count")
    assert lite_nlp("budget", str(path))[0] == 1


def test_an_unknown_target_names_the_nearest(lite_nlp: LiteNlp) -> None:
    code, _, err = lite_nlp("budget", "lite-transformer-wmt-20")
    assert code == 1
    assert "as `lite-nlp presets` lists them" in err
    assert err.endswith("; did you mean 'lite-transformer-wmt-200'?\n")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--src-len", "0"), 2, "--src-len"),
        (("--tgt-len", "-5"), 2, "--tgt-len"),
        (("--src-len", "many"), 2, "--src-len"),
        (("--src-len", "2000"), 1, "expected 1 to 1024 tokens (model.max_positions), found 2000"),
        (("--beam", "0"), 2, "--beam"),
        (("--max-macs", "lots"), 2, "lots"),
        (("--max-size", "4MB"), 2, "expected a .lnlp file or a bundle to weigh, found lite-transformer-wmt-200"),
        (("--count-params", "some"), 2, "expected total or paper, found some"),
        (("--set", "embed_dim=8"), 2, "expected section.key=value"),
        (("--set", "model.width=8"), 1, "unknown key model.width"),
        (("--set", "model.embed_dim=wide"), 1, "model.embed_dim"),
        (("--set", "model.num_heads=7"), 1, "num_heads: expected a divisor of the attention channels (100), found 7"),
    ],
)
def test_bad_input_says_what_was_expected(lite_nlp: LiteNlp, words: tuple[str, ...], code: int, text: str) -> None:
    done = lite_nlp("budget", PRESET, *words)
    assert (done.code, done.out) == (code, "")
    assert text in done.message


def test_set_does_not_rewrite_a_finished_model(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(dump_config(load_config(PRESET)).encode("utf-8"))
    assert lite_nlp("budget", str(tmp_path), "--set", "model.ffn_dim=8")[0] == 2


def test_presets_lists_every_config(lite_nlp: LiteNlp) -> None:
    rows = lite_nlp.json("presets")["presets"]
    assert [row["name"] for row in rows] == list_presets()
    assert {frozenset(row) for row in rows} == {frozenset({"name", "paper", "table", "row", "family"})}
    row = next(row for row in rows if row["name"] == "lightconv-iwslt-192")
    assert (row["table"], row["row"], row["family"]) == ("1", "LightConv (Wu et al., 2019b), 5.1M, 115M", "lightconv")
    code, out, _ = lite_nlp("presets")
    assert code == 0
    assert all(name in out for name in list_presets())


def test_counting_needs_no_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; sys.argv = ['lite-nlp', 'budget', sys.argv[1], '--json'];"
        "from lite_nlp.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program, PRESET], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["macs"]["paper"] == 90_132_000


def test_the_tables_of_the_page_hold_the_computed_figures(lite_nlp: LiteNlp) -> None:
    pages_presets = set()
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        preset = re.match(r"\| `([^`]+)` \|", line)
        if not preset:
            continue
        # A language model has but one length, of the target.
        tokens = re.search(r"\| (?:(\d+) -> (\d+)|(\d+) tokens) \|", line)
        src_len, tgt_len = (tokens[1] or 30, tokens[2] or tokens[3]) if tokens else (30, 30)
        count = count_config(load_config(preset[1]).model, src_len=int(src_len), tgt_len=int(tgt_len))
        figures = [int(number.replace(",", "")) for number in re.findall(r"(?<= )\d{1,3}(?:,\d{3})+(?= )", line)]
        total = [] if tokens else [count.params_total]
        assert figures == [count.params_paper, count.macs_paper, *total, count.macs_executed], line
        pages_presets.add(preset[1])
    rows = lite_nlp.json("presets")["presets"]
    assert {row["name"] for row in rows if (row["paper"] or "").startswith("Lite Transformer")} <= pages_presets


def test_the_pages_example_of_the_counter_prints_what_it_says() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    stated = re.findall(r"^print\(.*\)  # (\d+)$", block, re.MULTILINE)
    assert len(stated) == block.count("print(") > 0
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    assert done.stdout.split() == stated


def test_the_pages_message_of_the_gate_is_what_the_gate_says(lite_nlp: LiteNlp) -> None:
    (message,) = re.findall(r"```\n(over budget: .*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    code, _, err = lite_nlp("budget", "lite-transformer-wmt-496", "--check")
    assert (code, err) == (3, message)


def test_two_lines_in_continuous_integration_are_enough(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    lines = re.findall(r"^- run: (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 2
    words = lines[1].split()
    assert words[:3] == ["lite-nlp", "budget", "model.toml"]
    for preset, code in (("lite-transformer-wmt-200", 0), ("lite-transformer-wmt-496", 3)):
        (tmp_path / "model.toml").write_bytes(dump_config(load_config(preset)).encode("utf-8"))
        names = {name: str(tmp_path / name) for name in ("model.toml", "budget.html")}
        assert lite_nlp(*(names.get(word, word) for word in words[1:]), "--force").code == code
