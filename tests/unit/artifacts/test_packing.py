"""What compact bundles keep of a model's own file."""

import torch

from lite_nlp.artifacts.models import load_model, resolve_source
from lite_nlp.artifacts.packing import packing_of
from lite_nlp.compress.lnlp.container import parse_container


def test_a_loaded_model_keeps_the_encodings_of_its_file_until_it_is_changed() -> None:
    source = resolve_source("multi30k-en-de")
    loaded = load_model(source)
    kept, named = (parse_container(packing_of(origin, loaded).container) for origin in (None, source))
    assert kept.tensors == named.tensors
    with torch.no_grad():
        next(loaded.model.parameters()).mul_(2.0)
    changed = packing_of(None, loaded).container
    assert len(changed) > 4 * sum(parameter.numel() for parameter in loaded.model.parameters())
