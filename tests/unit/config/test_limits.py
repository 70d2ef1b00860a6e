"""Bounds of configurations: every number that makes a model larger has one."""

import pytest
from pydantic.fields import FieldInfo

from lite_nlp.config.limits import MAX_LAYERS
from lite_nlp.config.model import ARCHITECTURES
from lite_nlp.config.preset import TrainingConfig, parse_config, parse_model
from lite_nlp.core.bounds import MAX_VOCAB_SIZE
from lite_nlp.core.errors import ConfigError

SMALL = {
    "family": "lightconv",
    "embed_dim": 16,
    "ffn_dim": 16,
    "kernel_sizes": [3] * 6,
    "decoder_kernel_sizes": [3] * 6,
}

COUNTS = ("no_repeat_ngram", "min_length", "max_length")


def numbers() -> list[tuple[str, str, FieldInfo]]:
    return [
        (architecture, key, field)
        for architecture, model in ARCHITECTURES.items()
        for key, field in model.model_fields.items()
        if field.annotation is int
    ]


@pytest.mark.parametrize(("architecture", "key"), [row[:2] for row in numbers()])
def test_every_number_has_a_bound(architecture: str, key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: .*less than or equal to"):
        parse_model({"architecture": architecture, **SMALL, key: 100_000_000})


@pytest.mark.parametrize("line", ["length_penalty = 10.5", *(f"{key} = 1048577" for key in COUNTS)])
def test_the_search_has_the_bounds_of_its_options(line: str) -> None:
    text = 'name = "mine"\n[model]\nfamily = "transformer"\nembed_dim = 16\nffn_dim = 4\n'
    with pytest.raises(ConfigError, match=rf"decoding\.{line.split()[0]}: .*less than or equal to"):
        parse_config(f"{text}[decoding]\n{line}\n", name="mine")


INTEGERS = [key for key, field in TrainingConfig.model_fields.items() if field.annotation is int]


@pytest.mark.parametrize("key", INTEGERS)
def test_the_records_of_a_run_can_hold_every_integer_of_the_training(key: str) -> None:
    text = f'name = "mine"\n[model]\nfamily = "transformer"\nembed_dim = 16\nffn_dim = 4\n[training]\n{key} = '
    assert getattr(parse_config(f"{text}{2**63 - 1}\n", name="mine").training, key) == 2**63 - 1
    with pytest.raises(ConfigError, match=rf"training\.{key}: .*less than or equal to 9223372036854775807"):
        parse_config(f"{text}{2**63}\n", name="mine")


@pytest.mark.parametrize("key", ["kernel_sizes", "decoder_kernel_sizes"])
def test_lists_per_layer_have_a_bound(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}: .*at most {MAX_LAYERS} items"):
        parse_model({**SMALL, key: [3] * 300_000})
    with pytest.raises(ConfigError, match=f"{key}.*less than or equal to"):
        parse_model({**SMALL, key: [10**9 + 1] * 6})


def test_the_largest_published_vocabulary_is_within_its_bound() -> None:
    assert MAX_VOCAB_SIZE > 267_744


def test_of_many_problems_ten_are_described() -> None:
    keys = "".join(f"key{number} = 1\n" for number in range(5000))
    with pytest.raises(ConfigError, match=r"unknown key model\.key9; and 4\d\d\d more$"):
        parse_config(
            f'name = "mine"\n[model]\nfamily = "transformer"\nembed_dim = 16\nffn_dim = 4\n{keys}', name="mine"
        )
