# What the virtual machine runs when it has its files: the tests. It says how each went, and ends the machine.
# The lines that begin with "vmtest:" are read by the task that has booted this.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t securityfs securityfs /sys/kernel/security
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
ln -sf /proc/self/fd /dev/fd
/bin/busybox ip link set lo up
ulimit -l unlimited
ulimit -n 1048576

. /vmtest/environment
# Where the repository is below /tmp, so is the distribution: it must not be hidden.
case "$TRACER_DIST" in
/tmp/*) ;;
*) mount -t tmpfs tmpfs /tmp ;;
esac
cd /
echo "vmtest: kernel $(uname -r), $(uname -v)"
echo "vmtest: clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
"$TRACER_DIST/bin/tracer-user" doctor 2>&1 | cat

# The whole seconds since the machine started.
now() {
    IFS=. read -r seconds _ </proc/uptime
    echo "$seconds"
}

# Says what each thread waits for when a test takes too long, and ends it.
watch() {
    sleep "$TIMEOUT"
    echo "vmtest: late $1"
    echo late >/vmtest/status
    ps -eo pid,ppid,stat,args | grep -v '\]$'
    echo w >/proc/sysrq-trigger
    echo l >/proc/sysrq-trigger
    sleep 5
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" != "$TESTS/$1" ] || kill -9 "${process#/proc/}"
    done
}

while read -r file name; do
    echo "vmtest: test $file $name"
    begin=$(now)
    echo failed >/vmtest/status
    watch "$file" &
    # The last one: it sets Yama's scope to 3, which stays.
    case "$name" in
    *the_service_gives_what_ptrace_allows*) export TRACER_YAMA_FOR_GOOD=1 ;;
    esac
    # Into a file: what a test leaves running would keep a pipe open.
    "$TESTS/$file" --ignored --test-threads=1 --exact "$name" >/vmtest/output 2>&1 </dev/null && echo passed >/vmtest/status
    kill $! 2>/dev/null
    # Line by line, so that the kernel's own messages come between lines and not into them.
    tail -n 60 /vmtest/output | while IFS= read -r line; do printf '%s\n' "$line"; done
    echo "vmtest: result $file $name $(cat /vmtest/status) $(($(now) - begin))"
done </vmtest/list
echo "vmtest: taint $(cat /proc/sys/kernel/tainted)"
echo "vmtest: done"
/bin/busybox poweroff -f
