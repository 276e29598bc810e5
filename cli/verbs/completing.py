"""``completion``: what shells need to complete our arguments, made of the table of verbs.

Paths of znodes are completed by asking the server of ``PYZK_HOSTS``, for a second at most.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..parser import VERBS, new_parser, verb_parser

_BASH = r"""
_pyzk() {
    local current="${COMP_WORDS[COMP_CWORD]}" verb="" word words options
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in VERBS_PATTERN) verb="$word"; break ;; esac
    done
    case "$verb" in
CASES
    esac
    if [[ -n "$verb" && "$current" == /* ]]; then
        word="${current%/*}"
        words="$(pyzk --connect-timeout 1 ls --paths "${word:-/}" 2>/dev/null)"
        compopt -o nospace
    elif [[ "$current" == -* ]]; then
        words="$options"
    elif [[ -z "$words" ]]; then
        compopt -o default
    fi
    local IFS=$' \n'
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _pyzk pyzk
"""

_ZSH = r"""#compdef pyzk
_pyzk() {
    local verb="" word dir
    local -a found options
    for word in "${words[@]:1:$((CURRENT - 2))}"; do
        case "$word" in VERBS_PATTERN) verb="$word"; break ;; esac
    done
    case "$verb" in
CASES
    esac
    if [[ -n "$verb" && "$PREFIX" == /* ]]; then
        dir="${PREFIX%/*}"
        found=(${(f)"$(pyzk --connect-timeout 1 ls --paths "${dir:-/}" 2>/dev/null)"})
        compadd -S '' -a found
    elif [[ "$PREFIX" == -* ]]; then
        compadd -a options
    elif (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
if [[ "$funcstack[1]" == _pyzk ]]; then _pyzk "$@"; else compdef _pyzk pyzk; fi
"""

_FISH_PATHS = (
    "complete -c pyzk -f -n 'not __fish_use_subcommand; and string match -q -- \"/*\" (commandline -ct)'"
    ' -a \'(pyzk --connect-timeout 1 ls --paths (string replace -r "(?<=.)/[^/]*\\$|(?<=^/)[^/]*\\$" ""'
    " -- (commandline -ct)) 2>/dev/null)'"
)


def completion(options: argparse.Namespace) -> None:
    """Print the completion of a shell."""
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](), end="")


def _actions() -> dict[str, list[argparse.Action]]:
    """The arguments of each verb; those before the verb under the empty name."""
    return {"": new_parser({})._actions} | {name: verb_parser(name)._actions for name in VERBS}


def _words(actions: list[argparse.Action]) -> str:
    """The words that a positional argument may be, where these are few."""
    choices = (action.choices for action in actions if action.choices and not action.option_strings)
    return " ".join(next(choices, ()))


def _options(actions: list[argparse.Action]) -> str:
    return " ".join(option for action in actions for option in action.option_strings)


def _bash() -> str:
    return _filled(_BASH.lstrip(), '        "{}") words="{}" options="{}" ;;')


def _zsh() -> str:
    return _filled(_ZSH, '        "{}") found=({}) options=({}) ;;')


def _filled(template: str, form: str) -> str:
    cases = [form.format(name, _words(actions), _options(actions)) for name, actions in _actions().items()]
    return template.replace("VERBS_PATTERN", "|".join(VERBS)).replace("CASES", "\n".join(cases))


def _fish() -> str:
    return "\n".join([*_fish_lines(), _FISH_PATHS, ""])


def _fish_lines() -> Iterator[str]:
    for name, verb in VERBS.items():
        yield f"complete -c pyzk -f -n __fish_use_subcommand -a {name} -d {_quoted(verb.help)}"
    for name, actions in _actions().items():
        when = f"'__fish_seen_subcommand_from {name}'" if name else "__fish_use_subcommand"
        for action in actions:
            spelled = [
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            ]
            if spelled:
                takes = " -r" if action.nargs != 0 else ""
                yield f"complete -c pyzk -n {when} {' '.join(spelled)}{takes} -d {_quoted(action.help or '')}"
            elif action.choices and name:
                yield f"complete -c pyzk -f -n {when} -a {_quoted(' '.join(action.choices))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
