# The life of the archive where there is busybox and nothing else: no C library, no package manager.
for file in /lib /lib64 /usr /etc/ld.so.cache; do
    if [ -e "$file" ]; then fail "$file is there: a C library may be used"; fi
done
files_of / >/life/before

# The first lines of what is said by a command that has to succeed, or has lost events.
shows() {
    wanted=$1
    shift
    "$@" >"$notes/shown" 2>"$notes/errors" || [ $? = 1 ] || { cat "$notes/errors" >&2; fail "$*"; }
    grep -q "$wanted" "$notes/shown" || { head -n 40 "$notes/shown"; fail "$*: no $wanted"; }
}

step "what was downloaded is whole"
cd /life/old
grep 'tracer-user-.*\.tar\.gz$' SHA256SUMS | sha256sum -c >"$notes/said" || { cat "$notes/said"; fail "checksums"; }
cd /

step "unpacked"
mkdir /opt
tar -xzf /life/old/tracer-user-*.tar.gz -C /opt
folder=$(echo /opt/tracer-user-*)
PATH=$folder/bin:$PATH
for file in share/man/man1/tracer-user-attach.1.gz share/man/man7/linux_trace_events.7.gz \
    share/bash-completion/completions/tracer-user lib/systemd/system/tracer-user@.service \
    share/tracer-user/skills/tracer-user/SKILL.md \
    share/doc/tracer-user/LICENSE-MIT share/doc/tracer-user/THIRD-PARTY share/doc/tracer-user/CHANGELOG.md; do
    [ -f "$folder/$file" ] || fail "no $file"
done
gzip -dc "$folder/share/man/man1/tracer-user-attach.1.gz" | grep -q attach || fail "no manual page"
grep -q musl "$folder/share/doc/tracer-user/THIRD-PARTY" || fail "no licence of what is linked in"

step "says what it is, and what it knows"
shows '^tracer-user [0-9]' tracer-user --version
shows switch-in tracer-user events

step "events of the kernel, as they happen"
traces_the_kernel

step "a log with system calls and stacks: written, read, summed up"
tracer-user run --events fork,exec,exit,switch --syscalls all --stack user,kernel --log /tmp/log -- \
    /bin/busybox sh -c '/bin/busybox ls /bin; exit 3' >"$notes/said" 2>&1 && fail "the status of the command is lost"
[ $? = 3 ] || { cat "$notes/said"; fail "no log"; }
shows 'exec .*/bin/busybox .*"ls"' tracer-user read /tmp/log
shows '"type":"linux_trace_exec"' tracer-user read --format json /tmp/log
shows getdents64 tracer-user stat /tmp/log
shows 'completed *yes' tracer-user info /tmp/log

step "exported, and as a page"
for form in perfetto chrome ctf parquet; do
    quietly tracer-user export /tmp/log --to $form -o /tmp/out.$form
    [ -s /tmp/out.$form ] || fail "nothing exported to $form"
done
quietly tracer-user report /tmp/log -o /tmp/out.html
grep -q '</html>' /tmp/out.html || fail "no page"

step "removed: nothing is left"
rm -r /opt /tmp/log /tmp/out.*
# In memory: where programs that emit events find the tool.
rmdir /run/tracer-user
nothing_is_left / /life/before
[ -z "$(ls -A /tmp | grep -v "^${notes##*/}\$")" ] || fail "files are left in /tmp: $(ls -A /tmp)"
