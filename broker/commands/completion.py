"""`kohort completion`: print a script that completes kohort's commands and options in bash, zsh or fish.

The scripts are written from the parsers of all commands, so that they need no Python while somebody types.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import NamedTuple

EPILOG = """\
bash:  source <(kohort completion bash)                                       # in ~/.bashrc
zsh:   source <(kohort completion zsh)                                        # in ~/.zshrc, after compinit
fish:  kohort completion fish > ~/.config/fish/completions/kohort.fish
"""


class Option(NamedTuple):
    """An option, or a positional argument, for which `name` is empty."""

    name: str
    about: str
    choices: tuple[str, ...]
    takes_value: bool


class Place(NamedTuple):
    """What may stand behind the words so far: `groups reset-offsets`, for instance."""

    words: tuple[str, ...]
    actions: dict[str, str]  # the words that may come next, with what they do
    options: list[Option]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(options: argparse.Namespace) -> int:
    places = list(all_places())
    print(fish_script(places) if options.shell == "fish" else bash_script(places, for_zsh=options.shell == "zsh"))
    return 0


def all_places() -> Iterator[Place]:
    """Every command and every action of it, with its options."""
    from kohort.broker.cli import COMMANDS, actions_of, load, parser_for

    general = [Option("--help", "print the commands", (), False), Option("--version", "print the version", (), False)]
    yield Place((), COMMANDS, general)
    for command in COMMANDS:
        with_modules = {name: (command, name) for name in actions_of(load((command,)))}
        yield from _places(
            (command,), parser_for((command,)), {name: parser_for(words) for name, words in with_modules.items()}
        )


def _places(
    words: tuple[str, ...], parser: argparse.ArgumentParser, actions: Mapping[str, argparse.ArgumentParser]
) -> Iterator[Place]:
    """The place behind `words`, and those behind its actions."""
    for each in parser._actions:
        if isinstance(each, argparse._SubParsersAction):
            actions = {**actions, **each.choices}
    about = {name: (action.description or "").rstrip(".") for name, action in actions.items()}
    yield Place(words, about, [_option(each) for each in parser._actions if not _is_actions(each)])
    for name, action in actions.items():
        yield from _places((*words, name), action, {})


def _is_actions(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)


def _option(action: argparse.Action) -> Option:
    name = next((name for name in action.option_strings if name.startswith("--")), "")
    choices = tuple(str(choice) for choice in action.choices or ())
    return Option(name, (action.help or "").replace("\n", " "), choices, action.nargs != 0)


# --- bash and zsh


def bash_script(places: list[Place], *, for_zsh: bool) -> str:
    """A function that finds out behind which words the cursor stands, and lists what may come next. Where it has no
    candidates, the shell completes file names."""
    ways = "|".join("/".join(("", *place.words, name)) for place in places for name in place.actions)
    lines = ["# Completes kohort. Written by `kohort completion`."]
    if for_zsh:  # zsh runs functions that were written for bash's `complete`
        lines.append("autoload -U +X bashcompinit && bashcompinit")
    lines += [
        "_kohort() {",
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}",
        '    local place="" candidates="" i',
        "    for ((i = 1; i < COMP_CWORD; i++)); do",
        '        case "$place/${COMP_WORDS[i]}" in',
        f"            {ways}) place=$place/${{COMP_WORDS[i]}} ;;",
        "        esac",
        "    done",
        '    case "$place $previous" in',
        *(f"        {pattern}) candidates={_quoted(words)} ;;" for pattern, words in _after_options(places)),
        '        *) case "$place $current" in',
        *(f"            {pattern}) candidates={_quoted(words)} ;;" for pattern, words in _at_places(places)),
        "        esac ;;",
        "    esac",
        '    COMPREPLY=($(compgen -W "$candidates" -- "$current"))',
        "}",
        "complete -o default -F _kohort kohort",
    ]
    return "\n".join(lines)


def _after_options(places: list[Place]) -> Iterator[tuple[str, list[str]]]:
    """Patterns for an option that waits for its value, with the values; without, if it may be anything."""
    waiting = [
        (f"'{_path(place)} {each.name}'", each) for place in places for each in place.options if each.takes_value
    ]
    for pattern, option in waiting:
        if option.choices:
            yield pattern, list(option.choices)
    yield "|".join(pattern for pattern, option in waiting if not option.choices), []


def _at_places(places: list[Place]) -> Iterator[tuple[str, list[str]]]:
    """Patterns for a place where an option may begin, or an action or another word that is known."""
    for place in places:
        options = [option.name for option in place.options if option.name]
        words = [*place.actions, *(choice for option in place.options if not option.name for choice in option.choices)]
        yield f"'{_path(place)} -'*", options
        if words:
            yield f"'{_path(place)} '*", words


def _path(place: Place) -> str:
    return "".join(f"/{word}" for word in place.words)


def _quoted(words: list[str]) -> str:
    return f"'{' '.join(words)}'"  # names of commands, options and choices, which have no quotes in them


# --- fish


def fish_script(places: list[Place]) -> str:
    """A line for each word that may be completed, with what it does and when it may stand there."""
    lines = [
        "# Completes kohort. Written by `kohort completion fish`.",
        "complete -c kohort -n __fish_use_subcommand -f",
    ]
    for place in places:
        here = _fish_condition(place)
        for name, about in place.actions.items():
            lines.append(f"complete -c kohort -n {here} -f -a {name} -d {_fish_quoted(about)}")
        shown = [option for option in place.options if option.name or option.choices]
        lines += [f"complete -c kohort -n {here} {_fish_option(option)}" for option in shown]
    return "\n".join(lines)


def _fish_condition(place: Place) -> str:
    """The words of this place have been typed, and none of those that lead further."""
    if not place.words:
        return "__fish_use_subcommand"
    typed = [f"__fish_seen_subcommand_from {word}" for word in place.words]
    further = [f"not __fish_seen_subcommand_from {' '.join(place.actions)}"] if place.actions else []
    return f"'{'; and '.join(typed + further)}'"


def _fish_option(option: Option) -> str:
    """`-r`: a value follows, perhaps a file's name. `-x`: one of the values of `-a` follows, and no file's name."""
    name = f"-l {option.name.removeprefix('--')}" if option.name else ""
    value = f"-x -a {_fish_quoted(' '.join(option.choices))}" if option.choices else "-r" if option.takes_value else ""
    about = f"-d {_fish_quoted(option.about)}" if option.about else ""
    return " ".join(filter(None, (name, value, about)))


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
