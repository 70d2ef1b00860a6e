"""Which units a model loses for a given fraction of its Mult-Adds: those of the least loss. Needs torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from lite_nlp.artifacts.directory import model_from_state
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.prune.estimates import WidthEstimate, estimated_losses, probed_units
from lite_nlp.compress.prune.greedy import remove_greedily
from lite_nlp.compress.prune.structure import Probe, Removal, Structure
from lite_nlp.compress.work import Work
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import Progress
from lite_nlp.models.build import Model
from lite_nlp.tasks.shrinking.shapes import Shape, Shapes
from lite_nlp.tasks.shrinking.widths import Width
from lite_nlp.training.device import device_of

__all__ = ["check_shrinkable", "shrink_model"]

#: Mult-Adds of a config.
CountMacs = Callable[[ModelConfig], int]


def check_shrinkable(loaded: LoadedModel, fraction: float, count_macs: CountMacs) -> None:
    """Refuse a fraction of a model's Mult-Adds that its config cannot state the removal of.

    Raises:
        ModelError: If less can be removed.
    """
    shapes = Shapes(loaded.model)
    least = shapes.config_of(shape := shapes.smallest()) or shapes.config
    whole = count_macs(shapes.config)
    most = 1 - count_macs(least) / whole
    if fraction <= most:
        return
    parts = [f"{removal.kind} {removal.before} -> {removal.after}" for removal in _removals(shapes, shape)]
    what = f"with {', '.join(parts)}" if parts else "since nothing of it can be stated smaller"
    raise ModelError(
        f"{loaded.name}: structured pruning: expected to remove {fraction:.1%} of {whole:,} Mult-Adds, found that at "
        f"most {most:.1%} can go, {what}; what else it has depends on the width of its layers"
    )


def shrink_model(
    loaded: LoadedModel,
    fraction: float,
    *,
    subject: CompressionSubject,
    count_macs: CountMacs,
    work: Work | None,
    progress: Progress,
) -> tuple[Model, Structure]:
    """The model without its least important units and layers, rebuilt from a smaller config.

    Units of one kind are ranked by the loss that the Fisher information estimates; the estimates of each kind are
    corrected by measurements with an eighth to three quarters of its units gone; the loss of layers is measured, again
    after each that goes. Then whatever costs the least loss per Mult-Add goes, until the fraction is reached.

    Args:
        loaded: The loaded model, accepted by ``check_shrinkable``; its module is left as it is.
        fraction: Fraction of the Mult-Adds to remove, above 0 and below 1.
        subject: How to evaluate, and the batches and loss of the importance.
        count_macs: Mult-Adds of a config.
        work: Keeps the choice.
        progress: Receiver of progress reports.
    """
    search = _Search(loaded, subject, count_macs, progress)
    found = search.run(fraction) if work is None else work.keep("structured", lambda: search.run(fraction))
    shape = Shape(
        units=tuple(sorted(found["units"].items())),
        layers=tuple(sorted((key, tuple(positions)) for key, positions in found["layers"].items())),
    )
    smaller = search.model_of(shape, found["losses"])
    structure = Structure(
        fraction=fraction,
        macs_before=count_macs(search.shapes.config),
        macs_after=count_macs(smaller.config),
        removed=tuple(_removals(search.shapes, shape, found["expected"])),
        probes=tuple(Probe(**probe) for probe in found["probes"]),
        expected_loss=found["expected_loss"],
        measured_loss=found["measured_loss"],
    )
    return smaller, structure


class _Search:
    """The search for what to remove."""

    def __init__(
        self, loaded: LoadedModel, subject: CompressionSubject, count_macs: CountMacs, progress: Progress
    ) -> None:
        self.shapes = Shapes(loaded.model)
        self._loaded = loaded
        self._subject = subject
        self._count_macs = count_macs
        self._progress = progress
        self._layer_losses: dict[Shape, float] = {}
        self._state: dict[str, Tensor] = {name: tensor.cpu() for name, tensor in loaded.model.state_dict().items()}

    def run(self, fraction: float) -> dict[str, Any]:
        """The choice, as plain numbers and lists."""
        shapes = self.shapes
        original = self._subject.evaluate(self._loaded.model)
        groups = [group for width in shapes.widths for group in width.groups]
        losses = estimated_losses(self._loaded.model, groups, subject=self._subject, progress=self._progress)

        def measure(shape: Shape) -> float:
            found = self._subject.evaluate(self.model_of(shape, losses)) - original
            self._progress.advance()
            return found

        self._progress.start(
            "structured pruning: kinds of units", sum(len(probed_units(w.choices)) for w in shapes.widths)
        )

        def estimate(width: Width) -> WidthEstimate:
            return WidthEstimate(
                key=width.key,
                choices=width.choices,
                groups=width.groups,
                losses=losses,
                measure=lambda units: measure(Shape().with_units(width, units)),
            )

        estimates = {width.key: estimate(width) for width in shapes.widths}
        self._progress.start("structured pruning: layers", None)

        def loss_of_layers(shape: Shape) -> float:
            layers = Shape(layers=shape.layers)
            if layers not in self._layer_losses:
                self._layer_losses[layers] = measure(layers) if shape.layers else 0.0
            return self._layer_losses[layers]

        def losses_of_units(shape: Shape) -> dict[str, float]:
            reduced = [width for width in shapes.widths if shape.left(width) != width.units]
            return {
                width.key: estimates[width.key].loss(shape.left(width), shapes.groups_of(width, shape))
                for width in reduced
            }

        def loss(shape: Shape) -> float:
            return loss_of_layers(shape) + sum(losses_of_units(shape).values())

        def cost(shape: Shape) -> int:
            return self._count_macs(shapes.config_of(shape) or shapes.config)

        limit = (1 - fraction) * cost(Shape())
        shape = remove_greedily(Shape(), moves=shapes.moves, loss=loss, cost=cost, limit=limit)
        expected = losses_of_units(shape)
        for key, positions in shape.layers:
            expected[key] = loss_of_layers(Shape(layers=((key, positions),)))
        return {
            "units": dict(shape.units),
            "layers": {key: list(positions) for key, positions in shape.layers},
            "losses": losses,
            "probes": [asdict(probe) for estimate in estimates.values() for probe in estimate.probes],
            "expected": expected,
            "expected_loss": loss(shape),
            "measured_loss": measure(shape),
        }

    def model_of(self, shape: Shape, losses: Mapping[str, Sequence[float]]) -> Model:
        """The model of a shape, in evaluation mode."""
        config = self._loaded.config.model_copy(update={"model": self.shapes.config_of(shape)})
        state = self.shapes.state_of(shape, self._state, losses)
        # The weights that the smaller model is first drawn with do not change what is drawn after it.
        with torch.random.fork_rng(devices=[]):
            return model_from_state(config, state, source=self._loaded.name).to(device_of(self._loaded.model))


def _removals(shapes: Shapes, shape: Shape, expected: Mapping[str, float] | None = None) -> list[Removal]:
    losses = expected or {}
    found = [
        Removal(
            kind=width.kind,
            key=f"model.{width.key}",
            before=width.units * width.unit_size,
            after=shape.left(width) * width.unit_size,
            expected_loss=losses.get(width.key, 0.0),
        )
        for width in shapes.widths
        if shape.left(width) != width.units
    ]
    for stack in shapes.stacks:
        if gone := shape.gone(stack):
            before = len(stack.specs)
            found.append(
                Removal(
                    kind=stack.kind,
                    key=f"model.{stack.key}",
                    before=before,
                    after=before - len(gone),
                    positions=gone,
                    expected_loss=losses.get(stack.key, 0.0),
                )
            )
    return found
