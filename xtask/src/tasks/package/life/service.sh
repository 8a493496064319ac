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

agent=tracer-user.service

# What the agent is given by systemd, and says of itself.
agent_fails() {
    systemctl --no-pager --full status tracer-user.socket "$agent" || true
    journalctl --no-pager --unit "$agent" || true
    fail "$*"
}

# An ordinary user sees the events of a command.
without_rights() {
    mkdir -p /tmp/ordinary
    chown 4711:4711 /tmp/ordinary
    # Without KVM the agent loads its programs for about as long as its clients wait.
    again=0
    [ "$(systemd-detect-virt)" = kvm ] || again=5
    until setpriv --reuid=4711 --regid=4711 --clear-groups --inh-caps=-all -- \
        tracer-user run --events fork,exec,exit -o /tmp/ordinary/trace -- /bin/sh -c '/bin/true; exit 0' \
        2>/tmp/said; do
        grep -q 'not in time; try again' /tmp/said && [ $again -gt 0 ] ||
            { cat /tmp/said; agent_fails "an ordinary user cannot trace"; }
        again=$((again - 1))
    done
    grep -q 'the service at /run/tracer-user.sock' /tmp/said || { cat /tmp/said; agent_fails "by other means"; }
    [ "$(grep -c exec /tmp/ordinary/trace)" -ge 2 ] || { cat /tmp/ordinary/trace; agent_fails "no exec was seen"; }
    rm -r /tmp/ordinary
}

step "the agent's socket is there and enabled, and no agent runs"
systemctl is-enabled tracer-user.socket
[ "$(systemctl is-active tracer-user.socket)" = active ] || agent_fails "the socket is not there"
[ "$(systemctl is-active "$agent")" = inactive ] || agent_fails "an agent runs"

step "an ordinary user traces by it; what it may do"
without_rights
pid=$(systemctl show --property MainPID --value "$agent")
grep -E '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):' "/proc/$pid/status"
# CAP_PERFMON, CAP_BPF.
[ "$(sed -n 's/^CapEff:\t*0*//p' "/proc/$pid/status")" = c000000000 ] || fail "other capabilities"
[ "$(sed -n 's/^Uid:\t\([0-9]*\).*/\1/p' "/proc/$pid/status")" -gt 0 ] || fail "it is root"
systemd-analyze --no-pager security "$agent" | tail -n 1
exposed=$(systemd-analyze --no-pager security "$agent" | sed -n 's/.*: \([0-9]*\)\.\([0-9]\).*/\1\2/p' | tail -n 1)
[ "${exposed#0}" -le 20 ] || fail "it is exposed"

step "the agent is killed: the next one serves"
systemctl kill --signal KILL "$agent"
without_rights

step "turned off, and a policy that is none"
printf '[serve]\nallow = "off"\n' >/etc/tracer-user.toml
systemctl restart "$agent"
if (without_rights) >/dev/null 2>&1; then fail "it serves"; fi
echo '[serve' >/etc/tracer-user.toml
if systemctl restart "$agent" 2>/dev/null; then fail "it does not mind its policy"; fi
journalctl --no-pager --unit "$agent" | grep -q 'tracer-user.toml is no policy' || agent_fails "it does not say why"
rm /etc/tracer-user.toml
systemctl reset-failed "$agent" tracer-user.socket
systemctl restart tracer-user.socket
without_rights

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
without_rights

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
[ ! -e /etc/systemd/system/sockets.target.wants/tracer-user.socket ] || fail "the socket is enabled still"
[ ! -e /run/tracer-user.sock ] || fail "the socket is left"

echo "vmtest: taint $(cat /proc/sys/kernel/tainted)"
echo "vmtest: done"
