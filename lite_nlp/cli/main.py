"""The start and the end of a command: signals, the encoding of its streams, and the exit codes of errors.

Nothing but that is imported before the signals are taken, so that one that comes early is answered in a line as well.
"""

import codecs
import io
import os
import sys
import traceback
from typing import Final, TextIO

from lite_nlp.core.display import displayable
from lite_nlp.core.errors import LiteNlpError, OverBudgetError, UsageError
from lite_nlp.core.signals import Stopped, stopped_by_signals, undisturbed

__all__ = ["main"]

#: Errors with another exit code than 1.
_EXIT_CODES: Final = {UsageError: 2, OverBudgetError: 3}

_TOO_MUCH_MEMORY: Final = "error: this takes more memory than there is"

#: Number of the standard error stream.
_STDERR: Final = 2

#: Name of the handler of characters that UTF-8 has no bytes for, which are stray bytes of file names.
_DISPLAYED: Final = "lite-nlp-displayed"


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 over budget, 128 and more for a signal."""
    debug = "--debug" in sys.argv[1:]
    if debug:
        # Accepted anywhere on the line, since people add it to the end of the command that just failed.
        sys.argv = [sys.argv[0], "--debug", *(word for word in sys.argv[1:] if word != "--debug")]
    with stopped_by_signals():
        if sys.stderr is None:
            _drop_messages()
        if sys.stdout is None:
            # Results would go nowhere, and the next file that is opened would take its place for libraries that write
            # to it by number.
            _fail("error: standard output: expected an open stream, found a closed one", debug=debug)
        _use_utf8()
        try:
            _run()
        except Stopped as stopped:
            with undisturbed():
                _fail(f"error: stopped by {stopped.signal_name}", debug=debug, code=int(str(stopped.code)))
        except LiteNlpError as error:
            # An excess is a result of several lines; everything else is an error.
            prefix = "" if isinstance(error, OverBudgetError) else "error: "
            code = next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), 1)
            _fail(f"{prefix}{error}", debug=debug, code=code)
        except BrokenPipeError:
            # The reader of our output has closed the pipe (`| head`).
            sys.stdout = None
            raise SystemExit(1) from None
        except OSError as error:
            place = "" if error.filename is None else f"{displayable(os.fsdecode(error.filename))}: "
            _fail(f"error: {place}{error.strerror or error}", debug=debug)
        except UnicodeEncodeError as error:
            # Most libraries below take no path with stray bytes, which any letter beyond ASCII is in such a locale.
            word = displayable(error.object)
            _fail(
                f"error: {word}: expected a path in the encoding of this locale; PYTHONUTF8=1 makes it UTF-8",
                debug=debug,
            )
        except MemoryError:
            _fail(_TOO_MUCH_MEMORY, debug=debug)
        except RuntimeError as error:
            # Torch has no exception of its own where the memory of the processor ends.
            if type(error).__name__ != "OutOfMemoryError" and "can't allocate memory" not in str(error):
                raise
            _fail(_TOO_MUCH_MEMORY, debug=debug)


def _drop_messages() -> None:
    """Open a standard error stream that goes nowhere: a file would take its number, and messages would be results."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != _STDERR:
        os.dup2(nowhere, _STDERR)
        os.close(nowhere)
    sys.stderr = os.fdopen(_STDERR, "w")


def _run() -> None:
    from lite_nlp.cli.program import command_name, make_program
    from lite_nlp.core.extras import needs_extra

    words = sys.argv[1:]
    try:
        with needs_extra(command_name(words)):
            make_program(words)()
    finally:
        # Python itself would flush later, where an error can no longer be told with an exit code of ours.
        if sys.stdout is not None:
            _flush(sys.stdout)


def _flush(stream: TextIO) -> None:
    try:
        stream.flush()
    except OSError:
        # What is left in the buffer goes nowhere, or the error would come again at the end of the process.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        raise


def _use_utf8() -> None:
    """Read and write UTF-8 in every locale: text of models is UTF-8, and so are the lines of our tables."""
    codecs.register_error(_DISPLAYED, _displayed)
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, _DISPLAYED), (sys.stderr, _DISPLAYED)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _displayed(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return displayable(error.object[error.start : error.end]).encode("utf-8"), error.end


def _fail(message: str, *, debug: bool, code: int = 1) -> None:
    if debug:
        traceback.print_exc()
    print(message, file=sys.stderr, flush=True)
    raise SystemExit(code)
