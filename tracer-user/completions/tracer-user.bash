# bash completion for tracer-user                          -*- shell-script -*-
# Source it, or install it as /usr/share/bash-completion/completions/tracer-user.

_tracer_user() {
    # The program quotes what bash would interpret; words are neither split nor expanded here.
    mapfile -t COMPREPLY < <(
        command tracer-user __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null
    )
    # More follows after these.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=:/,] ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -o bashdefault -o default -F _tracer_user tracer-user
