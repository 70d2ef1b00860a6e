"""The registry of quantizers: a quantizer that the package does not know compresses a module to a file."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.finetune import FinetuneOptions
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.lnlp.encodings import ClusteredTensor, EncodedTensor, encode_kmeans
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, Finetuning, run_pipeline
from lite_nlp.compress.quantize import registry
from lite_nlp.compress.quantize.protocol import Quantizer
from lite_nlp.compress.quantize.registry import get_quantizer, register_quantizer
from lite_nlp.compress.quantize.shared_centroids import KMeansQuantizer
from lite_nlp.core.errors import UsageError

FloatArray = NDArray[np.float32]


class Grid:
    """Evenly spaced values, zero among them: an integer code for each weight and a scale for each matrix."""

    def __init__(self, codes: Mapping[str, NDArray[np.int64]], scales: Mapping[str, float], levels: int) -> None:
        self.codes, self.scales, self.levels = codes, scales, levels

    def _clusters(self) -> dict[str, ClusteredTensor]:
        half = self.levels // 2
        return {
            name: ClusteredTensor(
                (np.arange(-half, self.levels - half) * np.float64(np.float16(self.scales[name]))).astype(np.float32),
                (codes + half).astype(np.uint16),
            )
            for name, codes in self.codes.items()
        }

    def values(self) -> dict[str, FloatArray]:
        return {name: cluster.values() for name, cluster in self._clusters().items()}

    def encode(self) -> dict[str, EncodedTensor]:
        return {name: encode_kmeans(cluster) for name, cluster in self._clusters().items()}

    def encode_entropy(self) -> dict[str, EncodedTensor]:
        return {}

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "TrainableGrid":
        return TrainableGrid(parameters, self)


class TrainableGrid:
    """The scales in training; codes are held."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], grid: Grid) -> None:
        self._grid = grid
        self._parameters = {name: parameters[name] for name in grid.codes}
        self._codes = {name: torch.from_numpy(codes).float() for name, codes in grid.codes.items()}
        self._scales = {name: nn.Parameter(torch.tensor(scale)) for name, scale in grid.scales.items()}

    @property
    def weights(self) -> Sequence[nn.Parameter]:
        return list(self._parameters.values())

    @property
    def trained(self) -> Sequence[nn.Parameter]:
        return list(self._scales.values())

    def pass_gradients(self) -> None:
        for name, parameter in self._parameters.items():
            assert parameter.grad is not None
            self._scales[name].grad = (parameter.grad * self._codes[name]).sum()
            parameter.grad = None

    @torch.no_grad()
    def update_weights(self) -> None:
        for name, parameter in self._parameters.items():
            parameter.copy_(self._codes[name] * self._scales[name])

    def quantized(self) -> Grid:
        return Grid(self._grid.codes, {name: scale.item() for name, scale in self._scales.items()}, self._grid.levels)


class GridQuantizer:
    """A uniform grid of 16 levels, 4 bits."""

    name = "grid"
    ladder = (16,)
    fitted: Grid

    def fit(self, weights: Mapping[str, FloatArray], num_levels: Mapping[str, int]) -> Grid:
        levels = max(num_levels.values())
        scales = {name: float(np.abs(values).max()) / (levels // 2 - 1) for name, values in weights.items()}
        codes = {name: np.round(values / scales[name]).astype(np.int64) for name, values in weights.items()}
        self.fitted = Grid(codes, scales, levels)
        return self.fitted


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_QUANTIZERS", dict(registry._QUANTIZERS))


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 48)).eval()


INPUTS = torch.randn(64, 48, generator=torch.Generator().manual_seed(1))
TARGETS = _model()(INPUTS).detach()


def _loss(model: nn.Module, _: object = None) -> Tensor:
    return F.mse_loss(model(INPUTS), TARGETS) / TARGETS.var()


def _evaluate(model: nn.Module) -> float:
    with torch.no_grad():
        return float(_loss(model))


def _load(path: Path) -> nn.Module:
    model = _model()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in read_container(path).state_dict().items()})
    return model


SUBJECT = CompressionSubject(
    name="regression",
    files=lambda _: {},
    load=_load,
    metric=Metric(name="error", label="error", unit="of error", lower_is_better=True),
    score=lambda model: {"error": _evaluate(model)},
    evaluate=_evaluate,
    count_macs=lambda _: None,
)


def _finetuning() -> Finetuning:
    def batches() -> Iterator[int]:
        return repeat(0)

    options = FinetuneOptions(steps=20, learning_rate=1e-3)
    return Finetuning(batches=batches, loss=_loss, pruned=options, quantized=options)


@pytest.mark.parametrize("finetuning", [None, _finetuning()])
def test_a_registered_quantizer_makes_a_file_that_decodes_to_its_values(
    tmp_path: Path, finetuning: Finetuning | None
) -> None:
    quantizer = GridQuantizer()
    register_quantizer(quantizer)
    options = CompressionOptions(quantizer="grid", tolerance=0.02)
    rows = run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=options, finetuning=finetuning)
    finetuned = [] if finetuning is None else ["finetuned"]
    assert [row.stage for row in rows] == ["original", "pruned", *finetuned, "grid", "entropy-coded"]
    assert [row.file for row in rows[-2:]] == ["grid.lnlp", "model.lnlp"]
    for row in rows[-2:]:
        container = read_container(tmp_path / row.file)
        state = container.state_dict()
        assert row.scores["error"] == pytest.approx(_evaluate(_load(tmp_path / row.file)))
        for name, fitted in quantizer.fitted.values().items():
            assert container.tensors[name].encoding == "kmeans"
            assert len(container.tensors[name].payload) <= 4 + 16 * 4 + fitted.size // 2
            # Training moves the scale alone.
            scale = np.abs(state[name]).max() / np.abs(fitted).max()
            assert scale == 1 if finetuning is None else 0.9 < scale < 1.1
            assert np.allclose(state[name], fitted * scale, atol=1e-6)


def test_trained_scales_come_nearer(tmp_path: Path) -> None:
    register_quantizer(GridQuantizer())
    errors = []
    for name, finetuning in (("plain", None), ("tuned", _finetuning())):
        (tmp_path / name).mkdir()
        options = CompressionOptions(quantizer="grid", tolerance=0.0)
        rows = run_pipeline(_model(), out=tmp_path / name, subject=SUBJECT, options=options, finetuning=finetuning)
        errors.append(rows[-1].scores["error"])
    assert errors[1] < errors[0]


def test_a_size_is_reached_with_the_ladder_of_the_quantizer(tmp_path: Path) -> None:
    class Fine(GridQuantizer):
        ladder = (64, 4)

    register_quantizer(Fine())
    options = CompressionOptions(quantizer="grid", target_bytes=3000)
    rows = run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=options)
    assert rows[-1].size_bytes <= 3000
    assert len(np.unique(read_container(tmp_path / "model.lnlp").state_dict()["0.weight"])) <= 4


def test_an_unknown_quantizer_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="quantizer: expected one of kmeans, found 'huffman'"):
        get_quantizer("huffman")
    with pytest.raises(UsageError, match="found 'huffman'"):
        run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=CompressionOptions(quantizer="huffman"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["kmeans", "pruned", "entropy-coded", "model", "../up", "Grid", ""])
def test_names_of_stages_and_impossible_names_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GridQuantizer, "name", name)
    with pytest.raises(UsageError, match="expected small letters, digits and hyphens"):
        register_quantizer(GridQuantizer())


def test_kmeans_is_registered() -> None:
    row: Quantizer = get_quantizer("kmeans")
    assert isinstance(row, KMeansQuantizer)
    assert row.ladder[0] == 256


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_ratio": 1.0}, "target_ratio: expected more than 1, found 1.0"),
        ({"target_bytes": 0}, "target_bytes: expected at least 1, found 0"),
        ({"num_levels": 1}, "num_levels: expected at least 2, found 1"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CompressionOptions(**options)
