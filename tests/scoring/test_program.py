"""Programs that misbehave, each in a call of its own: every one becomes a sentence, and the next call works."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hetgym
from hetgym.baselines import get
from hetgym.errors import ConfigError
from hetgym.problem import Problem
from hetgym.scoring import Limits, Program
from hetgym.workloads import textbook

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="programs run in forks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="a measure of Linux")

NAUGHTY = """
import os, sys, threading, time
import numpy as np
import hetgym
from hetgym import Schedule
from hetgym.baselines import get


def heft(problem):
    return get("heft")(problem)


def loop(problem):
    while True:
        pass


def sleep(problem):
    time.sleep(60)


def crash(problem):
    raise KeyError("no\\nsuch key")


def segfault(problem):
    import ctypes
    ctypes.string_at(0)


def leave(problem):
    os._exit(0)


def system_exit(problem):
    sys.exit("enough")


def kind(problem):
    return [0] * problem.num_operators


def short(problem):
    return Schedule([0], order=[[0], [], []])


def nowhere(problem):
    return Schedule([99] * problem.num_operators, priority=[0.0] * problem.num_operators)


def twice(problem):
    n = problem.num_operators
    return Schedule([0] * n, order=[[0] * n] + [[]] * (problem.num_devices - 1))


def flood(problem):
    for number in range(3, 64):
        try:
            while True:
                os.write(number, b"x" * 65536)
        except OSError:
            pass


def forged(problem):
    n, text = problem.num_operators, b'{"schedule": {"assignment": [' + b"[" * 100
    for number in range(3, 64):
        try:
            os.write(number, text)
        except OSError:
            pass
    os._exit(0)


def printing(problem):
    for _ in range(100):
        print("x" * 100000)
    sys.stderr.write("y" * 1000000)
    return heft(problem)


def reading(problem):
    return heft(problem) if sys.stdin.read() == "" else None


def forks(problem):
    while True:
        os.fork()


def command(problem):
    import subprocess
    subprocess.run(["true"])


def hog(problem):
    return np.ones(1 << 40)


def patched(problem):
    def cheat(*_, **__):
        raise AssertionError("patched")
    hetgym.simulate = hetgym.validate = hetgym.schedule.validate = hetgym.sim.simulate = cheat
    object.__setattr__(problem, "cost", problem.cost * 0)
    return Schedule([0] * problem.num_operators, order=[list(range(problem.num_operators))] + [[]] * 2, start=None)


def bound(problem):
    made = heft(problem)
    return Schedule(made.assignment, order=made.device_order(problem), lower_bound=0.0, scheduler="x" * 1000)


def connect(problem):
    import socket
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def write_outside(problem):
    import tempfile
    open(os.path.join(os.path.dirname(os.getcwd()), "left"), "w").write("x")


def write_inside(problem):
    import tempfile
    assert os.listdir() == ["program.py"], os.listdir()
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 1000)
    open("mine", "w").write("x")
    return heft(problem)


def long_file(problem):
    open("mine", "wb").write(b"x" * 2000000)


def kill_parent(problem):
    os.kill(os.getppid(), 9)


def limit_parent(problem):
    import resource
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))


def move_parent(problem):
    os.sched_setaffinity(os.getppid(), os.sched_getaffinity(0))


def calm_parent(problem):
    os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)


def own_pipe(problem):
    import fcntl
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC)
    os.write(writing, b"x")


def own_pipe_wholly(problem):
    import fcntl, struct
    reading, writing = os.pipe()
    fcntl.fcntl(reading, 15, struct.pack("=ii", 1, os.getppid()))


def signal_of_pipe(problem):
    import fcntl
    fcntl.fcntl(os.pipe()[0], fcntl.F_SETSIG, 9)


def lease(problem):
    import fcntl
    fcntl.fcntl(os.open(VICTIM, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)


def own_by_ioctl(problem):
    import fcntl
    fcntl.ioctl(os.pipe()[0], 0x8901, b"    ")


def flags(problem):
    import fcntl
    fcntl.ioctl(os.open(VICTIM, os.O_RDONLY), 0x40086602, bytes(8))


def chmod(problem):
    os.chmod(VICTIM, 0o777)


def fchmod(problem):
    os.fchmod(os.open(VICTIM, os.O_RDONLY), 0o777)


def chown(problem):
    os.chown(VICTIM, -1, os.getgid())


def utime(problem):
    os.utime(VICTIM, (0, 0))


def setxattr(problem):
    os.setxattr(VICTIM, "user.x", b"x")


def raw(*numbers):
    def call(problem):
        import ctypes
        libc, name = ctypes.CDLL(None, use_errno=True), VICTIM.encode()
        for number in numbers:
            for arguments in ((name, 0o777, 0), (-100, name, 0o777, 0)):
                ctypes.set_errno(0)
                assert libc.syscall(number, *arguments) == -1 and ctypes.get_errno() == 1, number
        raise PermissionError("of all")
    return call


old_calls = raw(90, 92, 94, 132, 235, 260, 261, 268, 280)
new_calls = raw(440, 448, 452, 463, 466, 469)


def own_settings(problem):
    import fcntl, resource
    resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
    resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    with open("mine", "w") as file:
        fcntl.fcntl(file, fcntl.F_SETFD, fcntl.fcntl(file, fcntl.F_GETFD))
        assert not os.isatty(file.fileno())
    return heft(problem)


def compiled(problem):
    import numba
    directory = os.path.abspath("cache")
    os.mkdir(directory)
    numba.config.CACHE_DIR = directory
    with open("own.py", "w") as file:
        file.write("import numba\\n@numba.njit(cache=True)\\ndef total(x):\\n    return x.sum()\\n")
    sys.path.insert(0, os.getcwd())
    import own
    assert own.total(np.arange(4.0)) == 6.0
    np.save("array.npy", np.arange(3))
    assert np.load("array.npy", mmap_mode="r")[2] == 2
    return heft(problem)


def threads(problem):
    one = threading.Thread(target=lambda: None)
    one.start()
    one.join()
    return heft(problem)


def environment(problem):
    assert sorted(os.environ) == ["HOME", "LANG", "PATH", "TMPDIR"], sorted(os.environ)
    assert "HETGYM_SECRET" not in open("/proc/self/environ").read()
    return heft(problem)


def outlive(problem):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(1, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1
    raise PermissionError("to outlive")


def deep(problem):
    for _ in range(1050):
        os.mkdir("d")
        os.chdir("d")
    raise ValueError("depth")


def thread_bomb(problem):
    threading.stack_size(32768)
    event = threading.Event()
    for _ in range(1000):
        threading.Thread(target=event.wait, daemon=True).start()
        time.sleep(0.0001)
    time.sleep(20)


def schedule(problem):
    return globals()[problem.name](problem)
"""


OTHERS = (
    *(
        "outlive",
        "limit_parent",
        "move_parent",
        "calm_parent",
        "own_pipe",
        "own_pipe_wholly",
        "signal_of_pipe",
        "own_by_ioctl",
    ),
    "lease",
)
FILES = ("chmod", "fchmod", "chown", "utime", "setxattr", "flags", "new_calls")


@pytest.fixture(scope="module")
def secret() -> Iterator[None]:
    before = os.environ.get("HETGYM_SECRET")
    os.environ["HETGYM_SECRET"] = "1"
    try:
        yield
    finally:
        os.environ.pop("HETGYM_SECRET")
        if before is not None:
            os.environ["HETGYM_SECRET"] = before


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, secret: None) -> Iterator[Program]:
    """With a limit that no call reaches, however busy the machine is."""
    path = tmp_path_factory.mktemp("naughty") / "naughty.py"
    victim = path.with_name("victim")
    victim.write_text("x")
    path.write_text(f"VICTIM = {str(victim)!r}\n{NAUGHTY}")
    with Program(path, Limits(seconds=30.0, memory=float(3 << 30), file=1e6)) as made:
        made.schedule(named("heft"))
        yield made


@pytest.fixture(scope="module")
def brief_program(program: Program) -> Iterator[Program]:
    with Program(program.path, Limits(seconds=1.0)) as made:
        yield made


def named(name: str) -> Problem:
    """The textbook problem, by whose name the program chooses what to do."""
    return textbook("topcuoglu").replace(name=name)


@pytest.mark.parametrize(
    "name", ["heft", "printing", "reading", "threads", "bound", "write_inside", "environment", "compiled"]
)
def test_what_is_allowed(program: Program, name: str) -> None:
    problem = named(name)
    answer = program.schedule(problem)
    assert answer.status == "ok"
    assert answer.schedule is not None and answer.schedule.lower_bound is None
    hetgym.validate(problem, answer.schedule)
    assert hetgym.simulate(problem, answer.schedule).makespan == 80.0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("crash", "KeyError: 'no"),
        ("segfault", "SIGSEGV"),
        ("leave", "ended with code 0 and gave no schedule"),
        ("system_exit", "SystemExit: enough"),
        ("kind", "returned list, not a hetgym.Schedule"),
        ("short", "must be a list of 10 numbers"),
        ("flood", "longer than"),
        ("forged", "nested too deeply"),
        ("hog", "memory"),
        ("long_file", "File too large"),
        ("deep", "depth"),
        pytest.param("thread_bomb", "had more than 64 threads", marks=linux),
        ("no such function", "KeyError"),
    ],
)
def test_what_fails_is_a_sentence(program: Program, name: str, says: str) -> None:
    answer = program.schedule(named(name))
    assert answer.schedule is None
    assert says in answer.status and "\n" not in answer.status
    assert program.schedule(named("heft")).status == "ok"


@linux
@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("forks", "calls"),
        ("command", "calls"),
        ("connect", "calls"),
        ("kill_parent", "calls"),
        *((name, "calls") for name in OTHERS + FILES),
        ("write_outside", "files"),
    ],
)
def test_what_linux_refuses(program: Program, name: str, needs: str) -> None:
    if needs not in program.confined:
        pytest.skip(f"this kernel has no measure {needs!r}")
    victim = program.path.with_name("victim")
    before = victim.stat()
    assert "Permission" in program.schedule(named(name)).status
    assert victim.stat() == before
    assert program.schedule(named("heft")).status == "ok"


@linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of this architecture")
def test_old_calls_that_change_files_are_refused(program: Program) -> None:
    assert program.schedule(named("old_calls")).status == "PermissionError: of all"


@linux
def test_a_program_may_change_its_own_settings(program: Program) -> None:
    assert program.schedule(named("own_settings")).status == "ok"


@pytest.mark.parametrize("name", ["sleep", "loop"])
def test_a_call_ends_at_the_limit(brief_program: Program, name: str) -> None:
    answer = brief_program.schedule(named(name))
    assert answer.schedule is None
    assert answer.status == "gave no schedule within 1 s"
    assert 1.0 <= answer.seconds < 31.0  # the sleep would take a minute


@pytest.mark.parametrize(("name", "rule"), [("nowhere", "coverage"), ("twice", "coverage")])
def test_invalid_schedules_are_left_to_the_validator(program: Program, name: str, rule: str) -> None:
    problem = named(name)
    answer = program.schedule(problem)
    assert answer.schedule is not None
    with pytest.raises(hetgym.InvalidSchedule, match=rule):
        hetgym.validate(problem, answer.schedule)


def test_patches_stay_in_the_child(program: Program) -> None:
    problem = named("patched")
    answer = program.schedule(problem)
    assert answer.schedule is not None
    assert hetgym.simulate(problem, answer.schedule).makespan == problem.cost[:, 0].sum()
    again = program.schedule(named("heft"))
    assert again.schedule is not None
    assert again.schedule.makespan == get("heft")(textbook("topcuoglu")).makespan


def test_a_lost_process_is_replaced(program: Program) -> None:
    assert program._nursery is not None
    program._nursery._process.kill()
    answer = program.schedule(named("heft"))
    assert answer.schedule is None and answer.status.startswith("ended the process that runs it")
    assert program.schedule(named("heft")).status == "ok"


@pytest.mark.slow
def test_a_closed_program_leaves_no_folder_and_starts_again(program: Program) -> None:
    program.schedule(named("heft"))
    assert program._nursery is not None
    before = program._nursery._folder
    program.close()
    assert not before.exists()
    assert program.schedule(named("write_inside")).status == "ok"
    assert program._nursery._folder != before


@pytest.mark.parametrize(
    "fields", [{"seconds": 0.0}, {"seconds": float("nan")}, {"memory": 1000.0}, {"file": -1.0}, {"seconds": 1e9}]
)
def test_impossible_limits(fields: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        Limits(**fields)


def test_files_that_are_no_program(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        Program(tmp_path / "none.py")
    (tmp_path / "long.py").write_bytes(b"#" * (2 << 20))
    with pytest.raises(ConfigError, match="longer than 1 MiB"):
        Program(tmp_path / "long.py")
