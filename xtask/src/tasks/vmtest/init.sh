#!/busybox/busybox sh
# The first program of the virtual machine: mounts, runs the tests, says how each went, ends it all.
# The lines that begin with "vmtest:" are read by the task that has booted this.
export PATH=/usr/bin:/usr/sbin:/busybox
/busybox/busybox --install -s /busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t securityfs securityfs /sys/kernel/security
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ln -s /proc/self/fd /dev/fd
ip link set lo up
ulimit -l unlimited

. /environment
# Where the repository is below /tmp, so is the distribution: it must not be hidden.
case "$TRACER_DIST" in
/tmp/*) ;;
*) mount -t tmpfs tmpfs /tmp ;;
esac
echo "vmtest: kernel $(uname -r), $(uname -v)"
echo "vmtest: clock $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
"$TRACER_DIST/bin/tracer-user" doctor 2>&1 | cat

# The whole seconds since the machine started.
now() {
    IFS=. read -r seconds _ </proc/uptime
    echo "$seconds"
}

# Says what everybody waits for when a test takes too long, and ends it.
watch() {
    sleep "$PATIENCE"
    echo "vmtest: late $1"
    echo late >/status
    ps -o pid,ppid,stat,args
    echo w >/proc/sysrq-trigger
    echo l >/proc/sysrq-trigger
    sleep 5
    # The guest has no pkill.
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe")" != "/tests/$1" ] || kill -9 "${process#/proc/}"
    done
}

while read -r file name; do
    echo "vmtest: test $file $name"
    begin=$(now)
    echo failed >/status
    watch "$file" &
    # Into a file: what a test leaves running would keep a pipe open.
    /tests/"$file" --ignored --test-threads=1 --exact "$name" >/output 2>&1 </dev/null && echo passed >/status
    kill $! 2>/dev/null
    # Line by line, so that the kernel's own messages come between lines and not into them.
    tail -n 60 /output | while IFS= read -r line; do printf '%s\n' "$line"; done
    echo "vmtest: result $file $name $(cat /status) $(($(now) - begin))"
done </tests/list
echo "vmtest: taint $(cat /proc/sys/kernel/tainted)"
echo "vmtest: done"
poweroff -f
