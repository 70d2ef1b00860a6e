"""Targets that are counted by config: a preset, a config, a config file or any MODEL. Imports no torch by itself."""

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lite_nlp.artifacts.models import LoadedModel, Source, list_shipped, read_config, resolve_source
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config, load_config
from lite_nlp.configs import list_presets
from lite_nlp.core.display import displayable
from lite_nlp.core.errors import ConfigError, UsageError
from lite_nlp.core.suggestions import did_you_mean_path

if TYPE_CHECKING:
    from lite_nlp.budget.reporting.columns import GraphColumns

__all__ = ["CountTarget", "Countable", "read_graph_columns", "read_target"]

#: Arguments of :func:`read_target`.
Countable: TypeAlias = str | Path | Source | Config | ModelConfig | LoadedModel | None


@dataclass(frozen=True, kw_only=True)
class CountTarget:
    """A model to count, by its config.

    Attributes:
        name: Its name in reports.
        words: Its name on a command line.
        model: Its architecture.
        config: Its whole config; None if only the architecture is known.
        source: Its file or directory, if it is a finished model.
        preset: Its name, if it is an unchanged preset.
    """

    name: str
    words: str
    model: ModelConfig
    config: Config | None = None
    source: Source | None = None
    preset: str | None = None

    @property
    def size_bytes(self) -> int | None:
        """Its size, if it is a single file."""
        if self.source is None or self.source.kind == "directory":
            return None
        return self.source.path.stat().st_size

    @property
    def bundle(self) -> Path | None:
        """The path of the bundle, if it is one."""
        return self.source.path if self.source is not None and self.source.kind == "bundle" else None


def read_target(target: Countable, overrides: Sequence[str] = ()) -> CountTarget:
    """Resolve ``target`` to a config: presets first, then config files, then models.

    Args:
        target: A preset's name, the path of a config file, a MODEL, its source, a config, or a loaded model; None for
            the default shipped model.
        overrides: ``section.key=value`` strings that change a preset, a config file or a config.

    Raises:
        ConfigError: If it names nothing, or an override is wrong.
        UsageError: If overrides are given for anything else.
        LiteNlpError: If the model it names is damaged.
    """
    if isinstance(target, str | Path) and (str(target) in list_presets() or Path(target).suffix == ".toml"):
        preset = str(target) if str(target) in list_presets() and not overrides else None
        config = load_config(target, overrides)
        return CountTarget(
            name=displayable(str(target)), words=str(target), model=config.model, config=config, preset=preset
        )
    if isinstance(target, Config):
        config = load_config(target, overrides)
        return CountTarget(name=displayable(config.name), words=config.name, model=config.model, config=config)
    found = _read_finished(target)
    if overrides:
        raise UsageError(f"--set changes a preset or config file, found the finished model {found.name}")
    return found


def _read_finished(target: str | Path | Source | ModelConfig | LoadedModel | None) -> CountTarget:
    if isinstance(target, ModelConfig):
        return CountTarget(name=target.family, words=target.family, model=target)
    if isinstance(target, LoadedModel):
        config = target.config
        return CountTarget(name=displayable(target.name), words=target.name, model=config.model, config=config)
    if isinstance(target, Source):
        source = target
        words = source.name if any(source.path == shipped.path for shipped in list_shipped()) else str(source.path)
    else:
        shipped_names = [model.name for model in list_shipped()]
        if target is not None and str(target) not in shipped_names and not Path(target).exists():
            raise ConfigError(_unknown_target(str(target), shipped_names))
        source = resolve_source(target)
        words = source.name if target is None else str(target)
    config = read_config(source)
    return CountTarget(
        name=displayable(source.name),
        words=words,
        model=config.model,
        config=config,
        source=source,
    )


def read_graph_columns(target: CountTarget, *, recount: bool) -> "GraphColumns | None":
    """The work of a bundle's graphs; None if ``target`` is no bundle or records nothing.

    Args:
        target: The counted target.
        recount: Whether to count graphs and model again, as far as the installed packages allow; otherwise all figures
            are those that the manifest records.

    Raises:
        BundleError: If the bundle is damaged.
    """
    if target.bundle is None:
        return None
    from lite_nlp.artifacts.bundles import open_any_bundle
    from lite_nlp.budget.reporting.columns import GraphColumns
    from lite_nlp.export.runtime import open_stored

    if not recount:
        manifest = open_stored(target.bundle).manifest
        return _recorded_columns(manifest.graphs, manifest.task)
    from lite_nlp.export.counting.bundle import read_graphs

    model = None
    if importlib.util.find_spec("torch") is not None:
        from lite_nlp.models.build import plan_model

        model = plan_model(target.model).eval()
    graphs = read_graphs(open_any_bundle(target.bundle), model=model)
    if not graphs.columns:
        return None
    return GraphColumns(work=graphs.columns, origins=graphs.origins, reconciliation=graphs.reconciliation)


def _recorded_columns(graphs: Mapping[str, Any], task: str) -> "GraphColumns | None":
    from lite_nlp.budget.reporting.columns import GraphColumns
    from lite_nlp.budget.traced.graphs import work_from_json
    from lite_nlp.budget.traced.reconciliation import MERGED, reconcile

    recorded = {name: work_from_json(work, task=task) for name, work in graphs.items()}
    merged = recorded.pop(MERGED, None)
    if not recorded:
        return None
    return GraphColumns(
        work=recorded, origins=dict.fromkeys(recorded, "recorded"), reconciliation=reconcile(recorded, merged=merged)
    )


def _unknown_target(target: str, shipped: Sequence[str]) -> str:
    return (
        f"{displayable(target)}: expected a preset, as `lite-nlp presets` lists them, a config file, a model "
        f"directory, a .lnlp file, a bundle or a shipped model ({', '.join(shipped) or 'none'}), found nothing of that "
        f"name{did_you_mean_path(Path(target), [*list_presets(), *shipped])}"
    )
