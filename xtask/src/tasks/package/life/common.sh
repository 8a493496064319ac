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

# That the shipper is found, and has nothing to ship. What runs it is given.
ships() {
    "$@" mkdir /tmp/spool
    "$@" tracer-user ship --spool /tmp/spool --to file:///tmp/shipped --once || fail "nothing ships"
    "$@" rm -r /tmp/spool /tmp/shipped
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

# Builds a program that is linked with a libtracetools of its own, as those of ROS 2 are.
builds_the_robot() {
    "$@" mkdir /tmp/robot
    "$@" gcc -Wall -Werror -DORIGINAL -shared -fPIC -Wl,-soname,libtracetools.so \
        -o /tmp/robot/libtracetools.so /life/program.c
    "$@" gcc -Wall -Werror -DROBOT -o /tmp/robot/robot /life/program.c \
        -L/tmp/robot -ltracetools -Wl,-rpath,/tmp/robot
}

# That the robot is seen where the library $1 of the package is preloaded, and else is not.
traces_the_robot() {
    preloaded=$1
    shift
    "$@" test -f "$preloaded" || fail "no $preloaded"
    "$@" tracer-user run --no-system -o /tmp/trace -- env LD_PRELOAD="$preloaded" /tmp/robot/robot
    seen=$("$@" grep -c 'ros2:callback_start' /tmp/trace) || true
    [ "$seen" = 10 ] || { "$@" cat /tmp/trace; fail "$seen callbacks were seen, and not 10"; }
    "$@" rm /tmp/trace
    "$@" tracer-user run --no-system -o /tmp/trace -- /tmp/robot/robot
    if "$@" grep -q 'ros2:' /tmp/trace; then fail "the package is in the place of the original"; fi
    "$@" rm /tmp/trace
}

# That the robot goes on with the original where the library $1 is gone and still asked for.
robot_goes_on() {
    preloaded=$1
    shift
    if "$@" test -e "$preloaded"; then fail "$preloaded is left"; fi
    quietly "$@" env LD_PRELOAD="$preloaded" /tmp/robot/robot
    "$@" rm -r /tmp/robot
}
