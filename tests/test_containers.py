"""The container files say what the README and the Makefile say. No Docker engine is needed to check that."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml

from kohort.broker.cli import parse
from kohort.broker.config import ENVIRONMENT_PREFIX, load_config

ROOT = Path(__file__).parent.parent
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_the_broker_has_a_named_volume_and_kafkas_port_on_this_machine() -> None:
    broker = COMPOSE["services"]["broker"]
    assert broker["ports"] == ["127.0.0.1:9092:9092"]
    assert broker["volumes"] == ["data:/var/lib/kohort"]
    assert "data" in COMPOSE["volumes"]


def test_the_audit_reads_the_same_volume_and_cannot_write_to_it() -> None:
    audit = COMPOSE["services"]["audit"]
    assert "data:/var/lib/kohort:ro" in audit["volumes"]
    data, *_ = [volume for volume in COMPOSE["services"]["broker"]["volumes"] if volume.startswith("data:")]
    assert audit["command"][1].startswith(data.partition(":")[2])


def test_the_audit_keeps_its_tables_and_its_report_in_a_volume_of_its_own() -> None:
    audit = COMPOSE["services"]["audit"]
    _, options = parse(audit["command"])
    assert f"audit:{options.out}" in audit["volumes"]
    assert "audit" in COMPOSE["volumes"]
    assert f"install -d -o kohort {options.out}" in DOCKERFILE  # its owner is who writes to the volume


def test_every_service_is_built_from_a_stage_of_the_dockerfile() -> None:
    stages = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    for service in COMPOSE["services"].values():
        assert service["build"]["target"] in stages
    assert DOCKERFILE.rindex("AS broker") > DOCKERFILE.rindex("AS audit")  # the last one is built if none is named


def test_the_image_runs_the_command_that_make_run_runs() -> None:
    entrypoint = json.loads(_instruction("ENTRYPOINT"))
    command = json.loads(_instruction("CMD"))
    makefile = (ROOT / "Makefile").read_text()
    run = re.search(r"^run: .*\n(?:\t.*\n)*?\t\$\(BIN\)/(kohort .*)$", makefile, re.MULTILINE)
    assert run is not None
    assert run[1].split() == entrypoint + command


def test_every_command_of_the_compose_file_is_one_that_kohort_understands() -> None:
    for service in COMPOSE["services"].values():
        assert parse(service["command"])[0] is not None


def test_every_kohort_command_in_the_readme_is_one_that_kohort_understands() -> None:
    readme = (ROOT / "README.md").read_text()
    found = re.findall(r"^\s*(?:\.venv/bin/)?kohort ([^#\n]+)", readme, re.MULTILINE)
    assert found
    for command in found:
        assert parse(command.split())[0] is not None


def test_the_settings_of_the_image_are_valid() -> None:
    environment = dict(re.findall(r"(KOHORT_\w+)=(\S+)", DOCKERFILE))
    assert {name[: len(ENVIRONMENT_PREFIX)] for name in environment} == {ENVIRONMENT_PREFIX}
    config = load_config("", environment)
    assert config.data_folder.startswith(_instruction("VOLUME"))
    assert config.listeners == "PLAINTEXT://0.0.0.0:9092"


def test_the_image_holds_every_package_of_the_distribution() -> None:
    copied = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert copied == {path.partition("/")[0] for path in build["targets"]["wheel"]["only-include"]}


def _instruction(name: str) -> str:
    found = re.search(rf"^{name} (.*)$", DOCKERFILE, re.MULTILINE)
    assert found is not None
    return found[1]
