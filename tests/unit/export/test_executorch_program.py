import numpy as np
import pytest

from lite_nlp.core.errors import BundleError
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime.executorch import ExecuTorchRunner

# Lowering takes longest of all. The command's test exports another family.
FAMILIES = ["lite-transformer-dynamic"]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("beam_size", [1, 3])
def test_same_tokens_as_torch(small, small_executorch, source_rows, name: str, beam_size: int) -> None:
    # Batches of 12 sentences, 36 hypotheses at beam 3, through a program that takes 4 rows.
    options = SearchOptions(beam_size=beam_size, max_steps=20)
    report = compare_engines(Reference(small(name).reference, source_rows), small_executorch(name)[1], options)
    assert report.disagreements == ()


@pytest.mark.parametrize(("rows", "source", "capacity"), [(1, 1, 1), (4, 24, 20), (2, 9, 3), (1, 2, 20)])
def test_same_logits_as_torch_at_all_sizes(small, small_executorch, rows: int, source: int, capacity: int) -> None:
    name = "lite-transformer-dynamic"
    engine, reference = small_executorch(name)[1], small(name).reference
    random = np.random.default_rng(1)
    tokens = random.integers(3, 40, (rows, source))
    mask = np.ones((rows, source), np.bool_)
    mask[-1, source // 2 + 1 :] = False
    state, expected_state = engine.start(tokens, mask, capacity), reference.start(tokens, mask, capacity)
    for _ in range(capacity):
        fed = random.integers(3, 40, rows)
        logits, state = engine.step(fed, state)
        expected, expected_state = reference.step(fed, expected_state)
        np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_sizes_that_become_smaller_and_larger_again(small, small_executorch) -> None:
    name = "lite-transformer-dynamic"
    engine, reference = small_executorch(name)[1], small(name).reference
    for rows, source, capacity in [(1, 1, 1), (1, 9, 12), (1, 3, 2), (1, 9, 12), (2, 4, 20), (1, 9, 12)]:
        tokens = np.arange(3, 3 + rows * source).reshape(rows, source)
        mask = np.ones((rows, source), np.bool_)
        state, expected_state = engine.start(tokens, mask, capacity), reference.start(tokens, mask, capacity)
        for step in range(min(capacity, 3)):
            fed = np.full(rows, 5 + step)
            logits, state = engine.step(fed, state)
            expected, expected_state = reference.step(fed, expected_state)
            np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_tied_table_is_stored_once(small, small_executorch) -> None:
    table = small("lite-transformer-dynamic").model.src_embedding.weight.detach().numpy()
    content = small_executorch("lite-transformer-dynamic")[0].content
    # Turned: a product reads it in order.
    assert content.count(table.T.tobytes()) == 1
    assert content.count(table.tobytes()[:512]) == 0


def test_a_program_that_is_none(small) -> None:
    with pytest.raises(BundleError, match="ExecuTorch does not accept the bundle's program"):
        ExecuTorchRunner(small("lightconv").manifest.layout, b"no program" * 100, threads=1)


def test_what_is_left_to_general_kernels(small_executorch) -> None:
    calls = small_executorch("lite-transformer-dynamic")[0].calls
    assert set(calls) == {"encode", "decode_step"}
    step = calls["decode_step"].kernels
    # The tied table, and the layer norms of the one layer's attention and convolution, cross-attention, feed-forward.
    assert step["aten::mm.out"] == step["aten::index_select.out"] == 1
    assert step["aten::native_layer_norm.out"] == 3
    taken = ("aten::linear.out", "aten::addmm.out", "aten::bmm.out", "aten::_softmax.out", "aten::cat.out")
    for called in calls.values():
        assert called.delegated > 0
        assert not [kernel for kernel in taken if kernel in called.kernels]
        assert list(called.kernels.values()) == sorted(called.kernels.values(), reverse=True)
