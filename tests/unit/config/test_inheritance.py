"""Configurations that extend others state their differences alone."""

import re
from pathlib import Path

import pytest

from lite_nlp.config.preset import dump_config, load_config, parse_config
from lite_nlp.configs import list_presets, preset_path
from lite_nlp.core.errors import ConfigError

PAGE = Path(__file__).parents[3] / "docs" / "training.md"

BASE = """
[reproduces]
paper = "A paper"
table = "1"
[model]
family = "transformer"
embed_dim = 32
ffn_dim = 64
[training]
seed = 7
"""


def _write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_sections_are_merged_key_by_key(tmp_path: Path) -> None:
    _write(tmp_path / "base.toml", BASE)
    path = _write(
        tmp_path / "mine.toml",
        'extends = "base.toml"\nname = "mine"\n'
        "[model]\nffn_dim = 48\n[training]\nmax_steps = 5\n[decoding]\nmin_length = 2\n",
    )
    config = load_config(path)
    assert (config.name, config.model.embed_dim, config.model.ffn_dim) == ("mine", 32, 48)
    assert (config.training.seed, config.training.max_steps) == (7, 5)
    assert config.decoding is not None
    assert config.decoding.min_length == 2
    # A row is reproduced by those alone who say so.
    assert config.reproduces is None


def test_a_claim_is_completed_from_the_base(tmp_path: Path) -> None:
    _write(tmp_path / "base.toml", BASE)
    path = _write(tmp_path / "mine.toml", 'extends = "base.toml"\nname = "mine"\n[reproduces]\nrow = "Ours"\n')
    claim = load_config(path).reproduces
    assert claim is not None
    assert (claim.paper, claim.table, claim.row) == ("A paper", "1", "Ours")


def test_bases_extend_bases_relative_to_themselves(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    _write(tmp_path / "deep" / "base.toml", BASE)
    _write(tmp_path / "deep" / "middle.toml", 'extends = "base.toml"\n[model]\nnum_heads = 2\n')
    path = _write(tmp_path / "mine.toml", 'extends = "deep/middle.toml"\nname = "mine"\n')
    assert load_config(path, ["model.ffn_dim=40"]).model.model_dump(exclude_unset=True) == {
        "architecture": "encoder-decoder",
        "family": "transformer",
        "embed_dim": 32,
        "ffn_dim": 40,
        "num_heads": 2,
    }


def test_a_users_file_extends_a_preset(tmp_path: Path) -> None:
    preset = load_config("multi30k-transformer")
    path = _write(tmp_path / "mine.toml", 'extends = "multi30k-transformer"\nname = "mine"\n[model]\nffn_dim = 128\n')
    config = load_config(path)
    assert config.model == preset.model.model_copy(update={"ffn_dim": 128})
    assert (config.training, config.name) == (preset.training, "mine")
    dumped = dump_config(config)
    assert "extends" not in dumped
    assert parse_config(dumped, name="dumped") == config


def test_the_example_of_the_page(tmp_path: Path) -> None:
    (text,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    path = _write(tmp_path / "small.toml", text)
    config, preset = load_config(path), load_config("multi30k-transformer")
    assert config.name == "small"
    assert config.model == preset.model.model_copy(update={"embed_dim": 96, "ffn_dim": 192})
    assert config.training == preset.training.model_copy(update={"max_epochs": 20})
    with pytest.raises(ConfigError) as raised:
        load_config(path, ["model.num_classes=3"])
    assert str(raised.value).replace(f"{tmp_path}/", "") in PAGE.read_text(encoding="utf-8").splitlines()


def test_the_name_is_never_that_of_the_base(tmp_path: Path) -> None:
    path = _write(tmp_path / "mine.toml", 'extends = "multi30k-transformer"\n')
    with pytest.raises(ConfigError, match=r"mine.toml: missing key name$"):
        load_config(path)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ('"nothing"', "'nothing'"),
        ('"missing.toml"', "'missing.toml'"),
        ('"notes.txt"', "'notes.txt'"),
        ('"multi30k_transfomer"', "'multi30k_transfomer'; did you mean 'multi30k-transformer'?"),
        ('"."', "'.'"),
        ("3", "3"),
        ('["multi30k-transformer"]', "['multi30k-transformer']"),
    ],
)
def test_what_cannot_be_extended(tmp_path: Path, value: str, found: str) -> None:
    _write(tmp_path / "notes.txt", BASE)
    path = _write(tmp_path / "mine.toml", f'extends = {value}\nname = "mine"\n')
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert str(raised.value) == (
        f"{path}: extends: expected the name of a preset or the path of a .toml file, relative to this one, "
        f"found {found}"
    )


def test_circles_are_refused(tmp_path: Path) -> None:
    alone = _write(tmp_path / "alone.toml", 'extends = "alone.toml"\nname = "alone"\n')
    with pytest.raises(ConfigError, match=r"extends: expected no circle, found alone.toml -> alone.toml$"):
        load_config(alone)
    _write(tmp_path / "b.toml", 'extends = "c.toml"\n')
    _write(tmp_path / "c.toml", 'extends = "../' + tmp_path.name + '/b.toml"\n')
    first = _write(tmp_path / "a.toml", 'extends = "b.toml"\nname = "a"\n')
    with pytest.raises(ConfigError, match=r"extends: expected no circle, found a.toml -> b.toml -> c.toml -> b.toml$"):
        load_config(first)


def test_a_section_stays_a_section(tmp_path: Path) -> None:
    _write(tmp_path / "base.toml", BASE)
    path = _write(tmp_path / "mine.toml", 'extends = "base.toml"\nname = "mine"\nmodel = 3\n')
    with pytest.raises(ConfigError, match=r"mine.toml: model: expected a section, found 3"):
        load_config(path)


def test_a_broken_base_is_named(tmp_path: Path) -> None:
    base = _write(tmp_path / "base.toml", "name =")
    path = _write(tmp_path / "mine.toml", 'extends = "base.toml"\nname = "mine"\n')
    with pytest.raises(ConfigError, match=rf"{base}: expected TOML, found an error"):
        load_config(path)


def test_a_configuration_inside_a_model_reads_no_other_file() -> None:
    with pytest.raises(
        ConfigError, match=r"model.lnlp: extends: expected a configuration in full, found '/etc/x.toml'"
    ):
        parse_config('extends = "/etc/x.toml"\nname = "a"\n', name="model.lnlp")


def test_bases_are_no_presets() -> None:
    bases = {path.stem for path in preset_path("any").parent.glob("bases/*.toml")}
    assert bases
    assert bases.isdisjoint(list_presets())
