# The life of tracer-user@nginx under systemd. Lines that begin with "vmtest:" are read by the task that has booted this.
recorder=tracer-user@nginx
ring=/var/lib/tracer-user/nginx/ring

# A request, on a connection of its own.
request() {
    exec 3<>/dev/tcp/127.0.0.1/80
    printf 'GET / HTTP/1.0\r\n\r\n' >&3
    cat <&3 >/tmp/answer
    exec 3>&-
    grep -q 'HTTP/1.1 200' /tmp/answer || fail "nginx does not answer"
}

requests() {
    for _ in $(seq "$1"); do request; done
}

# Fails with what systemd knows of the recorder.
recorder_fails() {
    systemctl --no-pager --full status "$recorder" || true
    journalctl --no-pager --unit "$recorder" || true
    fail "$*"
}

# A recorder that systemd starts by itself takes its time.
is_active() {
    for _ in $(seq 120); do
        case "$(systemctl is-active "$recorder")" in
        active) return ;;
        activating | deactivating | inactive) sleep 1 ;;
        *) break ;;
        esac
    done
    recorder_fails "the recorder does not run"
}

# Begins anew with this much memory, and these options.
set_up() {
    mkdir -p "/etc/systemd/system/$recorder.service.d"
    printf '[Service]\nEnvironment=SIZE=%s SNAPSHOTS=2\nEnvironment="OPTIONS=%s"\n' "$1" "$2" \
        >"/etc/systemd/system/$recorder.service.d/override.conf"
    systemctl daemon-reload
}

main_pid() {
    systemctl show --property MainPID --value "$recorder"
}

# How many calls of this kind a snapshot has.
calls() {
    tracer-user read --format json "$2" >/tmp/read || [ $? = 1 ] || fail "$2 cannot be read"
    grep -c "\"$1\"" /tmp/read || true
}

echo "vmtest: kernel $(uname -r), $(uname -v)"
step "$(systemctl --version | head -n 1)"

step "installed while systemd runs"
quietly dpkg --install /life/old/tracer-user_*.deb

step "a recorder of nginx: begun"
quietly systemctl start nginx
set_up 4M '--syscalls %%network,openat'
systemctl start "$recorder" || recorder_fails "it does not start"
is_active
pid=$(main_pid)
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
# CAP_SYS_PTRACE, CAP_PERFMON, CAP_BPF.
[ "$(sed -n 's/^CapEff:\t*0*//p' "/proc/$pid/status")" = c000080000 ] || fail "other capabilities"
[ "$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status")" -gt 0 ] || fail "it is root"
systemctl show --property MemoryCurrent "$recorder"

step "reloaded after 20 requests: a snapshot that has them"
requests 20
systemctl reload "$recorder" || recorder_fails "it is not reloaded"
[ -f "$ring.1" ] || recorder_fails "no snapshot"
ls -ln /var/lib/tracer-user/nginx/
served=$(wc -l </var/log/nginx/access.log)
has=$(calls accept4 "$ring.1")
step "nginx has logged $served requests, the snapshot has $has lines of accept4"
[ "$served" = 20 ] || fail "nginx has logged $served"
[ "$has" -ge 20 ] || { head -n 40 /tmp/read; fail "requests are missing"; }
tracer-user stat "$ring.1" >"$notes/said" || [ $? = 1 ] || fail "no statistics"
grep -q accept4 "$notes/said" || { cat "$notes/said"; fail "no statistics of accept4"; }

step "reloaded again and again: the two newest are stored"
for count in 3 5; do
    requests "$count"
    systemctl reload "$recorder" || recorder_fails "it is not reloaded"
done
has=$(calls accept4 "$ring.1")
[ "$has" -ge 5 ] && [ "$has" -lt 20 ] || fail "the newest has $has lines of accept4"
has=$(calls accept4 "$ring.2")
[ "$has" -ge 3 ] && [ "$has" -lt 20 ] || fail "the one before has $has lines of accept4"
[ ! -e "$ring.3" ] || fail "a third one"

step "nginx is started anew, and so is the recorder, which leaves a snapshot"
before=$(stat --format %i "$ring.1")
set_up 64K '--syscalls %%network,openat'
quietly systemctl restart nginx
is_active
[ "$(main_pid)" != "$pid" ] || fail "it is still the old one"
[ "$(stat --format %i "$ring.1")" != "$before" ] || fail "no snapshot at its end"

step "more requests than it may hold: a snapshot of the newest"
requests 100
systemctl reload "$recorder" || recorder_fails "it is not reloaded"
size=$(stat --format %s "$ring.1")
has=$(calls accept4 "$ring.1")
step "$size bytes, $has lines of accept4"
[ "$size" -lt 65536 ] || fail "too large"
[ "$has" -ge 2 ] && [ "$has" -lt 200 ] || fail "not the newest"

step "upgraded: recorders go on with the new program"
pid=$(main_pid)
quietly dpkg --install /life/new/tracer-user_*.deb
is_active
[ "$(main_pid)" != "$pid" ] || fail "it is still the old one"

requests 1
systemctl reload "$recorder" || recorder_fails "it is not reloaded"
[ "$(calls accept4 "$ring.1")" -ge 2 ] || fail "it sees no requests"

step "of processes by name, where no unit is called so"
systemctl start tracer-user@sleep || { recorder=tracer-user@sleep; recorder_fails "it does not start"; }
sleep 0.5
systemctl reload tracer-user@sleep
tracer-user read /var/lib/tracer-user/sleep/ring.1 >/tmp/read || [ $? = 1 ] || fail "it cannot be read"
grep -q sleep /tmp/read || { cat /tmp/read; fail "sleep is not in it"; }

step "nginx stops, and so does its recorder"
quietly systemctl stop nginx
! systemctl is-active --quiet "$recorder" || fail "it runs still"
! systemctl is-failed --quiet "$recorder" || recorder_fails "it has failed"

step "enabled: it begins with nginx"
quietly systemctl enable "$recorder"
quietly systemctl start nginx
is_active

step "removed: recorders have ended; purged: nothing is left"
quietly dpkg --remove tracer-user
for exe in /proc/[0-9]*/exe; do
    case "$(readlink "$exe" || true)" in
    */tracer-user*) fail "$exe runs still" ;;
    esac
done
[ -f "$ring.1" ] || fail "what was recorded is gone before it is purged"
rm -r "/etc/systemd/system/$recorder.service.d"
systemctl stop nginx
quietly dpkg --purge tracer-user
[ ! -e /var/lib/tracer-user ] && [ ! -e /var/lib/private/tracer-user ] || fail "records are left"
[ ! -e /etc/systemd/system/nginx.service.wants ] || fail "it is enabled still"

echo "vmtest: taint $(cat /proc/sys/kernel/tainted)"
echo "vmtest: done"
