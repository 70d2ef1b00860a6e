"""Every command where some of the extras are not installed: it works, or says in one sentence what to install."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import typer

import lite_nlp
from lite_nlp.cli.program import make_program
from tests.integration.conftest import write_model
from tests.integration.installations import Done, Installation

LEVELS: Final = {"bare": "lite-nlp", "runtime": "lite-nlp[runtime]", "train": "lite-nlp[train]"}

#: Words after a command's name that it takes as they are, where it needs more than its required options.
WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "budget": ("multi30k-transformer",),
    "bench": ("--repeats", "1", "--warmup", "0", "--threads", "1", "--input", "lines.txt"),
    "classify": ("classifier", "--text", "Hi"),
    "compress": ("--out", "out"),
    "data prepare": ("--tsv", "lines.txt", "--out", "out"),
    "distill": ("model", "multi30k-transformer", "--data", "data", "--out", "out"),
    "export": ("--out", "out.zip"),
    "generate": ("language-model", "--text", "Hi"),
    "train": ("multi30k-transformer", "--data", "data", "--out", "out"),
    "translate": ("--text", "Hi"),
}

#: A model of each architecture.
MODELS: Final[Mapping[str, Mapping[str, Any]]] = {
    "model": {"family": "transformer"},
    "language-model": {"architecture": "language-model", "family": "transformer"},
    "classifier": {"architecture": "sequence-classifier", "family": "transformer", "num_classes": 2},
}

#: Commands that work without the extras above each level.
WORKS: Final = {
    "bare": {"presets", "models", "budget", "report"},
    "runtime": {"presets", "models", "budget", "report", "translate", "bench"},
}

SENTENCE: Final = re.compile(
    r"error: [^\n]+: needs the extra (lite-nlp\[\w+\]), install it with pip install '\1' \(\w+ is not installed\)\n"
)


def _commands(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield names
    for name, below in (inner or {}).items():
        yield from _commands(below, *names, name)


COMMANDS: Final = sorted(" ".join(names) for names in _commands(typer.main.get_command(make_program())))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Installation]:
    """An installation for each level, with files that the commands read."""
    made = {}
    for level, requirement in LEVELS.items():
        made[level] = Installation(tmp_path_factory.mktemp("installed") / level, requirement)
        (made[level].path / "lines.txt").write_text("Good morning!\n", encoding="utf-8")
        for name, options in MODELS.items():
            path = made[level].path / name
            write_model(path, ["a few words", "and a few more"], metrics={"labels": ["few", "many"]}, **options)
    return made


def _words(command: str) -> list[str]:
    """A command line of the command; one that is new here gets a name for whatever it requires."""
    names = command.split()
    if command in WORDS:
        return [*names, *WORDS[command]]
    found: Any = typer.main.get_command(make_program())
    for name in names:
        found = found.commands[name]
    required = [parameter for parameter in found.params if parameter.required]
    return [*names, *(word for row in required for word in (*row.opts[:1],) * (row.opts[0][0] == "-") + ("out",))]


@pytest.fixture(scope="module")
def found(installed: Mapping[str, Installation]) -> Mapping[tuple[str, str], Done]:
    """What every command comes to at the levels that do without torch."""
    return {
        (level, command): done
        for level in WORKS
        for command, done in zip(COMMANDS, installed[level].run_commands(list(map(_words, COMMANDS))), strict=True)
    }


@pytest.mark.parametrize("level", WORKS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_works_or_names_its_extra(
    installed: Mapping[str, Installation], found: Mapping[tuple[str, str], Done], level: str, command: str
) -> None:
    code, out, err = found[level, command]
    if command in WORKS[level]:
        assert code == 0, err
        assert out
        return
    assert (code, out) == (1, "")
    assert SENTENCE.fullmatch(err), err
    assert not any(installed[level].path.glob("out*"))


def test_help_needs_no_extra(installed: Mapping[str, Installation]) -> None:
    lines = [["--help"], *([*command.split(), "--help"] for command in COMMANDS)]
    for (code, out, err), command in zip(installed["bare"].run_commands(lines), ["", *COMMANDS], strict=True):
        assert (code, err) == (0, "")
        assert f"Usage: lite-nlp {command}" in out


@pytest.mark.parametrize(
    ("level", "words", "extra"),
    [
        ("runtime", "translate model --text Hi", "train"),
        ("runtime", "translate --text Hi --runtime executorch", "export"),
        ("train", "export --out out.zip", "export"),
        ("train", "translate model --text Hi --runtime onnx", "export"),
        ("train", "translate --text Hi --runtime executorch", "export"),
    ],
)
def test_an_option_or_a_kind_of_model_may_need_more(
    installed: Mapping[str, Installation], level: str, words: str, extra: str
) -> None:
    ((code, out, err),) = installed[level].run_commands([words.split()])
    assert (code, out) == (1, "")
    assert SENTENCE.fullmatch(err), err
    assert f"lite-nlp[{extra}]" in err


CALLS: Final = """
import lite_nlp
from lite_nlp.core.errors import MissingExtraError
for name in lite_nlp.__all__[1:]:
    arguments = {
        "compress_model": {"out": "out"},
        "convert_to_t2r": {"out": "out"},
        "export_model": {"out": "out.zip"},
        "open_classifier": {"model": "classifier"},
        "open_generator": {"model": "language-model"},
        "prepare_data": {"out": "out", "corpus": "multi30k"},
        "distill_model": {"teacher": "model", "config": "multi30k-transformer", "data": "data", "out": "out"},
        "train_model": {"config": "multi30k-transformer", "data": "data", "out": "out"},
    }
    try:
        getattr(lite_nlp, name)(**arguments.get(name, {}))
    except MissingExtraError as error:
        print(name, str(error).partition("lite-nlp[")[2].partition("]")[0])
    else:
        print(name, "works")
for package, name in (("compress", "compress_module"), ("export", "export_bundle")):
    try:
        getattr(getattr(lite_nlp, package), name)
    except MissingExtraError as error:
        print(name, "names", str(error).partition("lite-nlp[")[2].partition("]")[0])
"""


def test_the_functions_name_their_extras_as_the_commands_do(installed: Mapping[str, Installation]) -> None:
    code, out, err = installed["bare"].run_code(f"import lite_nlp.compress, lite_nlp.export{CALLS}")
    assert code == 0, err
    found = dict(line.split(" ", 1) for line in out.splitlines())
    assert found == {
        **dict.fromkeys(lite_nlp.__all__[1:], "train"),
        **dict.fromkeys(("check_budget", "count_model", "report_model"), "works"),
        "bench_model": "runtime",
        "open_translator": "runtime",
        "export_model": "export",
        "compress_module": "names train",
        "export_bundle": "names train",
    }


def test_channels_of_a_module_are_removed_where_the_package_for_it_is(installed: Mapping[str, Installation]) -> None:
    code, out, err = installed["train"].run_code(
        "from pathlib import Path\n"
        "import torch\n"
        "from lite_nlp.compress import compress_module\n"
        "from lite_nlp.core.errors import MissingExtraError\n"
        "module = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Linear(64, 8))\n"
        "arguments = {'structured': 0.3, 'example_inputs': (torch.zeros(1, 8),), 'score': lambda _: 1.0}\n"
        "try:\n"
        "    compress_module(module, out='small', **arguments)\n"
        "except MissingExtraError as error:\n"
        "    print(error, Path('small').exists())\n"
    )
    assert code == 0, err
    assert out == (
        "structured: needs the extra lite-nlp[export], install it with pip install 'lite-nlp[export]' "
        "(torch_pruning is not installed) False\n"
    )
