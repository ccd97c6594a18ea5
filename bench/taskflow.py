#!/usr/bin/python3
"""Measures OpenStack TaskFlow with tasks that do nothing: the peer of the benchmarks of flows.

One line of JSON per round goes to the output. Its rates are in tasks a second: "run" is engine.run() alone, "total" is all that it takes to
run a flow that has been put together: load, compile, prepare and run. Not timed: imports, a first small flow that warms up, putting the flow together,
making the database and its tables. A round that does not end within --limit seconds gives a line with "finished": false and ends the program, for
the rounds after it would not end either. Exit status: 0 with an answer, 3 if something has to be installed, else 1 or 2.

Needs the interpreter of the system and Debian's packages: apt-get install --no-install-recommends python3-taskflow python3-sqlalchemy-utils
(the second is for --backend sqlite; the first does not depend on it, though its driver of databases imports it).
"""

import argparse
import functools
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time

LACKS = 3  # the exit status if something has to be installed first; peer_test.go knows it

# This file is named for what it measures: its own folder is not where "import taskflow" shall look.
if sys.path and os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)):
    del sys.path[0]

try:
    from taskflow import engines, states, task, version
    from taskflow.patterns import linear_flow, unordered_flow
    from taskflow.persistence import backends, models
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(LACKS)

FLOW_TASKS = 5  # tasks of each flow of the shape "flows"
LAYER_TASKS = 10  # tasks of each layer of the shape "layers"


class Nothing(task.Task):
    """A task that does nothing."""

    def execute(self):
        pass


def linear(n, first=0):
    """n tasks, each after the one before."""
    return linear_flow.Flow("linear").add(*(Nothing(name=f"t{first + i}") for i in range(n)))


def unordered(n, first=0):
    """n tasks that do not wait for each other."""
    return unordered_flow.Flow(f"unordered{first}").add(*(Nothing(name=f"t{first + i}") for i in range(n)))


def layers(n):
    """n tasks in layers of ten; every task of a layer waits for all of the layer before."""
    return linear_flow.Flow("layers").add(*(unordered(min(LAYER_TASKS, n - first), first) for first in range(0, n, LAYER_TASKS)))


SHAPES = {"linear": linear, "unordered": unordered, "layers": layers}


def put_together(shape, n):
    """The flows of a round, in the order in which they run, and the number of tasks in all of them."""
    if shape == "flows":
        return [linear(FLOW_TASKS) for _ in range(n)], n * FLOW_TASKS
    return [SHAPES[shape](n)], n


def open_backend(kind, folder):
    """A backend with its tables made, or None. SQLite is as TaskFlow opens it: rollback journal, full sync."""
    if kind == "none":
        return None
    connection = {"memory": "memory", "sqlite": f"sqlite:///{folder}/taskflow.db"}[kind]
    backend = backends.fetch({"connection": connection})
    connected = backend.get_connection()
    try:
        connected.upgrade()
    finally:
        connected.close()
    return backend


def run_one(flow, backend, load):
    """Runs a flow and gives the seconds of engine.run() and of load, compile, prepare and run."""
    # A book for each flow: a book that grows would be written whole with each flow that is added.
    book = None if backend is None else models.LogBook("bench")
    start = time.perf_counter()
    engine = load(flow, backend=backend, book=book)
    engine.compile()
    engine.prepare()
    running = time.perf_counter()
    engine.run()
    end = time.perf_counter()
    state = engine.storage.get_flow_state()
    if state != states.SUCCESS:
        raise RuntimeError(f"the flow ended in {state}")
    return end - running, end - start


def run_round(flows, kind, folder, load):
    """Runs the flows one after the other over a new backend, and gives their seconds as run_one, added up, and those of the processors."""
    backend = open_backend(kind, folder)
    try:
        took, total = 0.0, 0.0
        before = time.process_time()
        for flow in flows:
            one = run_one(flow, backend, load)
            took, total = took + one[0], total + one[1]
        return took, total, time.process_time() - before
    finally:
        if backend is not None:
            backend.close()


def say(line):
    """Writes a line at once and past the buffers, for the alarm may come in the midst of another write."""
    os.write(sys.stdout.fileno(), (json.dumps(line) + "\n").encode())


def arguments():
    parser = argparse.ArgumentParser(description="measures TaskFlow with tasks that do nothing")
    parser.add_argument("--shape", choices=[*SHAPES, "flows"], default="linear")
    parser.add_argument("--tasks", type=int, default=1000, help=f"tasks; of the shape flows: flows of {FLOW_TASKS} tasks (default 1000)")
    parser.add_argument("--engine", choices=["serial", "parallel"], default="serial")
    parser.add_argument("--threads", type=int, default=2, help="threads of the parallel engine (default 2)")
    parser.add_argument("--backend", choices=["none", "memory", "sqlite"], default="none")
    parser.add_argument("--dir", default=".", help="where a folder for the database is made, and removed (default: here)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120, help="seconds that a round may take (default 120)")
    args = parser.parse_args()
    if min(args.tasks, args.threads, args.rounds) < 1 or args.limit <= 0:
        parser.error("--tasks, --threads, --rounds and --limit must be above zero")
    return args


def main():
    args = arguments()
    options = {"executor": "threads", "max_workers": args.threads} if args.engine == "parallel" else {}
    load = functools.partial(engines.load, engine=args.engine, **options)
    if args.backend == "sqlite" and importlib.util.find_spec("sqlalchemy_utils") is None:
        print("No module named 'sqlalchemy_utils'", file=sys.stderr)
        sys.exit(LACKS)
    said = {"peer": f"taskflow {version.version_string()}", "python": sys.version.split()[0], "shape": args.shape, "engine": args.engine,
            "backend": args.backend}
    folder = tempfile.mkdtemp(prefix="taskflow-", dir=os.path.abspath(args.dir))

    def give_up(*_):
        # Not an exception: the engine, or a thread of its pool, might hold it up or make a failed task of it.
        say({**said, "finished": False, "why": f"did not finish within {args.limit:g} s"})
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    try:
        run_round([linear(FLOW_TASKS)], args.backend, folder, load)
        for number in range(1, args.rounds + 1):
            flows, tasks = put_together(args.shape, args.tasks)
            said.update(round=number, flows=len(flows), tasks=tasks)
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            signal.setitimer(signal.ITIMER_REAL, args.limit)
            took, total, cpu = run_round(flows, args.backend, place, load)
            signal.setitimer(signal.ITIMER_REAL, 0)
            say({**said, "finished": True, "run_s": round(took, 6), "total_s": round(total, 6), "cpu_s": round(cpu, 6),
                 "run": round(tasks / took, 1), "total": round(tasks / total, 1)})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
