"""``completion``: what shells need to complete our arguments, made of the table of verbs.

For paths of znodes the scripts ask us again, with the words of the line (:mod:`..completing`). What we
answer comes from a server: the scripts may compare it and quote it, but must not let the shell expand it. In
bash that forbids ``compgen -W``, which expands ``$( )`` and backticks in its words.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..parser import VERBS, new_parser, verb_parser

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
    local current="${line[${#line[@]}-1]}"
    for word in "${line[@]:1:${#line[@]}-2}"; do
        case "$word" in VERBS_PATTERN) verb="$word"; break ;; esac
    done
    case "$verb" in
CASES
    esac
    COMPREPLY=()
    if [[ -n "$verb" && ( "$current" == /* || "$current" == [\'\"]/* ) ]]; then
        found="$(pyzk completion bash -- "${line[@]:1}" 2>/dev/null)"
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
complete -F _pyzk pyzk
"""

_ZSH = r"""#compdef pyzk
_pyzk() {
    local verb="" word answer
    local -a found options
    for word in "${words[@]:1:$((CURRENT - 2))}"; do
        case "$word" in VERBS_PATTERN) verb="$word"; break ;; esac
    done
    case "$verb" in
CASES
    esac
    if [[ -n "$verb" && "$PREFIX" == /* ]]; then
        answer="$(pyzk completion zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"
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
if [[ "$funcstack[1]" == _pyzk ]]; then _pyzk "$@"; else compdef _pyzk pyzk; fi
"""

_FISH_PATHS = r"""
function __pyzk_znodes
    set -l words (commandline -opc)
    set -l current (string unescape -- (commandline -ct))
    or set current (string replace -r '^["\']' '' -- (commandline -ct))
    pyzk completion fish -- $words[2..-1] "$current" 2>/dev/null
end
complete -c pyzk -f -n 'not __fish_use_subcommand; and string match -qr "^[\'\"]?/" -- (commandline -ct)' \
    -a '(__pyzk_znodes)'
"""


def completion(options: argparse.Namespace) -> int:
    """Print the completion of a shell, or the znodes that may stand at the end of words that it gives us."""
    if options.words:
        from ..completing import complete

        return complete(options.words, quoted=options.shell == "bash")
    print({"bash": _bash, "zsh": _zsh, "fish": _fish}[options.shell](), end="")
    return 0


def _actions() -> dict[str, list[argparse.Action]]:
    """The arguments of each verb; those before the verb under the empty name."""
    return {"": new_parser({})._actions} | {name: verb_parser(name)._actions for name in VERBS}


def _words(actions: list[argparse.Action]) -> str:
    """The words that a positional argument may be, where these are few."""
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
        for name, actions in _actions().items()
    ]
    return template.replace("VERBS_PATTERN", "|".join(VERBS)).replace("CASES", "\n".join(cases))


def _fish() -> str:
    return "\n".join([*_fish_lines(), _FISH_PATHS])


def _fish_lines() -> Iterator[str]:
    for name, verb in VERBS.items():
        yield f"complete -c pyzk -f -n __fish_use_subcommand -a {name} -d {_quoted(verb.help)}"
    for name, actions in _actions().items():
        when = f"'__fish_seen_subcommand_from {name}'" if name else "'not __fish_seen_subcommand_from exec'"
        for action in actions:
            spelled = [
                f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                for option in action.option_strings
            ]
            if spelled and action.help != argparse.SUPPRESS:
                takes = " -r" if action.nargs != 0 else ""
                yield f"complete -c pyzk -n {when} {' '.join(spelled)}{takes} -d {_quoted(action.help or '')}"
            elif action.choices and name:
                yield f"complete -c pyzk -f -n {when} -a {_quoted(' '.join(action.choices))}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
