"""Mult-Adds of a bundle's graphs: recounted where the packages for it are installed, else as the manifest records.

Needs neither torch nor the onnx package; either makes one more column a fresh count instead of a record. A record is
as good as the bundle's hashes, which were checked when it was opened: it was made with the files that it is about.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from lite_nlp.budget.traced.graphs import Work, work_from_json
from lite_nlp.budget.traced.reconciliation import MERGED, MODEL, Reconciliation, reconcile
from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.bundle import Bundle
from lite_nlp.export.runtime.onnx import OnnxEntry
from lite_nlp.export.runtime.programs import TRANSLATION
from lite_nlp.export.runtime.registry import RUNTIMES

if TYPE_CHECKING:
    from torch import nn

__all__ = ["BundleGraphs", "Origin", "check_agreement", "read_graphs"]

#: Where a column's figures come from.
Origin = Literal["recounted", "recorded"]


@dataclass(frozen=True, kw_only=True)
class BundleGraphs:
    """Mult-Adds of a bundle: a column for the model and one for the graphs of each runtime.

    Attributes:
        columns: Work by column: the model first, then the runtimes, as far as they are known.
        origins: For each of them, whether it was counted just now.
        merged: The model's work with equal computations done once, as recorded with the model's work; None if it was
            not, or if the model does not do the work recorded.
    """

    columns: Mapping[str, Work]
    origins: Mapping[str, Origin]
    merged: Work | None = None

    @property
    def reconciliation(self) -> Reconciliation:
        """Comparison of the columns."""
        return reconcile(self.columns, merged=self.merged)


def read_graphs(bundle: Bundle, *, model: "nn.Module | None" = None) -> BundleGraphs:
    """Read or recount the Mult-Adds of a bundle's graphs.

    Args:
        bundle: The bundle, verified.
        model: The model that the bundle's config describes, in evaluation mode, weights real or on the ``meta``
            device; None to take its work from the record.

    Raises:
        CountError: If the work of the model or of a graph cannot be told.
    """
    recorded = {name: work_from_json(work, task=bundle.manifest.task) for name, work in bundle.manifest.graphs.items()}
    counted = _count_model(bundle, model, recorded.get(MODEL))
    for name, count in _RECOUNTED.items():
        if (work := count(bundle, recorded.get(name))) is not None:
            counted[name] = work
    known = {**recorded, **counted}
    columns: dict[str, Work] = {name: known[name] for name in (MODEL, *RUNTIMES) if name in known}
    same_model = columns.get(MODEL) == recorded.get(MODEL)
    return BundleGraphs(
        columns=columns,
        origins={name: "recounted" if name in counted else "recorded" for name in columns},
        merged=recorded.get(MERGED) if same_model else None,
    )


def check_agreement(columns: Mapping[str, Work], *, merged: Work, source: str) -> None:
    """Check that the graphs do the work of the model.

    Args:
        columns: Work by column.
        merged: The model's work with equal computations done once.
        source: Stands for the bundle in the message.

    Raises:
        BundleError: If a difference is not explained; the message names each that is not.
    """
    unexplained = reconcile(columns, merged=merged).unexplained
    if unexplained:
        listed = "; ".join(map(str, unexplained))
        raise BundleError(f"{source}: expected graphs that do the model's work, found differences: {listed}")


def _count_model(bundle: Bundle, model: "nn.Module | None", recorded: Work | None) -> dict[str, Work]:
    if model is None:
        return {}
    manifest = bundle.manifest
    if manifest.task != TRANSLATION:
        from lite_nlp.export.counting.task_graphs import count_modules
        from lite_nlp.export.task_tracing import task_graphs

        graphs = task_graphs(model, manifest.signatures, manifest.state)
        return {MODEL: count_modules(graphs, manifest.bounds, recorded=recorded)}
    from lite_nlp.export.counting.torch_programs import count_model_work

    return {MODEL: count_model_work(model, manifest.state, manifest.bounds, recorded=recorded)}


def _count_onnx(bundle: Bundle, recorded: Work | None) -> Work | None:
    programs = bundle.manifest.programs.onnx
    if programs is not None and importlib.util.find_spec("onnx") is not None:
        from lite_nlp.export.counting.task_graphs import count_onnx_graphs

        files = {name: bundle.read(file) for name, file in programs.graphs.items()}
        return count_onnx_graphs(files, bundle.manifest.signatures, bundle.manifest.bounds, recorded=recorded)
    entry = bundle.manifest.runtimes.get("onnx")
    if not isinstance(entry, OnnxEntry) or importlib.util.find_spec("onnx") is None:
        return None
    from lite_nlp.export.counting.onnx_walk import count_onnx_work

    return count_onnx_work(
        encode=bundle.read(entry.encode),
        decode_step=bundle.read(entry.decode_step),
        bounds=bundle.manifest.bounds,
        recorded=recorded,
    )


#: Runtimes whose graphs can be counted again from a bundle; None where something that it takes is not installed.
_RECOUNTED: Final[dict[str, Callable[[Bundle, Work | None], Work | None]]] = {"onnx": _count_onnx}
