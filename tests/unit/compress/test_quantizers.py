"""The registry of quantizers: a quantizer that the package does not know compresses a module to a file."""

import math
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

from lite_nlp.compress import quantizers
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.lnlp.encodings import ClusteredTensor, EncodedTensor, encode_kmeans
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
from lite_nlp.compress.quantize.clustering import KMeansQuantizer
from lite_nlp.compress.quantize.protocol import Choice, Quantizer
from lite_nlp.compress.quantizers import get_quantizer, register_quantizer
from lite_nlp.compress.tuning import TuningOptions
from lite_nlp.compress.weight_tuner import Finetuning
from lite_nlp.core.errors import UsageError

FloatArray = NDArray[np.float32]


class Even:
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

    def trainable(self, parameters: Mapping[str, nn.Parameter]) -> "TrainableEven":
        return TrainableEven(parameters, self)


class TrainableEven:
    """The scales in training; codes are held."""

    rate = 1.0

    def __init__(self, parameters: Mapping[str, nn.Parameter], grid: Even) -> None:
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

    def tighten(self, share: float, scale: float = 1.0) -> float:
        self.update_weights()
        return float(sum(code.numel() for code in self._codes.values()) * math.log2(self._grid.levels))

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.update_weights()

    def quantized(self) -> Even:
        return Even(self._grid.codes, {name: scale.item() for name, scale in self._scales.items()}, self._grid.levels)


class EvenQuantizer:
    """Uniform grids of 4 to 64 levels, whose scales alone are trained."""

    name = "even"
    prunes_first = True
    fitted: Even

    def choices(self, values: FloatArray, importance: FloatArray) -> list[Choice]:
        found = []
        for levels in (64, 16, 4):
            plan = {"values": Choice(levels=levels, sparsity=0.0, bits=0.0, distortion=0.0)}
            error = self.fit({"values": values}, plan, {}).values()["values"] - values
            distortion = 0.5 * float(np.sum(importance * error**2))
            bits = values.size * math.log2(levels)
            found.append(Choice(levels=levels, sparsity=0.0, bits=bits, distortion=distortion))
        return found

    def fit(
        self, weights: Mapping[str, FloatArray], plan: Mapping[str, Choice], importance: Mapping[str, FloatArray]
    ) -> Even:
        levels = max(choice.levels for choice in plan.values())
        scales = {name: float(np.abs(values).max()) / (levels // 2 - 0.5) for name, values in weights.items()}
        half = levels // 2
        codes = {
            name: np.clip(np.round(values / scales[name]), -half, half - 1).astype(np.int64)
            for name, values in weights.items()
        }
        self.fitted = Even(codes, scales, levels)
        return self.fitted


@pytest.fixture(autouse=True)
def _own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantizers, "_QUANTIZERS", dict(quantizers._QUANTIZERS))


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
    informing=lambda: [0],
    information=_loss,
    count_macs=lambda _: None,
)


def _finetuning() -> Finetuning:
    def batches() -> Iterator[int]:
        return repeat(0)

    return Finetuning(batches=batches, loss=_loss, options=TuningOptions(steps=20, learning_rate=1e-3))


@pytest.mark.parametrize("finetuning", [None, _finetuning()])
def test_a_registered_quantizer_makes_a_file_that_decodes_to_its_values(
    tmp_path: Path, finetuning: Finetuning | None
) -> None:
    quantizer = EvenQuantizer()
    register_quantizer(quantizer)
    options = CompressionOptions(quantizer="even", tolerance=0.02)
    rows = run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=options, finetuning=finetuning)
    assert [row.stage for row in rows] == ["original", "pruned", "even", "entropy-coded"]
    assert [row.file for row in rows[-2:]] == ["even.lnlp", "model.lnlp"]
    for row in rows[-2:]:
        container = read_container(tmp_path / row.file)
        state = container.state_dict()
        assert row.scores["error"] == pytest.approx(_evaluate(_load(tmp_path / row.file)))
        for name, fitted in quantizer.fitted.values().items():
            assert container.tensors[name].encoding == "kmeans"
            # Training moves the scale alone.
            scale = np.abs(state[name]).max() / np.abs(fitted).max()
            assert scale == 1 if finetuning is None else 0.9 < scale < 1.1
            assert np.allclose(state[name], fitted * scale, atol=1e-6)


def test_trained_scales_come_nearer(tmp_path: Path) -> None:
    register_quantizer(EvenQuantizer())
    errors = []
    for name, finetuning in (("plain", None), ("tuned", _finetuning())):
        (tmp_path / name).mkdir()
        options = CompressionOptions(quantizer="even", tolerance=0.0)
        rows = run_pipeline(_model(), out=tmp_path / name, subject=SUBJECT, options=options, finetuning=finetuning)
        errors.append(rows[-1].scores["error"])
    assert errors[1] < errors[0]


def test_a_size_is_reached_with_the_choices_of_the_quantizer(tmp_path: Path) -> None:
    register_quantizer(EvenQuantizer())
    options = CompressionOptions(quantizer="even", target_bytes=3000)
    rows = run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=options)
    assert rows[-1].size_bytes <= 3000
    assert len(np.unique(read_container(tmp_path / "model.lnlp").state_dict()["0.weight"])) <= 4


def test_an_unknown_quantizer_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="quantizer: expected one of kmeans, grid, found 'huffman'"):
        get_quantizer("huffman")
    with pytest.raises(UsageError, match="found 'huffman'"):
        run_pipeline(_model(), out=tmp_path, subject=SUBJECT, options=CompressionOptions(quantizer="huffman"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["kmeans", "grid", "pruned", "entropy-coded", "model", "../up", "Even", ""])
def test_names_of_stages_and_impossible_names_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvenQuantizer, "name", name)
    with pytest.raises(UsageError, match="expected small letters, digits and hyphens"):
        register_quantizer(EvenQuantizer())


def test_kmeans_is_registered() -> None:
    row: Quantizer = get_quantizer("kmeans")
    assert isinstance(row, KMeansQuantizer)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_ratio": 1.0}, "target_ratio: expected more than 1, found 1.0"),
        ({"target_bytes": 0}, "target_bytes: expected at least 1, found 0"),
        ({"tolerance": math.nan}, "tolerance: expected a number of at least 0, found nan"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        CompressionOptions(**options)
