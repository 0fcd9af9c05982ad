"""The table of schedulers: the same in every process, extensible by other packages, files and trained policies."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import hetgym
from hetgym import ConfigError, Problem, Schedule, UnknownName, baselines, own_schedulers, validate
from hetgym.agents.artefact import save_pair
from hetgym.agents.pretrained import FOLDER
from hetgym.agents.rules import RULES, linear_head
from hetgym.bench.comparison import pick_reference
from hetgym.bench.job import pick_schedulers
from hetgym.errors import ArtefactError
from hetgym.planning import KINDS, aliases, get, import_file, names, register, registry, rows, unregister
from hetgym.planning.baseline import outline, resolve
from hetgym.search import Search, anytime
from hetgym.sim import runtime as as_runtime
from hetgym.sim.runtime import runtime_name
from hetgym.workloads import textbook

HEAVY = (
    "numba",
    "torch",
    "hetgym.schedule",
    "hetgym.sim",
    "hetgym.agents.play",
    "hetgym.portfolio",
    "hetgym.baselines.heft",
    "ortools",
    "scipy",
)


def python(script: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "first",
    ["hetgym", "hetgym.baselines", "hetgym.planning.registry", "hetgym.agents.schedulers", "hetgym.bench.job"],
)
def test_names_do_not_depend_on_what_was_imported(first: str) -> None:
    script = (
        f"import {first}, json; from hetgym.planning import registry; from hetgym import baselines;"
        "baselines.get('place-v1'); print(json.dumps([baselines.names(), registry.names()]))"
    )
    assert json.loads(python(script)) == [names(), names()]
    assert {"place-v1", "place-v1-search", "dispatch", "heft", "cp-sat"} <= set(names())


def test_a_listing_imports_no_kernel_and_no_extra() -> None:
    script = (
        "import json, sys; from hetgym.baselines import get; from hetgym.planning import rows;"
        "lines = [(row.name, row.kind, row.citation, row.complexity, row.options, row.summary) for row in rows()];"
        "get('heft'); print(json.dumps([list(sys.modules), lines]))"
    )
    loaded, lines = json.loads(python(script))
    assert set(loaded).isdisjoint(HEAVY)
    documented = [
        [row.name, row.kind, row.citation, row.complexity, row.options, row.summary] for row in rows() if row.function
    ]
    assert lines == documented  # the same as with everything imported
    assert all(line[-1].partition(" [")[0].endswith(".") for line in lines)


def test_a_name_is_the_function_and_not_the_module_of_that_name() -> None:
    script = (
        "from hetgym.planning import get; get('heft').function; import hetgym.baselines.peft;"
        "from hetgym.baselines import heft, peft; import hetgym;"
        "print(callable(heft), callable(peft), callable(hetgym.baselines.cpop))"
    )
    assert python(script) == "True True True\n"


def test_the_table_is_complete() -> None:
    assert set(names()) >= {"heft", "cpop", "peft", "cpgc", "donf", "graham", "random", "single-device"}
    assert sorted(sum((names(kind) for kind in KINDS), [])) == sorted(names())
    own = own_schedulers.ROWS
    assert len({row.name for row in own}) == len(own)
    for row in own:
        assert row.kind in KINDS
        assert row.citation and row.complexity.startswith("exponential" if row.kind == "exact" else "O(")
        assert row.summary.partition(" [")[0].endswith(".")
        assert all(f"{option}={value}" in row.summary for option, value in row.options.items())
        assert pickle.loads(pickle.dumps(row)) == row
        if row.search is not None:
            assert isinstance(resolve(row.search)(textbook("topcuoglu")), Search)


@pytest.fixture
def entered() -> Iterator[None]:
    """Remove the entries that a test adds."""
    before = names()
    yield
    for name in set(names()) - set(before):
        unregister(name)
    registry._files.clear()
    assert names() == before


@pytest.mark.usefixtures("entered")
def test_registering() -> None:
    problem = textbook("topcuoglu")

    @register("test-mine", kind="trivial", citation="here", complexity="O(n)", seed=3)
    def mine(problem: Problem, seed: int = 0) -> Schedule:
        """Mine."""
        return get("random", seed=seed)(problem)

    expected = get("random", seed=3)(problem).to_dict() | {"scheduler": "test-mine"}
    assert get("test-mine")(problem).to_dict() == expected
    assert get("test-mine").summary == "Mine. [seed=3]"
    for taken in ("test-mine", "heft"):
        with pytest.raises(ConfigError, match=f"'{taken}' is registered twice"):
            register(taken, kind="trivial", citation="here", complexity="O(n)")(mine)
    with pytest.raises(UnknownName, match="unknown kind of scheduler 'listt'; did you mean 'list'"):
        register("test-other", kind="listt", citation="here", complexity="O(n)")(mine)
    with pytest.raises(UnknownName, match="unknown registered scheduler 'heft'"):
        unregister("heft")


@pytest.mark.usefixtures("entered")
def test_a_search_of_ones_own_has_an_anytime_curve() -> None:
    @register(
        "test-search", kind="search", citation="here", complexity="O(n)", search=resolve("hetgym.baselines.lns:Lns")
    )
    def search(problem: Problem, seed: int = 0, budget: int = 2_000, seconds: float | None = None) -> Schedule:
        """Mine."""
        return get("lns", seed=seed, budget=budget)(problem)

    problem = textbook("topcuoglu")
    assert anytime("test-search", problem)[-1, 2] == get("test-search")(problem).makespan


MINE = '''
"""A scheduler of one's own."""
from dataclasses import dataclass
from hetgym.planning import place_by_priority, register

@dataclass
class Weights:
    power: float = 1.0

@register("from-a-file", kind="list", citation="a file", complexity="O(e p + n log n)")
def longest_first(problem, power: float = 1.0):
    """The longest operator first."""
    return place_by_priority(problem, problem.mean_cost ** Weights(power).power)
'''


@pytest.mark.usefixtures("entered")
def test_a_file_enters_its_schedulers(tmp_path: Path) -> None:
    path = tmp_path / "numpy.py"  # a name that is taken by a module
    path.write_text(MINE)
    assert import_file(path).__doc__ == "A scheduler of one's own."
    assert import_file(str(path)) is import_file(path)
    problem = textbook("topcuoglu")
    validate(problem, get("from-a-file", power=2.0)(problem))
    assert get("from-a-file").summary == "The longest operator first."
    assert sys.modules["numpy"].__name__ == "numpy"


@pytest.mark.usefixtures("entered")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (MINE + "\n1 / 0\n", r"ZeroDivisionError: division by zero"),
        (MINE + "\nimport sys\nsys.exit(3)\n", r"SystemExit: 3"),
        ("def f(:\n", r"SyntaxError: invalid syntax"),
        ("import no_such_module_at_all", r"ModuleNotFoundError: No module named 'no_such_module_at_all'"),
        (MINE.replace("from-a-file", "heft"), r"ConfigError: scheduler 'heft' is registered twice"),
    ],
)
def test_a_file_that_fails_enters_nothing(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"mine.py: cannot be imported \({why}"):
        import_file(path)
    assert "from-a-file" not in names()


@pytest.mark.parametrize("name", ["none.py", ".", "table.csv"])
def test_what_is_no_python_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("1,2")
    with pytest.raises(ConfigError, match="no such file" if name == "none.py" else "not a Python file that could be"):
        import_file(tmp_path / name)


PLUGIN = """
def good(problem, seed: int = 0):
    '''A good scheduler.'''
    from hetgym.baselines import single_device
    return single_device(problem)
"""
ENTRIES = """[hetgym.schedulers]
plugin-good = plugged_in:good
plugin-none = plugged_in:no_such_name
plugin-broken = plugged_in_broken:anything
plugin-missing = no_such_module_at_all.deep:anything
heft = plugged_in:good
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that is installed, as far as Python can tell, with schedulers good and bad."""
    (tmp_path / "plugged_in.py").write_text(PLUGIN)
    (tmp_path / "plugged_in_broken.py").write_text("raise RuntimeError('two\\nlines')")
    info = tmp_path / "plugged_in-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    registry._plugins.cache_clear()
    yield tmp_path
    registry._plugins.cache_clear()


TAKEN = "scheduler 'heft' of plugged-in 1.2 is ignored: the name is taken"


def test_other_packages_offer_schedulers(installed: Path) -> None:
    with pytest.warns(UserWarning, match=TAKEN) as warned:
        assert names("plugin") == ["plugin-broken", "plugin-good", "plugin-missing", "plugin-none"]
    assert len(warned) == 1
    assert "plugged_in" not in sys.modules and set(names()) > set(names("plugin"))
    row = get("plugin-good", seed=1)
    assert (row.citation, row.summary) == ("plugged-in 1.2", "A good scheduler. [seed=1]")
    assert row(textbook("topcuoglu")).scheduler == "plugin-good"
    assert get("heft")(textbook("topcuoglu")).makespan == 80.0
    with pytest.raises(ConfigError, match="'plugin-good' has no option 'sead'; did you mean 'seed'"):
        get("plugin-good", sead=1)


@pytest.mark.filterwarnings("ignore:scheduler 'heft' of plugged-in")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("plugin-none", "AttributeError: .*no_such_name"),
        ("plugin-broken", "RuntimeError: two"),
        ("plugin-missing", "ModuleNotFoundError: .*no_such_module_at_all"),
    ],
)
def test_a_broken_plugin_breaks_nothing_but_itself(name: str, why: str, installed: Path) -> None:
    message = rf"scheduler '{name}' of plugged-in 1.2 cannot be imported \({why}[^\n]*\)$"
    with pytest.raises(ConfigError, match=message):
        get(name)
    row = next(row for row in rows() if row.name == name)
    with pytest.warns(UserWarning, match=message):
        assert not row.available
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert row.summary == "" and get("heft").available


def test_a_path_names_a_trained_policy(tmp_path: Path) -> None:
    problem = textbook("topcuoglu")
    card = {"network": {"view": "dispatch", "level": "candidates"}, "recipe": {"arguments": {}}}
    for shipped in ("place-v1", "dispatch"):
        if shipped == "dispatch":
            save_pair(tmp_path / "mine", "hetgym-candidate-policy", linear_head(RULES[shipped]), card)
        else:
            for ending in (".safetensors", ".json"):
                (tmp_path / f"mine{ending}").write_bytes((FOLDER / f"{shipped}{ending}").read_bytes())
        row = get(str(tmp_path / "mine.safetensors"))
        schedule = row(problem)
        assert (row.kind, schedule.scheduler) == ("policy", row.name)
        assert schedule.start.tolist() == get(shipped)(problem).start.tolist()
        assert row.summary.startswith("A trained policy read from a file, one greedy episode.")
        assert pickle.loads(pickle.dumps(row))(problem).makespan == schedule.makespan
        assert get(row.name).options == row.options


@pytest.mark.parametrize("shipped", ["place-v1", "dispatch", "place-v2"])
@pytest.mark.parametrize("runtime", [None, "classic", "links", "links,streams=2"])
def test_a_policy_plans_for_the_runtime_of_its_episodes(tmp_path: Path, shipped: str, runtime: str | None) -> None:
    arguments = {} if runtime is None else {"runtime": runtime}
    if shipped == "dispatch":
        card = {"network": {"view": "dispatch", "level": "candidates"}, "recipe": {"arguments": arguments}}
        save_pair(tmp_path / "mine", "hetgym-candidate-policy", linear_head(RULES[shipped]), card)
    else:
        (tmp_path / "mine.safetensors").write_bytes((FOLDER / f"{shipped}.safetensors").read_bytes())
        card = json.loads((FOLDER / f"{shipped}.json").read_text())
        card["recipe"]["arguments"] |= arguments
        (tmp_path / "mine.json").write_text(json.dumps(card))
    row = get(str(tmp_path / "mine.safetensors"))
    always = {"place-v1": "classic", "place-v2": "any"}  # planners' episodes are their own
    assert row.plans_for == always.get(shipped, runtime_name(as_runtime(runtime or "classic")))


def test_what_training_wrote_plans_for_its_runtime(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.networks import ActorCritic

    card = {"recipe": {"arguments": {"runtime": "links", "observation": "graph"}}}
    NetworkPolicy(ActorCritic("place"), card).save(tmp_path / "policy.safetensors")
    assert get(str(tmp_path / "policy.safetensors")).plans_for == "links"


def test_a_path_names_what_training_wrote(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hetgym.agents.network_policy import NetworkPolicy
    from hetgym.agents.networks import ActorCritic

    path = tmp_path / "policy.safetensors"
    NetworkPolicy(ActorCritic("place")).save(path)
    assert get(str(path))(textbook("topcuoglu")).makespan == 127.0  # fresh: the first legal device is taken
    NetworkPolicy(ActorCritic("pipeline")).save(tmp_path / "cut.safetensors")
    with pytest.raises(ConfigError, match=r"cut.safetensors: a pipeline policy does not schedule problems"):
        get(str(tmp_path / "cut.safetensors"))


def test_a_path_of_no_policy(tmp_path: Path) -> None:
    (tmp_path / "damaged.safetensors").write_bytes(b"no")
    for name in ("none", "damaged"):
        with pytest.raises(ArtefactError, match=rf"{name}.safetensors: "):
            get(str(tmp_path / f"{name}.safetensors"))


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="unknown scheduler 'heftt'; did you mean 'heft'"):
        get("heftt")
    assert outline("no.such.module:name") == outline("hetgym.errors:nothing") == ("", ())


@pytest.mark.parametrize("name", ["heft", "cpgc", "annealing", "place-v2"])
@pytest.mark.parametrize("wrong", [3, None, "inception_v1", [1.0]])
def test_what_is_no_problem_is_refused_in_one_sentence(name: str, wrong: object) -> None:
    with pytest.raises(hetgym.ProblemError, match="hetgym.Problem"):
        hetgym.baselines.get(name)(wrong)  # type: ignore[arg-type]
    with pytest.raises(hetgym.ProblemError, match="hetgym.Problem"):
        hetgym.plan(wrong)  # type: ignore[arg-type]


EDITABLE = """
import importlib.util, sys

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "hetgym":
            return importlib.util.spec_from_file_location(name, FILE, submodule_search_locations=[FOLDER])

sys.meta_path.insert(0, Finder)
from hetgym.baselines import get
print(get("heft").plans_for)
"""


def test_schedulers_know_their_arguments_in_an_editable_installation(tmp_path: Path) -> None:
    """Such an installation finds the package by a finder of its own, not by a folder in the path."""
    file = Path(hetgym.__file__)
    script = EDITABLE.replace("FILE", repr(str(file))).replace("FOLDER", repr(str(file.parent)))
    done = subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "any\n", done.stderr


@pytest.mark.parametrize("start", [None, 3, ["heft"]])
def test_names_that_are_no_text_are_refused(start: object) -> None:
    with pytest.raises(UnknownName, match="unknown scheduler"):
        get(start)  # type: ignore[arg-type]


def test_an_unknown_runtime_is_refused_by_schedulers_that_do_not_see_it() -> None:
    assert get("donf").plans_for != "any"
    with pytest.raises(UnknownName, match="'lnks'"):
        get("donf")(textbook("topcuoglu"), "lnks")


@pytest.mark.parametrize("name", ["region-annealing", "annealing", "lns", "tabu", "random", "rand-heft", "place-v2"])
@pytest.mark.parametrize("seed", [-1, "x", 0.5, True])
def test_seeds_are_whole_numbers(name: str, seed: object) -> None:
    with pytest.raises(ConfigError, match="seed"):
        get(name, seed=seed)(textbook("topcuoglu"))


@pytest.mark.parametrize("search", ["annealing", "lns", "region-annealing", "tabu"])
def test_searches_begin_with_plans_that_have_an_order_only(search: str) -> None:
    problem = textbook("topcuoglu")

    def ordered(problem: Problem) -> Schedule:
        plan = baselines.heft(problem)
        return Schedule(plan.assignment, order=plan.order)

    register("ordered", kind="list", citation="", complexity="")(ordered)
    try:
        found = get(search, start="ordered")(problem)
        validate(problem, found)
        assert found.makespan <= 80.0
    finally:
        unregister("ordered")


NAMED = {
    "donf:priority=nested": ("donf:priority=nested", {"priority": "nested"}),
    "donf:alpha=1:priority=nested": ("donf:priority=nested:alpha=1", {"priority": "nested", "alpha": 1.0}),
    "donf:priority=degree": ("donf", {"priority": "degree"}),
    "adon": ("donf:priority=nested", {"priority": "nested"}),
    "adon:alpha=1": ("donf:priority=nested:alpha=1", {"priority": "nested", "alpha": 1.0}),
    "adon:priority=none": ("donf:priority=none", {"priority": "none"}),
    "pilot-append-eft": ("pilot:completion=append:optimistic=false", {"completion": "append", "optimistic": False}),
    "annealing:seconds=none:budget=10": ("annealing:budget=10", {"seconds": None, "budget": 10}),
    "energy-heft:weight=0.1": ("energy-heft:weight=0.1", {"weight": 0.1}),
    "dispatch-v2": ("planned-dispatch", {}),
}


@pytest.mark.parametrize("text", NAMED)
def test_options_follow_the_name(text: str) -> None:
    row = get(text)
    assert (row.name, row.options) == NAMED[text]
    assert get(row.name).name == row.name and row.name in str(pick_schedulers(f"heft,{text}"))
    assert "," not in text and text not in names() or text == row.name


@pytest.mark.parametrize("alias", aliases())
def test_an_alias_is_its_row_with_options(alias: str) -> None:
    assert get(alias) == get(aliases()[alias]) and get(alias).name == aliases()[alias]
    with pytest.raises(ConfigError, match="is registered twice"):
        register(alias, kind="trivial", citation="here", complexity="O(n)")(lambda problem: None)


def test_rows_and_references_carry_options() -> None:
    problem = textbook("topcuoglu")
    assert get("adon")(problem).scheduler == "donf:priority=nested"
    assert get("donf-classic").plans_for == "classic" != get("donf-l").plans_for
    assert pick_reference("adon", ["heft", "donf:priority=nested"]) == "donf:priority=nested"
    assert [row.name for row in pick_schedulers("adon,donf:priority=nested,donf")] == ["donf:priority=nested", "donf"]


WRONG = {
    "donf:priority": "options are written name:option=value, each once; got 'priority'",
    "donf:alpha=1:alpha=2": "each once; got 'alpha=2'",
    "donf:": "each once; got ''",
    "donf:x=1": "scheduler 'donf' has no option 'x'",
    "donf:alpha=two": "scheduler 'donf': alpha is 'two'; it must be a finite number",
    "random:seed=-1": "seed is -1; it must not be negative",
    "heft:insertion=maybe": "insertion is 'maybe'; it must be True or False",
    "donf2x": "unknown scheduler 'donf2x'; did you mean 'donf2'",
}


@pytest.mark.parametrize("text", WRONG)
def test_options_are_checked_before_anything_runs(text: str) -> None:
    with pytest.raises(hetgym.HetgymError, match=re.escape(WRONG[text])):
        get(text)


@pytest.mark.parametrize("name", ["a:b", "a,b"])
def test_names_leave_separators_alone(name: str) -> None:
    with pytest.raises(ConfigError, match="neither ':' nor ','"):
        register(name, kind="trivial", citation="here", complexity="O(n)")(lambda problem: None)


def test_a_scheduler_whose_time_explodes_refuses_large_problems() -> None:
    row, problem = replace(get("heft"), largest=9), textbook("topcuoglu")
    with pytest.raises(ConfigError, match="^'heft' takes too long for 10 operators"):
        row(problem)
    assert replace(row, largest=10)(problem).makespan == replace(row, largest=None)(problem).makespan == 80.0


def test_networks_that_look_at_the_graph_before_each_decision_have_a_largest_size() -> None:
    limited = {row.name for row in rows() if row.largest is not None}
    assert {"giph", "l2d", "readys", "placeto", "maskable-ppo-graph", "dispatch"} <= limited
    assert not limited & {"heft", "portfolio", "place-v2", "gnn-v1"}
