"""``completion``: the scripts with which shells complete arguments of ``pyzk``, ``pyzk-lock`` and
``pyzk-server``.

The words of ``pyzk`` come from the table of verbs. ``pyzk-lock`` and ``pyzk-server`` are each treated as one
verb. For paths of znodes the scripts call this program with the words of the line (:mod:`..completing`). The
answer has names of znodes, which come from a server. The scripts can compare and quote these names, but must
not let the shell expand them. In bash the scripts must not use ``compgen -W``, which expands ``$( )`` and
backticks in its words.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..parser import PROG, VERBS, new_parser, verb_parser

# bash has split the words at : and = too, and readline replaces only what is behind the last of them: so the
# words are joined again, and of a candidate only the rest behind that place is given.
_BASH = r"""
_pyzk() {
    local verb="" word="" words="" options="" name candidate found before head=""
    local -a line=()
    for name in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if (( ${#line[@]} > 1 )) && [[ ( "$name" && "$name" != *[^:=]* ) || "$word" == [:=]* ]]; then
            line[${#line[@]}-1]+="$name"
        else
            line+=("$name")
        fi
        word="$name"
    done
    before="${COMP_LINE:0:${COMP_POINT:-0}}"
    [[ -z "$word" && "$before" == *[[:blank:]] && "${line[${#line[@]}-1]}" ]] && line+=("")
    local current="${line[${#line[@]}-1]}" program="${line[0]##*/}"
    [[ "$program" == pyzk ]] || verb="$program"
    for word in "${line[@]:1:${#line[@]}-2}"; do
        case "$verb:$word" in
        VERBS_PATTERN) verb="$word"; break ;;
        pyzk-lock:--) verb=COMMAND; break ;;
        esac
    done
    case "$verb" in
CASES
    esac
    COMPREPLY=()
    if [[ -n "$verb" && "$verb" != pyzk-server && ( "$current" == /* || "$current" == [\'\"]/* ) ]]; then
        found="$(pyzk completion bash -- "$program" "${line[@]:1}" 2>/dev/null)"
        case $? in 0) ;; 1) compopt -o default; return ;; *) return ;; esac
        compopt -o nospace
        if [[ "$current" == /*[:=]* ]]; then
            head="${current%"${current##*[:=]}"}"
        fi
        while IFS= read -r name; do
            case "$current" in
            \'*) candidate="${name//\'/\'\\\'\'}" ;;
            \"*)
                [[ "$name" == *!* ]] && continue # in these quotes nothing protects it from the history
                candidate="${name//\\/\\\\}"
                candidate="${candidate//\"/\\\"}"
                candidate="${candidate//\$/\\\$}"
                candidate="${candidate//\`/\\\`}"
                ;;
            *) printf -v candidate %q "$name" ;;
            esac
            [[ "$name" && "$candidate" == "$head"* ]] && COMPREPLY+=("${candidate:${#head}}")
        done <<< "$found"
        return
    elif [[ "$current" == -* ]]; then
        words="$options"
    elif [[ -z "$words" ]]; then
        compopt -o default
    fi
    local IFS=$' \n'
    COMPREPLY=($(compgen -W "$words" -- "$current")) # words of this script alone
}
complete -F _pyzk pyzk pyzk-lock pyzk-server
"""

_ZSH = r"""#compdef pyzk pyzk-lock pyzk-server
_pyzk() {
    local verb="" word answer program="${words[1]:t}"
    local -a found options
    [[ "$program" == pyzk ]] || verb="$program"
    for word in "${words[@]:1:$((CURRENT - 2))}"; do
        case "$verb:$word" in
        VERBS_PATTERN) verb="$word"; break ;;
        pyzk-lock:--) verb=COMMAND; break ;;
        esac
    done
    case "$verb" in
CASES
    esac
    if [[ -n "$verb" && "$verb" != pyzk-server && "$PREFIX" == /* ]]; then
        answer="$(pyzk completion zsh -- "$program" "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"
        case $? in
        0) found=("${(@f)answer}"); [[ -n "$answer" ]] && compadd -S '' -a found ;;
        1) _files ;;
        esac
    elif [[ "$PREFIX" == -* ]]; then
        compadd -a options
    elif (( ${#found} )); then
        compadd -a found
    else
        _files
    fi
}
if [[ "$funcstack[1]" == _pyzk ]]; then _pyzk "$@"; else compdef _pyzk pyzk pyzk-lock pyzk-server; fi
"""

_FISH_PATHS = r"""
function __pyzk_znodes
    set -l words (commandline -opc)
    set -l current (string unescape -- (commandline -ct))
    or set current (string replace -r '^["\']' '' -- (commandline -ct))
    pyzk completion fish -- $argv[1] $words[2..-1] "$current" 2>/dev/null
end
function __pyzk_path
    string match -qr '^[\'"]?/' -- (commandline -ct)
end
function __pyzk_command
    contains -- -- (commandline -opc)
end
complete -c pyzk -f -n 'not __fish_use_subcommand; and __pyzk_path' -a '(__pyzk_znodes pyzk)'
complete -c pyzk-lock -f -n 'not __pyzk_command; and __pyzk_path' -a '(__pyzk_znodes pyzk-lock)'
"""


def completion(options: argparse.Namespace) -> int:
    """Print the completion of a shell, or the znodes that can complete the words of a line."""
    if options.words:
        from ..completing import complete

        return complete(options.words, quoted=options.shell == "bash")
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](), end="")
    return 0


def _actions() -> dict[str, list[argparse.Action]]:
    """Return the arguments of each verb, by the name of the verb. The arguments before the verb have an empty
    name."""
    return {"": new_parser({})._actions} | {name: verb_parser(name)._actions for name in VERBS}


def _other_programs() -> dict[str, list[argparse.Action]]:
    from ...server.app import flags
    from ..lock import arguments as lock

    return {lock.PROG: lock.new_parser({})._actions, flags.PROG: flags.parser()._actions}


def _words(actions: list[argparse.Action]) -> str:
    """Return the possible words of a positional argument, if the argument has choices."""
    choices = (action.choices for action in actions if action.choices and not action.option_strings)
    return " ".join(next(choices, ()))


def _options(actions: list[argparse.Action]) -> str:
    return " ".join(option for action in actions for option in action.option_strings if option != "--auth")


def _bash() -> str:
    return _filled(_BASH.lstrip(), '        "{}") words="{}" options="{}" ;;')


def _zsh() -> str:
    return _filled(_ZSH, '        "{}") found=({}) options=({}) ;;')


def _filled(template: str, form: str) -> str:
    cases = [
        form.format(name, _words(actions) if name else " ".join(VERBS), _options(actions))
        for name, actions in (_actions() | _other_programs()).items()
    ]
    return template.replace("VERBS_PATTERN", "|".join(f":{verb}" for verb in VERBS)).replace(
        "CASES", "\n".join(cases)
    )


def _fish() -> str:
    return "\n".join([_FISH_PATHS.lstrip(), *_fish_lines(), ""])


def _fish_lines() -> Iterator[str]:
    for name, verb in VERBS.items():
        yield f"complete -c pyzk -f -n __fish_use_subcommand -a {name} -d {_quoted(verb.help)}"
    for name, actions in _actions().items():
        when = f"'__fish_seen_subcommand_from {name}'" if name else "'not __fish_seen_subcommand_from exec'"
        yield from _fish_options(PROG, when, actions)
        for action in actions:
            if action.choices and name and not action.option_strings:
                yield f"complete -c {PROG} -f -n {when} -a {_quoted(' '.join(action.choices))}"
    for program, actions in _other_programs().items():
        yield from _fish_options(program, "'not __pyzk_command'", actions)


def _fish_options(program: str, when: str, actions: list[argparse.Action]) -> Iterator[str]:
    for action in actions:
        spelled = [
            f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            for option in action.option_strings
        ]
        if spelled and action.help != argparse.SUPPRESS:
            takes = " -r" if action.nargs != 0 else ""
            named = f"{' '.join(spelled)}{takes} -d {_quoted(action.help or '')}"
            yield f"complete -c {program} -n {when} {named}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
