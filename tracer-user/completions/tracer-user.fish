# fish completion for tracer-user: in vendor_completions.d, or sourced.

function __tracer_user_complete
    # fish quotes what it would interpret.
    set --local before (commandline --current-process --tokenize --cut-at-cursor)
    command tracer-user __complete fish $before (commandline --current-token --cut-at-cursor) 2>/dev/null
end
complete --command tracer-user --no-files --keep-order --arguments '(__tracer_user_complete)'
