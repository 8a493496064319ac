# The life of the packages of rpm in the system $1, which has the layout of Fedora and openSUSE:
# libraries in /usr/lib64. This machine's rpm installs there.
root=$1
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"

inside() {
    chroot "$root" "$@"
}

rpm_there() {
    rpm --root "$root" --dbpath /var/lib/rpm "$@"
}

quietly inside apt-get update
quietly inside apt-get install --yes --no-install-recommends gcc libc6-dev pkg-config binutils
# As every such system has them.
mkdir -p "$root/usr/lib64/pkgconfig" "$root/usr/share/licenses" "$root/usr/lib/sysusers.d"
echo /usr/lib64 >"$root/etc/ld.so.conf.d/lib64.conf"
inside ldconfig

step "what the C library provides is what it says itself"
work=$(mktemp -d)
libraries=$(find "$root/usr/lib" -name 'libc.so.6' -o -name 'libm.so.6' -o -name 'libgcc_s.so.1' \
    -o -name 'ld-linux*.so.*' -o -name 'libdl.so.2' -o -name 'libpthread.so.0' -o -name 'librt.so.1')
{
    echo "Name: system"
    echo "Version: 1"
    echo "Release: 1"
    echo "Summary: what is there already"
    echo "License: none"
    echo "BuildArch: $(uname -m)"
    echo "Provides: /bin/sh /sbin/ldconfig glibc-devel pkgconfig /usr/bin/pkg-config rtld(GNU_HASH)"
    for library in $libraries; do
        echo "$library" | /usr/lib/rpm/elfdeps --provides | sed 's/^/Provides: /'
    done
    echo "%description"
    echo "What is there already."
    echo "%files"
} >"$work/system.spec"
quietly rpmbuild -bb --define "_topdir $work" "$work/system.spec"
mkdir -p "$root/var/lib/rpm"
quietly rpm_there --initdb
quietly rpm_there --install "$work"/RPMS/*/system-*.rpm
rm -r "$work"
files_of "$root" >"$root/life/before"

step "tool, library and development files: installed, used"
quietly rpm_there --install "$root"/life/old/*.rpm
for package in tracer-user tracer-user-ship libposixtrace0 libposixtrace-devel libtracetools-posixtrace; do
    [ "$(rpm_there --query --queryformat '%{RELEASE}' $package)" = 1 ] || fail "$package is not there"
    quietly rpm_there --verify $package
done
traces_the_kernel inside
inside sh -c 'gcc -Wall -Werror -L/usr/lib64 -o /tmp/program /life/program.c \
    $(PKG_CONFIG_PATH=/usr/lib64/pkgconfig pkg-config --cflags --libs posixtrace)'
traces_the_program inside
ships inside
step "a program of ROS 2, with libtracetools preloaded"
preload=/usr/lib64/posixtrace/libtracetools.so
builds_the_robot inside
traces_the_robot "$preload" inside
step "upgraded, used without building anew"
quietly rpm_there --upgrade "$root"/life/new/*.rpm
[ "$(rpm_there --query --queryformat '%{RELEASE}' tracer-user)" = 2 ] || fail "it is not upgraded"
traces_the_kernel inside
traces_the_program inside
traces_the_robot "$preload" inside
step "the library cannot go while its development files are there"
if rpm_there --erase libposixtrace0 >"$notes/said" 2>&1; then fail "it has gone"; fi
step "removed: nothing is left"
quietly rpm_there --erase tracer-user-ship tracer-user libposixtrace0 libposixtrace-devel libtracetools-posixtrace
robot_goes_on "$preload" inside
inside rm /tmp/program
nothing_is_left "$root" "$root/life/before"
