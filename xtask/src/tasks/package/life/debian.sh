# The life of the packages of Debian.
install_from() {
    quietly apt-get install --yes --no-install-recommends "$@"
}

versions_are() {
    for package in $2; do
        has=$(dpkg-query --show --showformat='${Version}' "$package")
        [ "${has##*-}" = "$1" ] || fail "$package is $has"
    done
    quietly dpkg --verify $2
}

has_pages_and_completions() {
    gzip -dc /usr/share/man/man1/tracer-user-attach.1.gz | grep -q 'attach' || fail "no manual page"
    [ -f /usr/share/doc/tracer-user/copyright ] || fail "no licence"
    offered=$(tracer-user __complete zsh tracer-user att)
    [ "${offered%%	*}" = attach ] || fail "nothing is completed: $offered"
}

quietly apt-get update
files_of / >/life/before

step "the tool alone: installed, used"
install_from /life/old/tracer-user_*.deb
versions_are 1 tracer-user
has_pages_and_completions
traces_the_kernel
step "upgraded, used"
install_from /life/new/tracer-user_*.deb
versions_are 2 tracer-user
traces_the_kernel
step "removed: nothing is left"
quietly apt-get purge --yes tracer-user
quietly apt-get autoremove --purge --yes
nothing_is_left / /life/before

install_from gcc libc6-dev pkg-config
files_of / >/life/before

all="tracer-user tracer-user-ship libposixtrace0 libposixtrace-dev libtracetools-posixtrace"
step "tool, library and development files: installed, used"
install_from /life/old/*.deb
versions_are 1 "$all"
gcc -Wall -Werror -o /tmp/program /life/program.c $(pkg-config --cflags --libs posixtrace)
traces_the_program
ships env
step "a program of ROS 2, with libtracetools preloaded"
preload=/usr/lib/$(gcc -print-multiarch)/posixtrace/libtracetools.so
builds_the_robot env
traces_the_robot "$preload" env
step "a static program"
gcc -static -o /tmp/program.static /life/program.c $(pkg-config --static --cflags --libs posixtrace)
/tmp/program.static
step "upgraded, used without building anew"
install_from /life/new/*.deb
versions_are 2 "$all"
traces_the_program
traces_the_kernel
traces_the_robot "$preload" env
step "the library cannot go while its development files, or robots, are there"
if dpkg --remove libposixtrace0 >"$notes/said" 2>&1; then fail "it has gone"; fi
grep -q 'libtracetools-posixtrace.* depends on libposixtrace0' "$notes/said" || {
    cat "$notes/said"; fail "robots do not need it"
}
step "removed: nothing is left"
quietly apt-get remove --yes $all
quietly dpkg --purge $all
robot_goes_on "$preload" env
rm /tmp/program /tmp/program.static
nothing_is_left / /life/before
