# A sandbox: namespaces, mounts, and a filter of none.
set -e
bwrap --ro-bind / / true
bwrap --unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
    --proc /proc --dev /dev --tmpfs /tmp --dir /tmp/a --file 3 /tmp/b --chdir /tmp --hostname box --die-with-parent \
    --uid 0 --gid 0 --cap-drop ALL sh -c 'cat /tmp/b; id; hostname; ls /dev' 3< /etc/hostname
! bwrap --ro-bind /nowhere /nowhere true
