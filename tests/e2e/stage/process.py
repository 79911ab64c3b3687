# SPDX-License-Identifier: Apache-2.0
"""One child process with a log of its own, which never outlives the tests."""
import ctypes
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

# Generous: a busy machine is slow, and nothing waits that long when all is well.
PATIENCE = 60

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def free_port():
    """A port on loopback that nothing listens on, below those the kernel gives to clients: a part
    that restarts must find its own port free again."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def _prepare_child():
    # Also when the tests are killed, and cannot clean up.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # Who runs the tests in the background of a shell, or with nohup, has these ignored.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Process:
    """A program in a process group of its own. It can be stopped and started again."""

    def __init__(self, name, argv, log_path, env=None):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log_path = pathlib.Path(log_path)
        self.env = {**os.environ, **(env or {})}
        self.popen = None

    def start(self):
        # The kernel's death signal follows the thread that forked, not the process.
        assert threading.current_thread() is threading.main_thread()
        assert not self.alive(), f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=log,
                                          stderr=log, env=self.env, start_new_session=True,
                                          preexec_fn=_prepare_child)
        return self

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    def signal(self, number):
        """To the whole group."""
        os.killpg(self.popen.pid, number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def kill(self):
        """As a crash or the kernel's out-of-memory killer would."""
        if self.alive():
            self.signal(signal.SIGKILL)
            self.popen.wait()

    def stop(self, seconds=20):
        """Ask it to end, insist after some seconds; its exit status (negative: a signal)."""
        if self.popen is None:
            return None
        if self.alive():
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            try:
                self.popen.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.popen.returncode

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def tail(self, lines=15):
        return "\n".join(line[:400] for line in self.log().splitlines()[-lines:])

    def check_alive(self):
        assert self.alive(), (f"{self.name} ended with status {self.popen.returncode}; "
                              f"log {self.log_path}:\n{self.tail(30)}")


class NotYet(Exception):
    """Raised by a polled function: the answer is still to come."""


def wait_until(condition, what, seconds=PATIENCE, every=0.05):
    """Poll until `condition()` is true; its value. OSError (no connection) and NotYet are 'no'."""
    end = time.monotonic() + seconds
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = value
        except (OSError, NotYet) as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s; at last: {last!r}")
        time.sleep(every)
