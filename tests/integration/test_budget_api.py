"""``count_model`` and ``check_budget`` hold what ``lite-nlp budget --json`` prints, whatever the model is named by."""

from pathlib import Path

import pytest

import lite_nlp
from lite_nlp.config.preset import load_config
from lite_nlp.configs import preset_path
from lite_nlp.core.errors import ConfigError, OverBudgetError, UsageError
from tests.integration.conftest import LiteNlp

PRESET = "lite-transformer-wmt-200"
LARGE = "lite-transformer-wmt-496"


@pytest.fixture
def run(lite_nlp: LiteNlp) -> LiteNlp:
    """The command line under another name than the package's."""
    return lite_nlp


def test_a_preset_file_and_config_are_counted_alike(run: LiteNlp, tmp_path: Path) -> None:
    printed = run.json("budget", PRESET)
    path = tmp_path / "mine.toml"
    path.write_bytes(preset_path(PRESET).read_bytes())
    config = load_config(PRESET)
    for target in (PRESET, path, str(path), config):
        counted = lite_nlp.count_model(target)
        assert (counted.params, counted.macs) == (printed["params"], printed["macs"])
        assert (counted.family, counted.lengths) == (printed["family"], printed["lengths"])
    assert lite_nlp.count_model(config.model).macs == printed["macs"]
    assert lite_nlp.check_budget(PRESET).to_json() | {"schema_version": 1} == printed


def test_lengths_beam_and_overrides(run: LiteNlp) -> None:
    words = ["--src-len", "7", "--tgt-len", "9", "--beam", "3", "--set", "model.ffn_dim=100"]
    printed = run.json("budget", PRESET, *words)
    counted = lite_nlp.count_model(PRESET, src_len=7, tgt_len=9, beam=3, overrides=["model.ffn_dim=100"])
    assert (counted.lengths, counted.params, counted.macs) == tuple(
        printed[key] for key in ("lengths", "params", "macs")
    )


def test_the_shipped_model_by_default_by_name_or_loaded(run: LiteNlp) -> None:
    printed = run.json("budget")
    loaded = lite_nlp.load_model("tatoeba-en-de")
    for target in (None, "tatoeba-en-de", loaded, loaded.model):
        counted = lite_nlp.count_model(target)
        assert counted.macs["paper"] == printed["macs"]["paper"] == 96_015_360
        assert counted.params["total"] == printed["params"]["total"]


def test_require_says_what_the_command_says(run: LiteNlp) -> None:
    done = run("budget", LARGE, "--check")
    report = lite_nlp.check_budget(LARGE)
    assert not report.within_budget
    assert report.advice
    with pytest.raises(OverBudgetError) as stopped:
        report.require()
    assert (done.code, done.err) == (3, f"{stopped.value}\n")
    lite_nlp.check_budget(LARGE, max_macs=530_000_000, max_params=18_000_000).require()


def test_wrong_arguments_are_typed_errors(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{PRESET}'"):
        lite_nlp.count_model(PRESET[:-1])
    with pytest.raises(UsageError, match=rf"expected a \.lnlp file or a bundle to weigh, found {PRESET}"):
        lite_nlp.check_budget(PRESET, max_size=4_000_000)
    for check in (lite_nlp.check_budget, lite_nlp.report_model):
        with pytest.raises(UsageError, match="--count-params: expected one of total, paper, found 'all'"):
            check("tatoeba-en-de", count_params="all")  # type: ignore[operator]
    with pytest.raises(UsageError, match="found the finished model tatoeba-en-de"):
        lite_nlp.count_model("tatoeba-en-de", overrides=["model.embed_dim=8"])
    with pytest.raises(ConfigError, match="expected 1 to 1024 tokens"):
        lite_nlp.count_model(PRESET, src_len=2000)
