# What the scripts of all systems use.
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive

# Names that no other user can know: some of this runs in the /tmp of all users.
notes=$(mktemp -d)
trap 'rm -r "$notes"' EXIT

step() {
    echo "  $*"
}

fail() {
    echo "failed: $*" >&2
    exit 1
}

# Runs a command; what it says is shown only when it fails.
quietly() {
    "$@" >"$notes/said" 2>&1 || { cat "$notes/said" >&2; fail "$*"; }
}

# Every file of the system $1, but for what package managers write for themselves.
files_of() {
    system=${1%/}
    find "$system/" -xdev \( -path "$system/life" -o -path "$system/tmp" -o -path "$system/var/lib/dpkg" \
        -o -path "$system/var/lib/apt" -o -path "$system/var/cache" -o -path "$system/var/log" \
        -o -path "$system/var/lib/rpm" \) -prune -o -print | sort
    # In memory, and so another file system.
    if [ -d "$system/run" ]; then find "$system/run" -print | sort; fi
}

# Fails where the system $1 has other files than the list $2 says.
nothing_is_left() {
    files_of "$1" >"$notes/after"
    diff "$2" "$notes/after" || fail "files are left, or gone"
}

# That the kernel's events of a command are seen. What runs it may be given.
traces_the_kernel() {
    "$@" tracer-user run --events fork,exec,exit -o /tmp/trace -- /bin/sh -c '/bin/true; exit 0'
    "$@" grep -q 'exec.*/bin/true' /tmp/trace || { "$@" cat /tmp/trace; fail "no exec was seen"; }
    "$@" rm /tmp/trace
}

# That a program that was built with the library is seen.
traces_the_program() {
    "$@" tracer-user run --no-system -o /tmp/trace -- /tmp/program
    "$@" grep -q 'alive' /tmp/trace || { "$@" cat /tmp/trace; fail "no user event was seen"; }
    "$@" rm /tmp/trace
}
