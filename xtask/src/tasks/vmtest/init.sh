#!/busybox/busybox sh
# The first program of the virtual machine: gives it the host's files to read, and a memory for what it changes in them.
export PATH=/busybox
/busybox/busybox --install -s /busybox
mount -t proc proc /proc
mount -t devtmpfs devtmpfs /dev
# Their names are in the order in which they need one another. What a kernel has built in is not among them.
for module in /modules/*; do
    insmod "$module" || echo "vmtest: no module $module"
done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host
mount -t tmpfs tmpfs /changes
mkdir /changes/files /changes/work
mount -t overlay -o lowerdir=/host,upperdir=/changes/files,workdir=/changes/work overlay /machine
cp -r /vmtest /machine/
mount --move /dev /machine/dev
umount /proc
exec switch_root /machine @FIRST@
