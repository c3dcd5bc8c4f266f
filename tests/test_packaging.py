"""What a wheel, an sdist and a checkout hold: shipped kernels and scenarios are found from anywhere."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import warpsim
from warpsim.library import find_kernel, find_scenario, list_kernels, list_scenarios

ROOT = Path(__file__).resolve().parent.parent

PROBE = """
import warpsim.library as library
from warpsim.scenario import load
scenarios = library.list_scenarios()
launch = load("transpose_tiled").bind(test=True)
print(library.__file__)
print(len(scenarios), len(library.list_kernels()), launch.kernel)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """An sdist of the checkout and a wheel made from that sdist."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    _run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)], folder)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def _run(command, cwd, **environment):
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _probe(python_path, cwd):
    return _run([sys.executable, "-c", PROBE], cwd, PYTHONPATH=str(python_path)).split("\n")


@pytest.mark.slow
def test_an_installed_wheel_finds_what_ships_from_another_directory(built, tmp_path):
    target, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    _run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(built[1])],
        tmp_path,
    )
    location, counts, *_ = _probe(target, elsewhere)
    assert location.startswith(str(target))
    scenarios, kernels, kernel = counts.split()
    assert (int(scenarios), int(kernels)) == (len(list_scenarios()), len(list_kernels()))
    assert kernel.startswith(str(target / "warpsim" / "_shipped" / "kernels"))


@pytest.mark.slow
def test_an_unpacked_sdist_finds_what_ships_from_another_directory(built, tmp_path):
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (root,) = (tmp_path / "sdist").iterdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    location, counts, *_ = _probe(root, elsewhere)
    assert location.startswith(str(root))
    assert int(counts.split()[0]) == len(list_scenarios())
    for name in ("README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", ".ci/run", "tests/conftest.py", "docs"):
        assert (root / name).exists(), name


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_of_nvidia(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = wheel.namelist()
        metadata = wheel.read(next(n for n in names if n.endswith("METADATA"))).decode()
        scripts = wheel.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert {n.split("/")[0] for n in names} == {"warpsim", f"warpsim-{warpsim.__version__}.dist-info"}
    assert not [n for n in names if n.endswith((".pyc", ".nbi", ".nbc", ".so", ".cubin"))]
    assert not [n for n in names if Path(n).name.startswith(("libnv", "nvdisasm", "cuda_"))]
    for needed in ("warpsim/py.typed", "warpsim/gpus/h200.toml", "warpsim/_shipped/scenarios/transpose_tiled.toml"):
        assert needed in names
    assert "warpsim = warpsim.cli:main" in scripts
    assert HeaderParser().parsestr(metadata)["Version"] == warpsim.__version__
    assert HeaderParser().parsestr(metadata)["License-Expression"] == "Apache-2.0"


def test_a_checkout_finds_what_ships_from_another_directory(tmp_path):
    location, counts, *_ = _probe(ROOT, tmp_path)
    assert location.startswith(str(ROOT))
    assert int(counts.split()[0]) == len(list_scenarios())


def test_names_are_found_with_and_without_suffix_and_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = ROOT / "scenarios" / "transpose_tiled.toml"
    assert find_scenario("transpose_tiled") == find_scenario("transpose_tiled.toml") == shipped
    assert find_scenario("out_of_bounds") == find_scenario("faults/out_of_bounds")
    (tmp_path / "transpose_tiled.toml").write_text("mine")
    assert find_scenario("transpose_tiled.toml") == Path("transpose_tiled.toml")
    assert find_scenario("transpose_tiled") == shipped
    (tmp_path / "transpose.cu").write_text("mine")
    assert find_kernel("transpose.cu", tmp_path / "x.toml") == tmp_path / "transpose.cu"
    assert find_kernel("transpose.cu", ROOT / "scenarios" / "x.toml") == ROOT / "kernels" / "transpose.cu"


def test_readme_and_ci_run_the_same_commands():
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    first, second = commands[0].strip(), commands[1].strip()
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install")
    assert first.endswith(".venv/bin/warpsim run transpose_tiled")
    assert second == ".venv/bin/pip install -e '.[test]' && .venv/bin/pytest -n auto"
    script = (ROOT / ".ci" / "run").read_text()
    pattern = re.search(r"sed -n '([^']*(?:'[^']*)*?)' README\.md", script)
    assert pattern is not None
    found = subprocess.run(["sed", "-n", pattern[1], "README.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == second


MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "warpsim").rglob("*.py")
    if "_shipped" not in path.parts and path.name not in ("__main__.py",)
)


@pytest.mark.parametrize("name", [m.removesuffix(".__init__") for m in MODULES])
def test_all_names_what_is_there(name):
    path = ROOT / Path(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    tree = ast.parse(path.read_text())
    listed = [n for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"]
    if not listed:
        pytest.skip("the module has no __all__")
    names = ast.literal_eval(listed[0].value)
    assert len(set(names)) == len(names)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").startswith("warpsim"):
            raise
        pytest.skip(f"needs {error.name}")
    for public in names:
        assert hasattr(module, public), public


def test_the_public_names_are_those_of_the_documentation():
    documented = {"Buffer", "Kernel", "access", "compare", "load", "replay", "simulate", "strategies", "testing"}
    assert documented <= set(warpsim.__all__)
    for name in ("cli", "comparison", "kernel", "replayer", "scenario", "simulator"):
        assert name not in warpsim.__all__, "a module must not have the name of a public function"


def test_the_version_is_the_projects():
    assert f'version = "{warpsim.__version__}"' in (ROOT / "pyproject.toml").read_text()
