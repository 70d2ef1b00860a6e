"""Content of a bundle as a file, for runtimes that map their weights into memory instead of copying them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lite_nlp.core.errors import BundleError

__all__ = ["mapped_file"]


@contextmanager
def mapped_file(name: str, content: bytes) -> Iterator[Path]:
    """A file ``name`` with that content, in a folder of its own, removed at the end.

    What has mapped it by then keeps its pages: they are read where they are used, and the system may drop them.

    Raises:
        BundleError: If the disk has no place for it.
    """
    with ExitStack() as stack:
        try:
            # A system that keeps a file while it is mapped leaves it to whoever clears the temporary files.
            folder = TemporaryDirectory(prefix="lite-nlp-", ignore_cleanup_errors=True)
            path = Path(stack.enter_context(folder)) / name
            path.write_bytes(content)
        except OSError as error:
            raise BundleError(
                f"{name}: expected space for a temporary file, found none: {error}; TMPDIR names the folder"
            ) from error
        yield path
