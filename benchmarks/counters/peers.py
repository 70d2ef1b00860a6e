"""Other counters, each as a function from a module and its inputs to the reported multiply-accumulates.

If a counter's unit is the floating-point operation, two count as one multiply-accumulate; fvcore's "flop" is one.
"""

import contextlib
import importlib.util
import inspect
import io
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import nn

__all__ = ["PEERS", "Peer", "count", "is_installed"]

#: Counts one module: module, inputs, multiply-accumulates.
Peer = Callable[[nn.Module, tuple[Any, ...]], float]


def _ours(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from lite_nlp.budget.traced.counter import count_work

    return count_work(module, *inputs).macs


def _torch(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() / 2


def _fvcore(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from fvcore.nn import FlopCountAnalysis

    analysis = FlopCountAnalysis(module, inputs)
    return analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()


def _ptflops(backend: str) -> Peer:
    def run(module: nn.Module, inputs: tuple[Any, ...]) -> float:
        from ptflops import get_model_complexity_info

        names = list(inspect.signature(module.forward).parameters)
        # It makes its inputs itself, by name, from a shape that does not matter here.
        macs, _ = get_model_complexity_info(
            module,
            (1,),
            input_constructor=lambda _: dict(zip(names, inputs, strict=False)),
            as_strings=False,
            print_per_layer_stat=False,
            backend=backend,
        )
        return macs

    return run


def _calflops(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from calflops import calculate_flops

    # It reads the device of the first parameter, so there has to be one.
    module.register_parameter("unused", nn.Parameter(torch.zeros(1)))
    return calculate_flops(model=module, args=list(inputs), print_results=False, output_as_string=False)[1]


def _thop(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    import thop

    return thop.profile(module, inputs=inputs, verbose=False)[0]


def _torchinfo(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    import torchinfo

    return torchinfo.summary(module, input_data=inputs, verbose=0).total_mult_adds


def _torch_pruning(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from torch_pruning.utils import count_ops_and_params

    return count_ops_and_params(module, inputs if len(inputs) > 1 else inputs[0])[0]


def _torchprofile(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from torchprofile import profile_macs

    return profile_macs(module, inputs)


def _deepspeed(module: nn.Module, inputs: tuple[Any, ...]) -> float:
    from deepspeed.profiling.flops_profiler import get_model_profile

    return get_model_profile(module, args=list(inputs), print_profile=False, as_string=False)[1]


#: Name of the column: the distribution it comes in, the module that it installs, and how to count with it.
PEERS: dict[str, tuple[str, str, Peer]] = {
    "lite-nlp": ("lite-nlp", "lite_nlp", _ours),
    "torch": ("torch", "torch", _torch),
    "fvcore": ("fvcore", "fvcore", _fvcore),
    "ptflops py": ("ptflops", "ptflops", _ptflops("pytorch")),
    "ptflops aten": ("ptflops", "ptflops", _ptflops("aten")),
    "calflops": ("calflops", "calflops", _calflops),
    "thop": ("thop", "thop", _thop),
    "torchinfo": ("torchinfo", "torchinfo", _torchinfo),
    "torch-pruning": ("torch-pruning", "torch_pruning", _torch_pruning),
    "torchprofile": ("torchprofile", "torchprofile", _torchprofile),
    "ultralytics-thop": ("ultralytics-thop", "thop", _thop),
    "deepspeed": ("deepspeed", "deepspeed", _deepspeed),
}


def is_installed(name: str) -> bool:
    """Whether the peer's distribution is installed and provides the module that would be imported.

    thop and ultralytics-thop install a module of the same name; the first on the path is imported.
    """
    distribution, module, _ = PEERS[name]
    try:
        found = version(distribution)
    except PackageNotFoundError:
        return False
    spec = importlib.util.find_spec(module)
    if module != "thop" or spec is None:
        return spec is not None
    import thop

    return found.startswith(thop.__version__)


def count(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> float:
    """Multiply-accumulates that the peer ``name`` reports for ``module``; its output is discarded.

    Raises:
        Exception: Any error of the peer.
    """
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), torch.no_grad():
        return float(PEERS[name][2](module, inputs))
