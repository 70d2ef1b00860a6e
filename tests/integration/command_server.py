"""``lite-nlp`` for many commands in a row: a process that has imported everything forks one for each.

The shell commands of the docs start ``lite-nlp`` more than a hundred times, and most of their time would be the imports
of torch; exports, and whatever runs in ExecuTorch, would import that for as long again. ``command_directory`` has a
``lite-nlp`` that hands its words, directory, environment and open files to the server and ends with the exit code that
comes back; what runs is ``lite_nlp.cli.main`` as the installed command runs it.
"""

import gc
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from subprocess import PIPE, Popen

__all__ = ["command_directory"]

#: Imported by the server: all that commands import, but what is slow and used by few.
_PREPARED = (
    *("torch", "accelerate", "onnxruntime", "sacrebleu.metrics", "torch_pruning", "torch.utils.tensorboard"),
    *("lite_nlp.training.loop", "lite_nlp.compress.pipeline", "lite_nlp.export.pipeline"),
    *("lite_nlp.tasks.translation.training", "lite_nlp.tasks.classification.evaluate", "lite_nlp.api.data"),
    *("executorch.extension.pybindings._portable_lib", "executorch.extension.llm.custom_ops.custom_ops"),
    "executorch.backends.xnnpack.partition.xnnpack_partitioner",
)

_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    order = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [len(order).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(order)
    code = server.recv(1)
sys.exit(code[0] if code else 70)
"""


@contextmanager
def command_directory(path: Path) -> Iterator[Path]:
    """A directory with a ``lite-nlp`` for the PATH, while its server runs."""
    path.mkdir()
    address = str(path / "server")
    command = path / "lite-nlp"
    command.write_text(_CLIENT.format(python=sys.executable, address=address), encoding="utf-8")
    command.chmod(0o755)
    with Popen([sys.executable, __file__, address], stdin=PIPE, stdout=PIPE) as server:
        try:
            if server.stdout is None or server.stdout.readline() != b"ready\n":
                raise RuntimeError("the command server did not start")
            yield path
        finally:
            server.kill()


def _serve(address: str) -> None:
    from lite_nlp.cli.program import make_program

    for name in _PREPARED:
        import_module(name)
    # With the modules of all commands.
    make_program()
    # As tests/conftest.py does; and what was imported is never looked at again, which would also copy its memory.
    gc.set_threshold(50_000, 20, 50)
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            connection, _ = server.accept()
            # A process that waits for the command's own: many commands may run at once.
            if os.fork() == 0:
                server.close()
                os._exit(_answer(connection))
            connection.close()
            _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _answer(connection: socket.socket) -> int:
    """Run one command in a process of its own and send its exit code."""
    with connection:
        head, files, _, _ = socket.recv_fds(connection, 8, 3)
        length, order = int.from_bytes(head, "big"), b""
        while len(order) < length:
            order += connection.recv(length - len(order))
        child = os.fork()
        if child == 0:
            _run(*json.loads(order), files)
        for file in files:
            os.close(file)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        connection.sendall(bytes([code % 256]))
    return 0


def _run(words: list[str], directory: str, environment: dict[str, str], files: list[int]) -> None:
    from lite_nlp.cli.main import main

    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    # As a process of its own would have them: those of the server know whether its files could be sought in, not these.
    sys.stdin, sys.stdout, sys.stderr = (open(place, mode, closefd=False) for place, mode in enumerate("rww"))  # noqa: SIM115
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    code = 1
    try:
        main()
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
