"""A program's methods in the ExecuTorch runtime, whose Python package needs torch for its tensors."""

import importlib.util
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from lite_nlp.core.errors import BundleError
from lite_nlp.core.extras import needs_extra
from lite_nlp.export.runtime.executorch_rows import as_tensor
from lite_nlp.export.runtime.layout import ManifestSection
from lite_nlp.export.runtime.limits import MAX_COUNT, Text
from lite_nlp.export.runtime.mapped_file import mapped_file
from lite_nlp.export.runtime.quiet import quiet_libraries, quiet_native_code
from lite_nlp.export.runtime.signatures import Signature, TensorForm, check_form

__all__ = [
    "LoadedProgram",
    "MethodCalls",
    "execute",
    "load_library",
    "load_operators",
]

#: ExecuTorch's numbers of the types in the manifest's words.
_TYPES: Final = {6: "float32", 4: "int64", 11: "bool"}

#: From a file the runtime maps the program; content in memory it keeps beside the weights that it packs.
_PROGRAM_FILE: Final = "program.pte"


class MethodCalls(ManifestSection):
    """Calls that a method of a program makes in every run.

    Attributes:
        delegated: Of the backend, XNNPACK.
        kernels: Of ExecuTorch's own kernels, by name, the most frequent first.
    """

    delegated: int = Field(ge=0, le=MAX_COUNT)
    kernels: dict[Text, Annotated[int, Field(ge=0, le=MAX_COUNT)]]


class LoadedProgram:
    """A program in the runtime.

    Args:
        content: The ``.pte`` file.
        threads: Threads of the process-wide pools, ExecuTorch's and torch's.

    Raises:
        MissingExtraError: If ExecuTorch is not installed.
        BundleError: If the runtime does not accept the program.
    """

    def __init__(self, content: bytes, *, threads: int) -> None:
        library = _start_runtime(threads=threads)
        checks = library.Verification.InternalConsistency
        with mapped_file(_PROGRAM_FILE, content) as path, _native():
            # Kept: the methods are views of the program.
            self._program = library._load_program(str(path), program_verification=checks)

    def check(self, name: str, signature: Signature, largest: Mapping[str, int]) -> None:
        """Check what a method takes and gives, without its memory.

        Args:
            name: Of the method.
            signature: What the manifest says of it.
            largest: The size that each symbol stands for at most.

        Raises:
            BundleError: If there is none, or it takes or gives other tensors than the manifest says.
        """
        with _native(f"{name}: "):
            facts = self._program.method_meta(name)
        _check_method(name, facts, signature, largest)

    def load(self, name: str, signature: Signature, largest: Mapping[str, int]) -> Any:
        """A method of the program, checked, for :func:`execute`; arguments as of :meth:`check`.

        Raises:
            BundleError: As by :meth:`check`, or if the runtime does not accept the method.
        """
        self.check(name, signature, largest)
        return self.method(name)

    def method(self, name: str) -> Any:
        """A method of the program, whatever it takes and gives.

        Raises:
            BundleError: If the runtime does not accept it.
        """
        with _native(f"{name}: "):
            return self._program.load_method(name)

    def run(self, method: Any, arguments: list[NDArray[Any]], *, rows: int) -> list[NDArray[Any]]:
        """Call a method with arrays whose first dimension is the batch, at most ``rows`` at a time.

        Raises:
            BundleError: If it fails.
        """
        parts = [
            [output.numpy() for output in execute(method, [as_tensor(each[at : at + rows]) for each in arguments])]
            for at in range(0, max(1, len(arguments[0])), rows)
        ]
        return parts[0] if len(parts) == 1 else [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]


@contextmanager
def _native(what: str = "") -> Iterator[None]:
    """Bindings of native code: what they raise depends on where in the program the damage is."""
    try:
        with quiet_native_code():
            yield
    except Exception as error:
        raise BundleError(f"ExecuTorch does not accept the bundle's program: {what}{error}") from error


def _check_method(name: str, facts: Any, signature: Signature, largest: Mapping[str, int]) -> None:
    """Check arguments and results by position; of sizes known at run time a method states the largest."""
    for what, forms, count, describe in (
        ("arguments", signature.inputs, facts.num_inputs(), facts.input_tensor_meta),
        ("results", signature.outputs, facts.num_outputs(), facts.output_tensor_meta),
    ):
        if count != len(forms):
            raise BundleError(
                f"{what} of {name}: expected {len(forms)} as the manifest says, found {count} in the program"
            )
        for place, (key, form) in enumerate(forms.items()):
            sizes = tuple(largest[size] if isinstance(size, str) else size for size in form.shape)
            try:
                tensor = describe(place)
            except Exception as error:
                raise BundleError(f"{what} of {name}: {key}: expected a tensor, found: {error}") from error
            found = TensorForm(_TYPES.get(tensor.dtype(), f"type {tensor.dtype()}"), tuple(tensor.sizes()))
            check_form(f"{what} of {name}: {key}", TensorForm(form.dtype, sizes), found)


def execute(method: Any, tensors: list[Any]) -> list[Any]:
    """Call a method with torch tensors; returns such.

    Raises:
        BundleError: If it fails.
    """
    try:
        outputs: list[Any] = method(tensors)
    except Exception as error:
        shapes = [tuple(tensor.shape) for tensor in tensors]
        raise BundleError(f"ExecuTorch failed on arguments of shapes {shapes}: {error}") from error
    return outputs


def _start_runtime(*, threads: int) -> Any:
    """ExecuTorch's extension, its pool for the process set to ``threads``, and torch's too.

    Products that XNNPACK does not have run in torch's libraries, which also copy what a method returns: both would
    start threads of their own, which wait for the next call without sleeping.

    Raises:
        MissingExtraError: If ExecuTorch is not installed.
    """
    library = load_library()
    import torch

    torch.set_num_threads(threads)
    with quiet_libraries(), quiet_native_code():
        library._unsafe_reset_threadpool(threads)
    return library


def load_operators() -> bool:
    """Register the kernels of ExecuTorch's library for language models; returns whether there is such a library."""
    import torch

    package = importlib.util.find_spec("executorch.extension.llm.custom_ops")
    folders = [] if package is None else package.submodule_search_locations or []
    libraries = [file for folder in folders for file in Path(folder).glob("*custom_ops_aot_lib.*")]
    for library in libraries:
        torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    return bool(libraries)


def load_library() -> Any:
    """Import ExecuTorch's extension; returns it.

    The package's modules around it, which do nothing but name its functions anew, import the whole exporter for a class
    of warnings: seven seconds, where torch takes three.

    Raises:
        MissingExtraError: If it is not installed.
    """
    with needs_extra("--runtime executorch", "export", whole=False), quiet_libraries(), quiet_native_code():
        # Its libraries are the extension's too.
        import_module("torch")
        return import_module("executorch.extension.pybindings._portable_lib")
