"""What `pip install kohort` puts on a machine: one package, which gets in nobody's way.

A wheel is built from a clean checkout and installed into an environment that has packages of the user's own, called
`protocol`, `storage`, `audit` and `broker`. Nothing is downloaded: hatchling is one of the test environment's packages,
and the new environment borrows the dependencies of Kohort from the test environment (see `installed`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pypi_readme import for_pypi
from tests.built_wheel import ROOT, build, check_out
from tests.clients.kohort import KohortProcess

# Kohort's packages, and the names of packages of the user's own.
USERS = ("audit", "broker", "client", "coordinator", "history", "protocol", "storage", "testing")


class Environment(NamedTuple):
    """A virtual environment with Kohort in it."""

    folder: Path
    packages: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of the environment, run outside of the repository."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]], cwd=self.folder, capture_output=True, text=True,
            env={**os.environ, **environment}, timeout=300,
        )  # fmt: skip

    def pip(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.folder / "bin" / "python")]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300, cwd=self.folder)
        assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return check_out(tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    """A new environment with the packages of the user, then with Kohort.

    Kohort's dependencies are not installed again: Spark alone is 500 MB. A .pth file makes the test environment's
    packages importable. Python does not read the .pth files of a folder that comes from a .pth file, so that the test
    environment's editable Kohort stays out of sight. pip does not get to see the borrowed packages either.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))
    for name in USERS:
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(f"OWNER = 'the user of {name}'\n")
    environment = Environment(folder, packages)
    environment.pip("install", "--no-index", "--no-deps", str(wheel))
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    yield environment
    (packages / "borrowed.pth").unlink()
    environment.pip("uninstall", "--yes", "kohort")
    assert not (packages / "kohort").exists()
    for name in USERS:
        assert (packages / name / "__init__.py").read_text() == f"OWNER = 'the user of {name}'\n"


# --- what is in it


def test_a_wheel_has_one_top_level_package_with_type_information(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"kohort", "-".join(wheel.name.split("-")[:2]) + ".dist-info"}
    assert "kohort/py.typed" in names
    folders = {name.split("/")[1] for name in names if name.startswith("kohort/") and name.count("/") > 1}
    assert folders == set(USERS)
    assert not [name for name in names if "__pycache__" in name or "tests" in name.split("/")]


def test_a_wheel_has_every_file_of_the_packages(checkout: Path, wheel: Path) -> None:
    folders = [checkout / name for name in USERS]
    files = {
        f"kohort/{path.relative_to(checkout)}" for folder in folders for path in folder.rglob("*") if path.is_file()
    }
    own = {f"kohort/{path.name}" for path in (checkout / "src" / "kohort").iterdir() if not path.is_symlink()}
    assert {name for name in ZipFile(wheel).namelist() if name.startswith("kohort/")} == files | own


def test_the_wheel_that_is_made_from_the_sdist_has_the_same_files(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(build(checkout, "sdist", tmp_path / "sdist")) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = ZipFile(build(source, "wheel", tmp_path / "again"))
    first = ZipFile(wheel)
    assert sorted(again.namelist()) == sorted(first.namelist())
    for name in first.namelist():
        assert again.read(name) == first.read(name), name


def test_any_newer_python_may_install_it(wheel: Path) -> None:
    assert metadata(wheel)["Requires-Python"] == ">=3.11"


def test_no_requirement_is_for_a_system_on_which_kohort_does_not_run(wheel: Path) -> None:
    """It needs uvloop: a marker that leaves uvloop out on Windows would say that it runs there without."""
    assert (
        re.findall(r"^Requires-Dist: .*(?:sys_platform|os_name|platform_system).*$", metadata_text(wheel), re.MULTILINE)
        == []
    )


# --- what it does


def test_the_users_packages_and_kohorts_can_all_be_imported(installed: Environment) -> None:
    lines = [f"import {name}; assert {name}.OWNER == 'the user of {name}'" for name in USERS]
    lines += [f"import kohort.{name}; assert not hasattr(kohort.{name}, 'OWNER')" for name in USERS]
    lines.append(f"assert kohort.__file__.startswith({str(installed.packages)!r}), kohort.__file__")
    done = installed.run("python", "-c", "\n".join(lines))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_installed_broker_answers_a_client_and_the_installed_audit_reads_its_log(
    installed: Environment, tmp_path: Path
) -> None:
    class Installed(KohortProcess):
        executable = installed.folder / "bin" / "kohort"

    with Installed(tmp_path, offsets_topic_num_partitions="1") as broker, Cluster(broker.address) as client:
        assert client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1.0"), 3).error_code == 0
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 2, 1)]))
        ask.commit(client, "billing", {("orders", 0): 3, ("orders", 1): 4})
    done = installed.run("kohort", "audit", str(broker.data), "--out", str(tmp_path / "audit"), "--json")
    assert done.returncode in (0, 1), done.stderr  # 1: it has found something
    assert (tmp_path / "audit" / "report.html").stat().st_size > 0
    assert "billing" in (tmp_path / "audit" / "report.html").read_text()


def test_the_installed_command_and_the_module_tell_the_same_version(installed: Environment, wheel: Path) -> None:
    expected = f"kohort {metadata(wheel)['Version']}\n"
    assert installed.run("kohort", "--version").stdout == expected
    assert installed.run("python", "-m", "kohort", "--version").stdout == expected


@pytest.mark.parametrize("name", USERS)
def test_in_the_repository_the_folders_cannot_be_imported_under_their_old_names(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import {name}"], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"ImportError: import kohort.{name}, not {name}"


# --- the README on PyPI


def metadata_text(wheel: Path) -> str:
    packed = ZipFile(wheel)
    (name,) = [name for name in packed.namelist() if name.endswith(".dist-info/METADATA")]
    return packed.read(name).decode()


def metadata(wheel: Path) -> dict[str, str]:
    message = Parser().parsestr(metadata_text(wheel))
    return {**dict(message.items()), "Description": str(message.get_payload())}


def test_the_readme_on_pypi_has_no_link_that_leads_nowhere(wheel: Path) -> None:
    text = metadata(wheel)["Description"]
    assert "## A story with a real client" in text
    assert [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith("https://")] == []


def test_with_a_public_repository_links_and_pictures_lead_there() -> None:
    text = "See [a page](docs/a.md), [a site](https://b) and [below](#c).\n\n![a picture](docs/p.png)\n\nThe end.\n"
    there = for_pypi(text, "https://example.org/kohort/", "1.2.3")
    assert there == (
        "See [a page](https://example.org/kohort/blob/v1.2.3/docs/a.md), [a site](https://b) and [below](#c).\n\n"
        "![a picture](https://example.org/kohort/raw/v1.2.3/docs/p.png)\n\nThe end.\n"
    )
    assert for_pypi(text, None, "1.2.3") == "See a page, [a site](https://b) and [below](#c).\n\nThe end.\n"
