"""``pyzk`` for tests that start it dozens of times: a process that has imported its modules forks each time.

A start costs 0.25 s of the processor's time, a fork 0.05 s. The forked process has the arguments, the folder,
the environment and the files of the program that asks for it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from pyzk.cli.main import main

ASK = """\
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"+"], [0, 1, 2])
    server.sendall(json.dumps([sys.argv[2:], os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    sys.exit(int(server.recv(9) or 1))
"""


@contextmanager
def forking(folder: Path) -> Iterator[str]:
    """Start the process that forks; gives the command that stands for ``pyzk``, for a shell.

    :param folder: where its socket and its program go.
    """
    place, program = folder / "forking", folder / "ask.py"
    program.write_text(ASK)
    command = [sys.executable, "-P", __file__, str(place)]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield f"{sys.executable} -I -S {program} {place}"
        finally:
            process.terminate()


def serve(place: str) -> None:
    """Fork for each program that connects, one after the other."""
    for module in ("pyzk.cli.completing", "pyzk.cli.verbs.completing"):  # main imports them when it runs
        import_module(module)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        print("ready", flush=True)
        while True:
            asking, _ = listener.accept()
            with asking:
                _, files, _, _ = socket.recv_fds(asking, 1, 3)
                child = os.fork()
                if not child:
                    try:
                        for number, file in enumerate(files):
                            os.dup2(file, number)
                        arguments, folder, environment = json.loads(asking.makefile().read())
                        os.chdir(folder)
                        os.environ.clear()
                        os.environ.update(environment)
                        status = main(arguments)
                        sys.stderr.flush()
                        os._exit(status)
                    except BaseException:
                        traceback.print_exc()
                        os._exit(1)
                for file in files:
                    os.close(file)
                _, status = os.waitpid(child, 0)
                asking.sendall(b"%d" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    serve(sys.argv[1])
