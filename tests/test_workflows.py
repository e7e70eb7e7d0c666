"""What runs in CI is what `make` runs here, with versions that the metadata allows."""

import itertools
import re
import shlex

import pytest
import yaml

from .project import PROJECT, ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
VARIABLE = re.compile(r"\$\{\{ matrix\.(\w+) \}\}")


def jobs(path):
    # YAML takes the key `on` for a boolean.
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(content) <= {"name", True, "permissions", "defaults", "env", "jobs"}
    return content["jobs"]


def combinations(job):
    """Return the values of the matrix, a dictionary for each machine."""
    matrix = job.get("strategy", {}).get("matrix", {})
    lists = {key: values for key, values in matrix.items() if key != "include"}
    found = [dict(zip(lists, values)) for values in itertools.product(*lists.values())]
    return matrix.get("include") or found


def commands(path):
    for job in jobs(path).values():
        for values in combinations(job):
            for step in job.get("steps", []):
                if "run" in step:
                    yield VARIABLE.sub(lambda m: values[m[1]], step["run"])  # noqa: B023


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_command_is_a_target_of_make(path):
    found = list(commands(path))
    assert found
    for command in found:
        program, target, *settings = shlex.split(command)
        assert program == "make" and target in TARGETS, command
        for setting in settings:
            name = setting.partition("=")[0]
            assert f"\n{name} ?=" in MAKEFILE, command


def test_the_tests_run_on_a_matrix():
    (tests,) = (path for path in WORKFLOWS if path.stem == "tests")
    machines = combinations(jobs(tests)["tests"])
    systems = {machine["os"].partition("-")[0] for machine in machines}
    assert systems == {"ubuntu", "macos", "windows"}
    assert {"lint", "unit", "slow", "floors", "newest"} == {
        m["target"] for m in machines
    }
    tried = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if " :: 3." in c}
    assert tried <= {machine["python"] for machine in machines}
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert oldest in {m["python"] for m in machines if m["target"] == "floors"}


def test_publishing_needs_the_tests_and_no_password():
    (release,) = (path for path in WORKFLOWS if path.stem == "release")
    found = jobs(release)
    assert set(found["publish"]["needs"]) == {"tests", "build", "wheels"}
    assert found["publish"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in release.read_text(encoding="utf-8")
    called = ROOT / found["tests"]["uses"]
    assert True in yaml.safe_load(called.read_text("utf-8")) and called.exists()


def test_a_release_has_a_wheel_for_each_system():
    """Built as pyproject.toml says, and with the sdist nothing else is published."""
    (release,) = (path for path in WORKFLOWS if path.stem == "release")
    found = jobs(release)
    machines = {machine["os"] for machine in combinations(found["wheels"])}
    systems = {name.partition("-")[0] for name in machines}
    assert systems == {"ubuntu", "macos", "windows"}
    assert any(name.endswith("-arm") for name in machines)
    uploads = {
        job: step["with"]["path"]
        for job in ("build", "wheels")
        for step in found[job]["steps"]
        if "upload-artifact" in step.get("uses", "")
    }
    assert uploads == {"build": "dist/*.tar.gz", "wheels": "wheelhouse/*.whl"}


def test_floors_are_those_of_the_metadata():
    extras = ("plot", "tensorboard", "arrow", "ray")
    asked = list(PROJECT["dependencies"])
    for extra in extras:
        asked += PROJECT["optional-dependencies"][extra]
    oldest = [re.match(r"([\w.-]+)>=([\d.]+)", each).groups() for each in asked]
    lines = (ROOT / "floors.txt").read_text(encoding="utf-8").splitlines()
    floors = [tuple(line.split("==")) for line in lines if line[0] != "#"]
    assert [name for name, _ in floors] == [name for name, _ in oldest]
    for (name, floor), (_, least) in zip(floors, oldest):
        assert f"{floor}.".startswith(f"{least}."), name  # 2.10.0 is the first 2.10
