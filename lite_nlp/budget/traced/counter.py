"""Count the Mult-Adds of a module or a function of tensors, operator by operator, while it runs.

Nothing is computed: the code runs on fake tensors, which have a shape but no numbers and take no memory, while every
operator that reaches torch's dispatcher is looked up in :mod:`lite_nlp.budget.traced.operators`. What counts is
therefore what would run, not what a module's type promises: fused and unfused attention, einsum, shared modules each
time they are called, and loops as often as they go round. Only shapes decide, so the numbers in the inputs, padding
among them, change nothing; code whose course depends on the numbers cannot be counted and says so. What a module keeps
for later calls is afterwards what it was; what other code keeps, a closure's list for one, is fake.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch._higher_order_ops import utils as higher_order
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from torch.nn.parameter import is_lazy
from torch.nn.utils.rnn import PackedSequence
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from lite_nlp.budget.traced.calls import call_work, is_counted, refusal
from lite_nlp.budget.traced.contractions import ProductTracker
from lite_nlp.budget.traced.functions import FunctionWatcher, fake_packed
from lite_nlp.budget.traced.kept import kept_as_it_was
from lite_nlp.budget.traced.operators import Call, base_name, bind_arguments
from lite_nlp.budget.traced.work import Entry, ParameterCount, WorkCount, WorkKind
from lite_nlp.core.errors import CountError, UnknownOperatorError

__all__ = ["count_parameters", "count_stepped_model", "count_work"]

_CPU = torch.device("cpu")


def count_work(function: Callable[..., Any], *args: Any, **kwargs: Any) -> WorkCount:
    """Count the Mult-Adds of ``function(*args, **kwargs)``, without gradients.

    Args:
        function: A module, a method of one, or any function of tensors. Its weights are left alone and may be on any
            device, ``meta`` among them; a module counts in the mode it is in, training or evaluation.
        *args: Arguments, with tensors in any nesting; of the tensors only shapes and types are looked at.
        **kwargs: Likewise.

    Returns:
        The work by operator, module and kind. Module names are paths within the module that was given or whose method
        was; within the outermost module that ran, after its class's name, if ``function`` is neither.

    Raises:
        UnknownOperatorError: If an operator runs whose cost is not known.
        CountError: If the code's course depends on the numbers in a tensor, a tensor has no plain layout, or a lazy
            module has not been called yet.
    """
    return _run(function, args, kwargs, root=_owner(function))[0]


def count_parameters(module: nn.Module) -> ParameterCount:
    """Count the parameters of ``module``, buffers excluded, each shared tensor once.

    Raises:
        CountError: If it has a lazy module that has not been called yet.
    """
    _require_sizes(module)
    tables_of = (layer for layer in module.modules() if isinstance(layer, nn.Embedding | nn.EmbeddingBag))
    # Whatever its table is made of: a parametrized one is no parameter itself.
    embeddings = {parameter for layer in tables_of for parameter in layer.parameters()}
    by_module: dict[str, int] = {}
    tables: dict[str, int] = {}
    for name, parameter in module.named_parameters():
        owner = name.rpartition(".")[0]
        by_module[owner] = by_module.get(owner, 0) + parameter.numel()
        if parameter in embeddings:
            tables[owner] = tables.get(owner, 0) + parameter.numel()
    return ParameterCount(total=sum(by_module.values()), by_module=by_module, tables=tables)


def count_stepped_model(model: nn.Module, *, src_len: int, tgt_len: int, beam: int = 1) -> WorkCount:
    """Count the work of translating one sentence step by step with caches.

    That is one pass of the encoder, one preparation of the caches, and a decoder step for each target token and each
    hypothesis. The caches have room for ``tgt_len`` tokens, and every step attends over all of that room, so that all
    steps cost the same.

    Args:
        model: Has ``encode``, ``init_state`` and ``decode_step`` (``lite_nlp.decoding.torch_model.SteppedModel``).
        src_len: Source tokens.
        tgt_len: Steps.
        beam: Hypotheses that are kept at each step.

    Raises:
        ValueError: If a length or ``beam`` is below 1.
        CountError: As :func:`count_work`.
    """
    for name, value in (("source length", src_len), ("target length", tgt_len), ("beam", beam)):
        if value < 1:
            raise ValueError(f"{name}: expected at least 1, found {value}")
    stepped: Any = model
    src_mask = torch.ones(1, src_len, dtype=torch.bool)

    def prepare(src_tokens: Tensor, src_mask: Tensor) -> Any:
        return stepped.init_state(stepped.encode(src_tokens, src_mask), src_mask, tgt_len)

    tokens = torch.zeros(1, src_len, dtype=torch.int64)
    once, state = _run(prepare, (tokens, src_mask), {}, root=model)
    step, _ = _run(stepped.decode_step, (torch.zeros(1, dtype=torch.int64), state), {}, root=model)
    return once + step.scaled(tgt_len * beam)


def _run(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, root: nn.Module | None
) -> tuple[WorkCount, Any]:
    """Run ``function`` on fake copies of its arguments; returns the work and the (fake) result."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True, allow_fallback_kernels=False)
    recorder = _Recorder(fake_mode, _ModuleNames(root))
    if root is not None:
        _require_sizes(root)
    parts = root.modules() if root is not None else ()
    with kept_as_it_was(parts), torch.no_grad(), _separate_operators(), fake_mode, recorder, FunctionWatcher(recorder):
        # To torch's trees a packed sequence is a tuple, whose tensors have to agree.
        args, kwargs = tree_map(
            recorder.to_fake, (args, kwargs), is_leaf=lambda value: isinstance(value, PackedSequence)
        )
        result = function(*args, **kwargs)
    return WorkCount.from_entries(recorder.entries), result


def _owner(function: Callable[..., Any]) -> nn.Module | None:
    """The module that ``function`` is, or is a method of."""
    for candidate in (function, getattr(function, "__self__", None)):
        if isinstance(candidate, nn.Module):
            return candidate
    return None


def _require_sizes(module: nn.Module) -> None:
    lazy = (name for name, tensor in module.named_parameters() if is_lazy(tensor))
    if (name := next(lazy, None)) is not None:
        raise CountError(f"{name}: expected a parameter with a shape, found that of a lazy module; call it once before")


@contextmanager
def _separate_operators() -> Iterator[None]:
    """Let torch's Transformer modules and branches call their operators one by one, so that their parts are told apart.

    The fused path of the first also drops padding by its values, of which there are none here. The others are compiled
    before they run, which torch gives up under a dispatch mode, and not only then: no later export in the process could
    have branches.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with patch.object(higher_order, "_hop_compile_and_call", _call):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Any:
    return function(*args, **(kwargs or {}))


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that looks up each operator on its way to the fake tensors below.

    All tensors live on a fake CPU, wherever the real ones are, so that weights without storage and inputs that were
    made elsewhere meet.
    """

    #: Operators that take functions, such as ``cond``, come here too, to be refused.
    supports_higher_order_operators = True

    def __init__(self, fake_mode: FakeTensorMode, names: "_ModuleNames") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[Entry] = []
        self.names = names
        self._fake_mode = fake_mode
        self._fakes: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        #: Tensors of lengths, whose numbers are those of shapes.
        self._kept: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self._products = ProductTracker()

    def to_fake(self, value: Any) -> Any:
        """A tensor of the same shape and type without numbers; what is no tensor, or was kept, stays as it is.

        Raises:
            CountError: If the tensor is sparse, nested or of symbolic size.
        """
        if isinstance(value, PackedSequence):
            return fake_packed(value, self)
        if not isinstance(value, Tensor) or (isinstance(value, FakeTensor) and value.fake_mode is self._fake_mode):
            return value
        if value in self._kept:
            return value
        if value not in self._fakes:
            if value.layout != torch.strided or value.is_nested:
                raise CountError(f"tensor to count with: expected a dense one, found layout {value.layout}")
            if not all(isinstance(size, int) for size in value.shape):
                raise CountError(f"tensor to count with: expected a shape of numbers, found {tuple(value.shape)}")
            with unset_fake_temporarily(), self._fake_mode:
                self._fakes[value] = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_CPU)
        return self._fakes[value]

    def keep(self, numbers: list[int] | Tensor) -> Tensor:
        """A tensor of integers that keeps its numbers."""
        with _disable_current_modes():
            kept = torch.as_tensor(numbers, dtype=torch.int64).clone()
        self._kept[kept] = True
        return kept

    def _converted(self, value: Any) -> Any:
        """:meth:`to_fake` for an operator's argument, which is a tensor, a list of them or neither."""
        if isinstance(value, list | tuple):
            return [self.to_fake(item) for item in value]
        return self.to_fake(value)

    def record(self, operator: str, kind: WorkKind, macs: int) -> None:
        """Note the work of one call, made by the module whose code is running."""
        self.entries.append(Entry(operator=operator, module=self.names.running(), kind=kind, macs=macs, calls=1))

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if func is torch.ops.higher_order.scan:
            return self._scan(*args, **kwargs)
        if not isinstance(func, OpOverload):
            raise UnknownOperatorError(refusal(f"{func}{self._whereabouts()}"))
        operator = base_name(func)
        if operator == "aten._local_scalar_dense" and _has_numbers(args[0]):
            # A constant of the model, such as a width that it keeps as a buffer.
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        if tensors and all(value in self._kept for value in tensors):
            return self._compute(func, args, kwargs)
        # Tensors made from Python numbers remember them, so that code may ask for them again.
        if operator != "aten.lift_fresh":
            args = tuple(self._converted(value) for value in args)
            kwargs = {name: self._converted(value) for name, value in kwargs.items()}
        if kwargs.get("device") is not None:
            kwargs["device"] = _CPU
        if not is_counted(func):
            return self._decompose(func, operator, args, kwargs)
        result = self._call(func, operator, args, kwargs)
        call = Call(arguments=bind_arguments(func, args, kwargs), result=result)
        for kind, macs in call_work(func, call, self._products, whereabouts=self._whereabouts):
            self.record(operator, kind, macs)
        return result

    def _scan(
        self, step: Callable[..., Any], init: Sequence[Tensor], inputs: Sequence[Tensor], further: Sequence[Tensor]
    ) -> list[Tensor]:
        """Count a loop over the first dimension of ``inputs``: one step, as many times as it is made."""
        times, before = inputs[0].shape[0], len(self.entries)
        with self:
            results = step(*init, *(value[0] for value in inputs), *further)
            outputs = [value.new_empty(times, *value.shape) for value in results[len(init) :]]
        self.entries[before:] = WorkCount(tuple(self.entries[before:])).scaled(times).entries
        return [*results[: len(init)], *outputs]

    def _compute(self, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator on numbers that were kept; what comes out is kept too."""
        with _disable_current_modes():
            result = func(*args, **kwargs)
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self._kept[value] = True
        return result

    def _decompose(self, func: OpOverload, operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Count an operator that torch defines by others, which happens before they get here except in inference."""
        with self:
            result = func.decompose(*args, **kwargs)
        if result is NotImplemented:
            raise UnknownOperatorError(refusal(f"{operator}{self._whereabouts()}"))
        return result

    def _call(self, func: OpOverload, operator: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise CountError(
                f"operator {operator}{self._whereabouts()}: expected code that runs the same whatever the numbers in "
                f"its tensors are, found a result that depends on them ({error.func})"
            ) from error
        except UnsupportedOperatorException as error:
            raise CountError(
                f"operator {operator}{self._whereabouts()}: expected one that runs without numbers, found one whose "
                "result's shape is not known in advance"
            ) from error

    def _whereabouts(self) -> str:
        """Which module called, and from which line."""
        module = self.names.running()
        lines = (f"{frame.f_code.co_filename}:{frame.f_lineno}" for frame in _frames() if _is_users(frame))
        where = next(lines, "")
        return f"{f' in module {module}' if module else ''}{f' at {where}' if where else ''}"


class _ModuleNames:
    """Names of the running modules, taken from the stack of calls, also in methods other than ``forward``.

    Args:
        root: The module whose paths are wanted; None to take the outermost one that is running.
    """

    def __init__(self, root: nn.Module | None) -> None:
        self._names: dict[nn.Module, str] = {}
        self._roots: set[str] = set()
        if root is not None:
            self._names = {module: name for name, module in root.named_modules()}

    def running(self) -> str:
        """Path of the innermost module whose code is running; empty if there is none."""
        modules = [
            candidate
            for frame in takewhile(lambda frame: frame.f_code is not _RUN_CODE, _frames())
            if frame.f_code.co_varnames[:1] == ("self",)
            and isinstance(candidate := frame.f_locals.get("self"), nn.Module)
        ]
        if modules and not any(module in self._names for module in modules):
            self._add_root(modules[-1])
        return next((self._names[module] for module in modules if module in self._names), "")

    def _add_root(self, root: nn.Module) -> None:
        base = type(root).__name__
        label, number = base, 1
        while label in self._roots:
            number += 1
            label = f"{base}_{number}"
        self._roots.add(label)
        for name, module in root.named_modules():
            self._names.setdefault(module, f"{label}.{name}" if name else label)


def _frames() -> Iterator[FrameType]:
    """The frames of the code that is running, innermost first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


#: The code between which and the operator lies what is being counted.
_RUN_CODE: CodeType = _run.__code__


def _is_users(frame: FrameType) -> bool:
    """Whether ``frame`` is neither torch's nor the counter's, nor that of a public function by which it was called."""
    module = str(frame.f_globals.get("__name__", ""))
    counters = __name__, FunctionWatcher.__module__, call_work.__module__, "lite_nlp.api.budget"
    return module not in counters and module.partition(".")[0] != "torch"


def _has_numbers(value: Any) -> bool:
    return isinstance(value, Tensor) and not isinstance(value, FakeTensor) and not value.is_meta
