"""The command `kohort` itself: commands and options that do not exist, its version, its help, completion in shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from kohort.broker.cli import COMMANDS
from kohort.broker.commands.completion import all_places
from tests.clients.kohort import KohortProcess

ROOT = Path(__file__).parent.parent.parent
KOHORT = str(Path(sys.executable).with_name("kohort"))
NOWHERE = "--bootstrap-server=127.0.0.1:1"  # port 1: nobody listens there


def kohort(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KOHORT, *arguments], capture_output=True, text=True, timeout=60)


def test_python_m_kohort_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "kohort", "--help"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, kohort("--help").stdout)
    wrong = subprocess.run([sys.executable, "-m", "kohort", "foo"], capture_output=True, text=True, timeout=60)
    assert (wrong.returncode, wrong.stderr) == (2, kohort("foo").stderr)


def test_the_version_is_that_of_the_distribution() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    done = kohort("--version")
    assert (done.returncode, done.stdout) == (0, f"kohort {version}\n")


@pytest.mark.parametrize(
    ("word", "first_line"),
    [
        ("foo", "kohort: there is no command 'foo'"),
        ("sevre", "kohort: there is no command 'sevre'; did you mean serve?"),
        ("group", "kohort: there is no command 'group'; did you mean groups?"),
        ("--verbose", "kohort: there is no command '--verbose'"),
    ],
)
def test_a_command_that_does_not_exist_is_named(word: str, first_line: str) -> None:
    done = kohort(word)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == first_line
    assert all(f"  {command} " in done.stderr for command in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("groups lsit", "invalid choice: 'lsit'"),
        ("groups list --nope", "kohort groups list: unrecognized arguments: --nope"),
        ("serve --nope", "kohort serve: unrecognized arguments: --nope"),
        ("groups", "the following arguments are required: ACTION"),
        (f"groups list --state foo {NOWHERE}", "argument --state: 'foo' is not a state: groups are Assigning, "),
        ("groups list --bootstrap-server localhost", "argument --bootstrap-server: 'localhost' is not HOST:PORT"),
        ("topics list --bootstrap-server localhost:99999", "'localhost:99999' is not HOST:PORT"),
        (f"groups reset-offsets g {NOWHERE}", "one of the arguments --to-earliest --to-latest"),
        (f"groups reset-offsets g --to-datetime yesterday {NOWHERE}", "'yesterday' is not a time: write 2026-"),
        (f"groups reset-offsets g --by-duration soon {NOWHERE}", "'soon' is not a duration: write 2h, 1d12h or P1DT2H"),
        (f"groups reset-offsets g --to-offset x {NOWHERE}", "argument --to-offset: invalid int value: 'x'"),
        (f"groups reset-offsets g --to-latest --topic t:0,,1 {NOWHERE}", "partitions are numbers with commas"),
        (f"groups reset-offsets g --from-file f --topic t {NOWHERE}", "--from-file names the partitions itself"),
        (f"groups delete-offsets g --topic t:x {NOWHERE}", "partitions are numbers with commas"),
        (f"topics create t --config retention.ms {NOWHERE}", "argument --config: 'retention.ms' is not KEY=VALUE"),
        ("serve --log-level loud", "argument --log-level: invalid choice: 'loud'"),
        ("serve --override novalue", "--override takes key=value, not 'novalue'"),
        ("dump", "the following arguments are required: LOG_FOLDER"),
        ("completion tcsh", "invalid choice: 'tcsh'"),
        ("audit", "the following arguments are required: PATH"),
        ("audit --since yesterday x", "'yesterday' is no time"),
        ("audit owners x --group g --at soon", "'soon' is no time"),
        ("audit follow x --window soon", "'soon' is not a duration"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2_and_says_what_is_wrong(arguments: str, said: str) -> None:
    done = kohort(*arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr.splitlines()[0]


def test_every_command_and_action_has_help_that_says_what_each_argument_is() -> None:
    for place in all_places():
        done = kohort(*place.words, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(f"usage: kohort {' '.join(place.words)}".rstrip())
        assert not [name for name, about in place.actions.items() if not about]


def test_help_ends_in_silence_when_its_reader_has_gone() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run([KOHORT, "--help"], stdout=output, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_topics_describe_says_that_a_topic_does_not_exist(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        done = kohort("topics", "describe", "nope", "--bootstrap-server", broker.address)
    assert (done.returncode, done.stderr) == (1, "kohort: nope: there is no such topic\n")


def test_topics_list_prints_nothing_if_there_are_no_topics(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        done = kohort("topics", "list", "--bootstrap-server", broker.address)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# --- completion

LINES = [
    ("kohort ", list(COMMANDS)),
    ("kohort gro", ["groups"]),
    ("kohort -", ["--help", "--version"]),
    ("kohort groups ", ["list", "describe", "delete", "delete-offsets", "reset-offsets"]),
    ("kohort groups list --bootstrap-server x --st", ["--state"]),
    ("kohort tr", ["transactions"]),
    ("kohort transactions ", ["list", "describe", "abort", "find-hanging"]),
    ("kohort transactions list --o", ["--open-for"]),
    ("kohort topics de", ["describe", "delete"]),
    ("kohort serve --log-level ", ["debug", "info", "warning", "error"]),
    ("kohort audit f", ["follow"]),
    ("kohort audit follow --min-severity e", ["error"]),
    ("kohort completion ", ["bash", "zsh", "fish"]),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell in ("bash", "zsh", "fish"):
        (folder / shell).write_text(kohort("completion", shell).stdout)
    return folder


@pytest.mark.parametrize(("line", "expected"), LINES)
def test_bash_completes_commands_options_and_choices(scripts: Path, line: str, expected: list[str]) -> None:
    code = 'source ./bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kohort; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", code, "bash", *line.split(" ")], cwd=scripts, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_fish_completes_commands_options_and_choices(scripts: Path, line: str, expected: list[str]) -> None:
    home = {**os.environ, "HOME": str(scripts), "XDG_CONFIG_HOME": str(scripts), "XDG_DATA_HOME": str(scripts)}
    done = subprocess.run(
        ["fish", "-c", f"source ./fish; complete -C '{line}'"], cwd=scripts, capture_output=True, text=True, env=home,
        timeout=60,
    )  # fmt: skip
    assert sorted(shown.split("\t")[0] for shown in done.stdout.splitlines()) == sorted(expected)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize(("line", "expected"), LINES)
def test_zsh_completes_commands_options_and_choices(scripts: Path, line: str, expected: list[str]) -> None:
    """The function as bashcompinit calls it: with arrays that count from 0."""
    code = (
        "autoload -U compinit; compinit -D -u; source ./zsh; setopt ksharrays shwordsplit;"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kohort; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["zsh", "-f", "-c", code, "zsh", *line.split(" ")], cwd=scripts, capture_output=True, text=True, timeout=60
    )
    typed = line.rpartition(" ")[2]
    assert [
        word for word in done.stdout.split() if word.startswith(typed)
    ] == expected  # zsh itself leaves out the rest
    assert done.stderr == ""
